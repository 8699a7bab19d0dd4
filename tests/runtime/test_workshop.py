"""Compiling beside: modules of kernels, functions that are shared, and what goes wrong."""

from __future__ import annotations

import ctypes
import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from rushlight.runtime import natives, workshop
from rushlight.runtime.jit import compile_ir, load
from rushlight.runtime.program import KernelStep, Program
from rushlight.runtime.workshop import Workshop


def text(name: str, number: int) -> str:
    return f"define i64 @{name}() {{\nret i64 {number}\n}}"


def value(code: bytes, name: str) -> int:
    library = load([code])
    return ctypes.CFUNCTYPE(ctypes.c_int64)(library.address(name))()


@pytest.mark.parametrize("enough", [1, 100, 10**6])
def test_kernels_are_in_the_modules_that_say_so(
    enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workshop, "ENOUGH", enough)
    with Workshop() as shop:
        for n in range(7):
            shop.kernel(f"f{n}", text(f"f{n}", n))
        modules = shop.modules(Program())
    assert [name for m in modules for name in m.names] == [f"f{n}" for n in range(7)]
    assert len(modules) == {1: 7, 100: 2, 10**6: 1}[enough]
    for m in modules:
        assert [value(m.code, name) for name in m.names] == [int(name[1:]) for name in m.names]


def test_a_shared_function_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(natives, "address", made.append)
    with Workshop() as shop:
        shop.share(["fill_u8", "chain_u8"])
        shop.share(["fill_u8"])
    assert sorted(made) == ["chain_u8", "fill_u8"]


def test_all_that_a_program_needs_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(natives, "address", made.append)
    program = Program(kernels={"a": text("a", 1), "b": text("b", 2)})
    program.steps.append(KernelStep("fill_u8", (), 1, 1, 0, shared=True))
    program.steps.append(KernelStep("a", (), 1, 1, 0))
    program.functions += [("contract_f32", True), ("b", False)]
    with Workshop() as shop:
        shop.kernel("a", program.kernels["a"])
        (module,) = shop.modules(program)
    assert module.names == ["a", "b"]
    assert (value(module.code, "a"), value(module.code, "b")) == (1, 2)
    assert sorted(made) == ["contract_f32", "fill_u8"]


def test_programs_have_kernels_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    with Workshop() as shop:
        shop.kernel("own", text("own", 1))
        (first,) = shop.modules(Program())
    monkeypatch.setattr(workshop, "object_code", None)
    with Workshop() as shop:
        shop.kernel("own", text("own", 1))
        assert shop.modules(Program()) == [first]


def test_kernels_that_no_program_has_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(workshop, "object_code", lambda t: made.append(t) or compile_ir(t))
    for _ in range(2):
        with Workshop() as shop:
            shop.kernel("brief", text("brief", 1))
            shop.modules(Program())
        del shop
        gc.collect()
    assert len(made) == 2


def test_what_llvm_refuses_is_said() -> None:
    with Workshop() as shop:
        shop.kernel("wrong", "define i64 @wrong() {\nret i32 4\n}")
        with pytest.raises(RuntimeError, match="LLVM refuses the module of wrong"):
            shop.modules(Program())
        shop.tasks.clear()


def test_threads_compile_side_by_side() -> None:
    texts = [text(f"g{n}", 7 * n) for n in range(40)]
    with ThreadPoolExecutor(4) as threads:
        codes = list(threads.map(compile_ir, texts))
    assert [value(code, f"g{n}") for n, code in enumerate(codes)] == [7 * n for n in range(40)]


def test_a_shared_function_of_several_threads_is_one() -> None:
    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(natives.address, ["fold_f32_f32"] * 8))
    assert len(found) == 1
