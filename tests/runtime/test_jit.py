"""LLVM assembly to callable functions: results, errors, lifetimes, threads."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from rushlight.config import config
from rushlight.runtime import jit
from rushlight.runtime.host import WIDTHS

ADD = "define i64 @add(i64 %a, i64 %b) { %c = add i64 %a, %b ret i64 %c }"


def call(library: jit.Library, name: str, *numbers: int) -> int:
    kinds = [ctypes.c_int64] * len(numbers)
    return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(library.address(name))(*numbers)


@pytest.mark.parametrize("codegen", [0, 1, 2, 3])
def test_every_level_computes_the_same(codegen: int) -> None:
    assert call(jit.load([jit.compile_ir(ADD, codegen)]), "add", 2, 3) == 5


def test_objects_see_each_other_the_process_and_given_symbols() -> None:
    caller = """
    declare i64 @add(i64, i64)
    declare i64 @given(i64)
    declare i64 @labs(i64)
    define i64 @all(i64 %x) {
      %a = call i64 @labs(i64 %x)
      %b = call i64 @add(i64 %a, i64 1)
      %c = call i64 @given(i64 %b)
      ret i64 %c
    }"""
    given = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 10 * x)
    symbols = {"given": ctypes.cast(given, ctypes.c_void_p).value or 0}
    library = jit.load([jit.compile_ir(ADD), jit.compile_ir(caller)], symbols)
    assert call(library, "all", -4) == 50


def test_library_functions_that_llvm_inserts_are_found() -> None:
    text = """
    declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
    declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
    define void @fill(ptr %to, ptr %from, i64 %size) {
      call void @llvm.memset.p0.i64(ptr %from, i8 7, i64 %size, i1 false)
      call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
      ret void
    }"""
    library = jit.load([jit.compile_ir(text)])
    to, source = ctypes.create_string_buffer(100), ctypes.create_string_buffer(100)
    kinds = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    ctypes.CFUNCTYPE(None, *kinds)(library.address("fill"))(to, source, 100)
    assert to.raw == b"\7" * 100


def test_bad_assembly_names_the_function_and_the_line() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)the module of wrong: .*:2:\d+: error"):
        jit.compile_ir("define i64 @wrong() {\n  ret i32 4\n}")
    with pytest.raises(RuntimeError, match="a module without functions"):
        jit.compile_ir("nonsense")


def test_unknown_symbols_and_damaged_objects_are_errors() -> None:
    code = jit.compile_ir(
        "declare void @nowhere() define void @f() { call void @nowhere() ret void }"
    )
    with pytest.raises(RuntimeError, match=r"cannot link f: .* needs a symbol"):
        jit.load([code]).address("f")
    with pytest.raises(RuntimeError, match="cannot link absent"):
        jit.load([jit.compile_ir(ADD)]).address("absent")
    with pytest.raises(RuntimeError, match="cannot load the object code"):
        jit.load([code[:100]])


def test_libraries_with_equal_names_are_apart_and_freed_one_by_one() -> None:
    texts = [
        f"define i64 @f() {{ ret i64 {i} }} define i64 @g() {{ ret i64 {-i} }}" for i in range(9)
    ]
    libraries = [jit.load([jit.compile_ir(text)]) for text in texts]
    assert [call(library, "f") for library in libraries] == list(range(9))
    del libraries[::2]
    gc.collect()
    assert [call(library, "g") for library in libraries] == [-1, -3, -5, -7]


def test_many_threads_compile_load_and_free() -> None:
    def work(i: int) -> int:
        text = f"define i64 @f(i64 %x) {{ %y = add i64 %x, {i} ret i64 %y }}"
        return call(jit.load([jit.compile_ir(text)]), "f", 1)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(100))) == [i + 1 for i in range(100)]


def test_vector_width_is_the_machines_or_the_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = jit.target()
    widths = {"+avx512vl": 64, "+avx": 32}
    there = [width for feature, width in widths.items() if feature in machine.features]
    assert machine.vector_bytes == max(there, default=16)
    for width in WIDTHS:
        monkeypatch.setattr(config, "vector_bytes", width)
        assert jit.target().vector_bytes == width
    monkeypatch.setattr(config, "vector_bytes", 24)
    with pytest.raises(ValueError, match="must be 0, 16, 32 or 64, but got 24"):
        jit.target()


def test_llvmlite_is_loaded_on_the_first_compilation_only() -> None:
    code = "import sys, rushlight, rushlight.runtime.threads; assert 'llvmlite' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
