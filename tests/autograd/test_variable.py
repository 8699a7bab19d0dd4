"""Variable, the old name of a tensor."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.autograd import Variable


def test_every_tensor_is_a_variable() -> None:
    assert isinstance(rl.ones(2), Variable)
    assert not isinstance([1.0], Variable)


def test_a_variable_is_a_new_leaf_over_the_same_elements() -> None:
    y = rl.ones(2, requires_grad=True) * 2
    x = Variable(y, requires_grad=True)
    assert x.is_leaf
    assert x.requires_grad
    assert type(x) is rl.Tensor
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    with rl.no_grad():
        x.add_(1)
    assert y.tolist() == [3, 3]
    assert not Variable(y).requires_grad


def test_volatile_is_gone() -> None:
    with pytest.warns(UserWarning, match="volatile was removed"):
        x = Variable(rl.ones(2), volatile=True)
    assert not x.requires_grad


def test_only_tensors() -> None:
    with pytest.raises(TypeError, match="has to be a tensor, but got list"):
        Variable([1.0])
