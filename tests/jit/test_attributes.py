"""Plain attributes of modules in files."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest

import rushlight as rl
from rushlight.io import CheckpointError
from rushlight.io.checkpoint import write
from rushlight.jit import files
from rushlight.jit.attributes import DEEPEST, attributes_of, is_plain


class Net(rl.nn.Module):
    __constants__ = ("classes",)
    classes = 7

    def __init__(self) -> None:
        super().__init__()
        self.body = rl.nn.Sequential(rl.nn.Linear(3, 2), rl.nn.Dropout(0.25))
        self.labels, self.rate, self.nothing = ["cat", "dog"], 0.5, None
        self.table = {"a": (1, True), 3: [math.inf]}
        self.activation = rl.tanh

    def forward(self, x: Any) -> Any:
        return self.activation(self.body(x))


def again(module: Any) -> Any:
    return rl.jit.load(io.BytesIO(module.save_to_buffer()))


def test_plain_attributes_are_there_after_loading() -> None:
    loaded = again(again(rl.jit.trace(Net().eval(), rl.ones(1, 3))))
    found = loaded.labels, loaded.rate, loaded.nothing, loaded.classes
    assert found == (["cat", "dog"], 0.5, None, 7)
    assert loaded.table == {"a": (1, True), 3: [math.inf]}
    assert loaded.get_submodule("body.0").in_features == 3
    assert loaded.get_submodule("body.1").p == 0.25


def test_what_is_left_out_is_named() -> None:
    loaded = again(again(rl.jit.trace(Net(), rl.ones(1, 3))))
    with pytest.raises(AttributeError, match="no 'activation' in its file: it is a function"):
        _ = loaded.activation
    with pytest.raises(AttributeError, match="no attribute 'unheard'"):
        _ = loaded.unheard


def test_names_that_tensors_or_modules_have_come_first() -> None:
    net = rl.nn.Linear(2, 2)
    net.__dict__["forward"] = 3
    kept, others = attributes_of(net, ["in_features"])
    assert kept == {"out_features": 2}
    assert not others


def test_plain_values() -> None:
    nested: Any = []
    for _ in range(DEEPEST + 2):
        nested = [nested]
    assert all([is_plain(x) for x in (None, True, 1, 0.5, "x", [], ((1,),), {"a": {2: []}})])
    assert not any([is_plain(x) for x in (rl.ones(1), {1.5: 2}, {*()}, nested, [rl.float32])])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("methods", ["forward"]),
        ("methods", [["forward"], "forward"]),
        ("methods", ["train", "forward"]),
        ("methods", None),
        ("attributes", {"forward": 1}),
        ("attributes", {"bias": 1}),
        ("attributes", {"a": 1, "a.b": 2}),
        ("attributes", {"": 1}),
        ("attributes", [1]),
        ("left_out", 3),
    ],
)
def test_damaged_fields_are_refused(
    field: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(index: Any, *rest: Any) -> None:
        write(index | {field: value}, *rest)

    monkeypatch.setattr(files, "write", damaged)
    data = rl.jit.trace(rl.nn.Linear(2, 2), rl.ones(1, 2)).save_to_buffer()
    with pytest.raises(CheckpointError):
        rl.jit.load(io.BytesIO(data))
