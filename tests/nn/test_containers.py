"""Sequential, lists and dictionaries of modules and parameters."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import rushlight as rl
from rushlight import nn


def three() -> list[nn.Module]:
    return [nn.Linear(1, 2), nn.Identity(), nn.Linear(2, 1)]


def test_sequential_calls_one_after_the_other() -> None:
    a, b, c = three()
    x = rl.ones(4, 1)
    assert rl.equal(nn.Sequential(a, b, c)(x), c(b(a(x))))


def test_sequential_is_a_sequence() -> None:
    a, b, c = three()
    s = nn.Sequential(a, b, c)
    assert list(s) == [a, b, c]
    assert s[-1] is c
    assert list(s[1:]) == [b, c]
    assert list(s.insert(1, c)) == [a, c, b, c]
    assert s.pop(0) is a
    assert list(s._modules) == ["0", "1", "2"]
    assert list(s + nn.Sequential(a)) == [c, b, c, a]
    assert list(s[:1] * 2) == [c, c]
    s += nn.Sequential(a)
    del s[:2]
    assert list(s) == [c, a]


def test_sequential_of_names() -> None:
    a, b, _ = three()
    s = nn.Sequential(OrderedDict(first=a, second=b))
    assert s.first is a
    assert list(s.state_dict()) == ["first.weight", "first.bias"]
    assert list(s[1:]._modules) == ["second"]


def test_sequential_refuses_what_is_no_module() -> None:
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.Sequential(3)
    with pytest.raises(TypeError, match=r"list is not a Module .* nn.Sequential\(\*layers\)"):
        nn.Sequential([nn.ReLU()])
    with pytest.raises(IndexError, match="index 5 is out of range"):
        _ = nn.Sequential()[5]
    with pytest.raises(ValueError, match="supports only objects of Sequential class"):
        nn.Sequential() + 3


def test_lists_of_modules() -> None:
    a, b, c = three()
    s = nn.ModuleList([a, b])
    s.append(c)
    s.insert(0, c)
    assert list(s) == [c, a, b, c]
    assert s.pop(0) is c
    assert [n for n, _ in s.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    with pytest.raises(TypeError, match="called with an iterable, but got int"):
        s.extend(3)


def test_dictionaries_of_modules() -> None:
    a, b, _ = three()
    d = nn.ModuleDict({"a": a})
    d["b"] = b
    assert "b" in d
    assert d.pop("a") is a
    assert list(d.items()) == [("b", b)]
    with pytest.raises(ValueError, match="#0 has length 3; 2 is required"):
        d.update([(1, 2, 3)])
    with pytest.raises(KeyError, match="attribute 'keys' already exists"):
        d["keys"] = a


def test_lists_of_parameters() -> None:
    s = nn.ParameterList([rl.zeros(2), "text"])
    s.append(rl.ones(1))
    assert [n for n, _ in s.named_parameters()] == ["0", "2"]
    assert isinstance(s[0], nn.Parameter)
    assert s[1] == "text"
    assert len(s[1:]) == 2
    with pytest.raises(RuntimeError, match="should not be called"):
        s(1)


def test_dictionaries_of_parameters() -> None:
    d = nn.ParameterDict({"b": rl.zeros(2), "a": rl.zeros(1)})
    assert list(d) == ["a", "b"]
    assert isinstance(d["a"], nn.Parameter)
    assert list(d | nn.ParameterDict({"c": rl.ones(1)})) == ["a", "b", "c"]
    assert d.popitem()[0] == "b"
    assert list(d.state_dict()) == ["a"]
    with pytest.raises(TypeError, match="not a string"):
        _ = d[3]
