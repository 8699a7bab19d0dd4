"""What ``compile`` refuses of PyTorch's modes and options."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.runtime.options import MODES, OTHERS, SWITCHES


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (
            {"mode": "fastest"},
            RuntimeError,
            "Unrecognized mode=fastest, should be one of: default,",
        ),
        ({"options": {"speed": 1}}, RuntimeError, "Unexpected optimization option speed, known"),
        (
            {"options": {"max_autotune": 3}},
            RuntimeError,
            "Unexpected type of attr max_autotune, got int should be bool",
        ),
        ({"options": ["max_autotune"]}, TypeError, "options must be a dict .*, not list"),
        (
            {"mode": "default", "options": {}},
            RuntimeError,
            "Either mode or options can be specified, but both can't be",
        ),
    ],
    ids=["mode", "option", "type", "list", "both"],
)
def test_refused(asked: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        rl.compile(lambda x: x, **asked)
    with pytest.raises(error, match=message):
        rl.compile(**asked)


def test_accepted() -> None:
    for mode in MODES:
        assert rl.compile(lambda x: x + 1, mode=mode)(rl.ones(1)).item() == 2.0
    rl.compile(lambda x: x, options={"triton.cudagraphs": True, "epilogue_fusion": False})
    rl.compile(lambda x: x, options={"max-autotune": True, "compile_threads": 1})
    rl.compile(lambda x: x, backend="eager", mode="its own")


def test_all_that_is_accepted_is_known_to_pytorch() -> None:
    inductor = pytest.importorskip("torch._inductor")
    assert set(inductor.list_mode_options()) <= set(MODES)
    known = inductor.config.get_config_copy()
    assert [name for name in SWITCHES if type(known.get(name, True)) is not bool] == []
    assert {*SWITCHES, *OTHERS} - {"guard_filter_fn"} <= set(known)


def test_a_compiled_function_shows_what_is_of_use() -> None:
    def function(x: Any) -> Any:
        return x

    function.mark = 1  # type: ignore[attr-defined]
    shown = [name for name in dir(rl.compile(function)) if not name.startswith("_")]
    assert shown == sorted(
        ["dynamic", "explain", "fullgraph", "function", "graph", "mark", "name", "reset"]
    )


def test_dynamic_is_a_bool_or_none() -> None:
    with pytest.raises(TypeError, match="dynamic must be True, False or None, not 'yes'"):
        rl.compile(lambda x: x, dynamic="yes")
    assert rl._dynamo.mark_dynamic is rl.mark_dynamic
