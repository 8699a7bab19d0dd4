"""Our linker of object code: results, calls, lifetimes; damaged files; relocations of ARM."""

from __future__ import annotations

import ctypes
import gc
import platform
import random
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from rushlight.runtime import jit, objects
from rushlight.runtime.host import llvm
from rushlight.runtime.objects import Image

MACHINE = platform.machine()
linux = pytest.mark.skipif(sys.platform != "linux", reason="ELF files on Linux")

TEXT = """
declare float @llvm.sqrt.f32(float)
declare double @fmod(double, double)
declare i64 @given(i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal i64 @twice(i64 %x) noinline {
  %y = mul i64 %x, 2
  ret i64 %y
}

define double @constants(double %x) {
  %a = fmul double %x, 0x400921FB54442D18
  %b = fadd double %a, 0x3FF3C0CA428C59FB
  %c = call double @fmod(double %b, double 3.0)
  ret double %c
}

define <8 x float> @vector(<8 x float> %x) {
  %y = fadd <8 x float> %x, <float 1.5, float 2.5, float 3.5, float 4.5,
                             float 5.5, float 6.5, float 7.5, float 8.5>
  ret <8 x float> %y
}

define i64 @calls(i64 %x) {
  %a = call i64 @twice(i64 %x)
  %b = call i64 @given(i64 %a)
  ret i64 %b
}

define void @copy(ptr %to, ptr %from, i64 %size) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  ret void
}
"""


@pytest.fixture(scope="module")
def code() -> bytes:
    return jit.compile_ir(TEXT)


@linux
def test_code_runs_with_constants_and_calls_in_and_out(code: bytes) -> None:
    given = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 10 * x)
    library = objects.mapped(code, {"given": ctypes.cast(given, ctypes.c_void_p).value or 0})
    double = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    expected = np.fmod(2.0 * 3.141592653589793 + 1.2345678901234, 3.0)
    assert double(library.address("constants"))(2.0) == pytest.approx(expected, abs=1e-9)
    integer = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert integer(library.address("calls"))(4) == 80
    to, source = ctypes.create_string_buffer(100), ctypes.create_string_buffer(b"a" * 100)
    copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    copy(library.address("copy"))(to, source, 100)
    assert to.raw == b"a" * 100
    with pytest.raises(RuntimeError, match="cannot link twice: it is not defined"):
        library.address("twice")


@linux
def test_memory_is_executable_but_not_writable_and_freed_with_the_library(code: bytes) -> None:
    library = objects.mapped(code, {"given": 0})
    begin = library.address("constants") & -4096

    def rights() -> str:
        with open("/proc/self/maps") as file:
            for line in file:
                bounds, kind, *_ = line.split()
                low, high = [int(part, 16) for part in bounds.split("-")]
                if low <= begin < high:
                    return kind
        return ""

    assert rights() == "r-xp"
    del library
    gc.collect()
    assert rights() != "r-xp"


@linux
def test_libraries_come_and_go() -> None:
    texts = [f"define i64 @f() {{ ret i64 {i} }}" for i in range(9)]
    libraries = [objects.mapped(jit.compile_ir(text), {}) for text in texts]
    del libraries[::2]
    integer = ctypes.CFUNCTYPE(ctypes.c_int64)
    assert [integer(library.address("f"))() for library in libraries] == [1, 3, 5, 7]


@linux
@pytest.mark.parametrize(
    "text",
    [
        "@state = global i64 7 define ptr @f() { ret ptr @state }",
        "declare i64 @labs(i64) define i64 @f(i64 %x) { %y = call i64 @labs(i64 %x) ret i64 %y }",
    ],
    ids=["data", "foreign"],
)
def test_what_is_not_known_is_left_to_llvm(text: str) -> None:
    code = jit.compile_ir(text)
    with pytest.raises(objects.Unknown):
        objects.mapped(code, {})
    assert jit.load([code]).address("f")


@linux
def test_other_formats_and_machines_are_left_to_llvm(code: bytes) -> None:
    for other in (b"\xcf\xfa\xed\xfe" + code[4:], code[:18] + b"\x28\0" + code[20:], b""):
        with pytest.raises(objects.Unknown):
            Image(other, {"given": 0}, MACHINE)


def outcome(code: bytes) -> str:
    try:
        Image(code, {"given": 0}, MACHINE).at(1 << 40)
    except objects.Unknown:
        return "unknown"
    except RuntimeError as error:
        return "damaged" if "the object code, which is damaged" in str(error) else str(error)
    return "whole"


@linux
def test_every_truncation_is_an_error(code: bytes) -> None:
    assert outcome(code) == "whole"
    found = [outcome(code[:size]) for size in range(len(code))]
    assert set(found) == {"unknown", "damaged"}
    assert found.count("unknown") == 4  # the magic is not there


@linux
def test_no_garbled_byte_is_followed_out_of_the_file(code: bytes) -> None:
    chance = random.Random(0)
    found = set()
    for at in range(len(code)):
        for _ in range(2):
            garbled = bytearray(code)
            garbled[at] = chance.randrange(256)
            found.add(outcome(bytes(garbled)))
    for _ in range(500):
        garbled = bytearray(code)
        at = chance.randrange(len(code) - 8)
        garbled[at : at + 8] = chance.randbytes(8)
        found.add(outcome(bytes(garbled)))
    assert found == {"whole", "unknown", "damaged"}


@linux
def test_programs_from_disk_need_no_llvm(tmp_path: Any) -> None:
    code = """
import sys
import rushlight as rl
x = rl.arange(1000.0)
w = rl.ones(1000, requires_grad=True)
optimizer = rl.optim.Adam([w])
def step(x):
    optimizer.zero_grad()
    loss = (w * x).exp().sum()
    loss.backward()
    optimizer.step()
    return loss
rl.compile(step, fullgraph=True)(x * 1e-3)
rl.softmax(rl.randn(300, 300), 1)
rl.optim.Adam([w]).step()
print("llvmlite" in sys.modules)
"""
    environment = {"RUSHLIGHT_CACHE_DIR": str(tmp_path), "PATH": ""}
    path = [p for p in sys.path if p]
    environment["PYTHONPATH"] = ":".join([".", *path])
    command = [sys.executable, "-c", code]
    runs = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stdout.strip() for run in runs] == ["True", "False"]


def arm_code(text: str) -> bytes:
    binding = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("aarch64-unknown-linux-gnu")
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel="small")
    return bytes(machine.emit_object(binding.parse_assembly(text)))


def words(data: bytes, begin: int, count: int) -> list[int]:
    return list(struct.unpack_from(f"<{count}I", data, begin))


def signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def test_loads_of_arm_find_their_constants() -> None:
    text = """
    define <16 x i8> @bytes(<16 x i8> %x) {
      %y = xor <16 x i8> %x, <i8 1, i8 9, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8,
                              i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16>
      ret <16 x i8> %y
    }
    define <2 x float> @pair(<2 x float> %x) {
      %y = fadd <2 x float> %x, <float 0x3FF3C0CA40000000, float 0x400921FB60000000>
      ret <2 x float> %y
    }"""
    base = 0x7F12_3456_7000
    made = Image(arm_code(text), {}, "aarch64")
    data = made.at(base)
    expected = {
        "bytes": (4, bytes([1, 9, *range(3, 17)])),
        "pair": (3, struct.pack("<2f", 1.2345678806304932, 3.1415927410125732)),
    }
    for name, (shift, constant) in expected.items():
        begin = made.functions[name]
        seen = words(data, begin, 4)
        (page,) = [i for i, word in enumerate(seen) if word & 0x9F000000 == 0x90000000]  # adrp
        (load,) = [word for word in seen if word & 0x3B000000 == 0x39000000]  # ldr
        distance = signed((seen[page] >> 5 & 0x7FFFF) << 2 | seen[page] >> 29 & 3, 21)
        address = ((base + begin + 4 * page) & -4096) + distance * 4096
        address += (load >> 10 & 0xFFF) << shift
        assert data[address - base :][: len(constant)] == constant


def test_calls_of_arm_go_to_a_jump_that_knows_the_address() -> None:
    text = """
    declare i64 @given(i64)
    define i64 @calls(i64 %x) {
      %a = call i64 @given(i64 %x)
      %b = add i64 %a, 1
      ret i64 %b
    }"""
    address = 0x0123_4567_89AB_CDEF
    made = Image(arm_code(text), {"given": address}, "aarch64")
    base = 0x7F12_3456_7000
    data, begin = made.at(base), made.functions["calls"]
    ((at, branch),) = [
        (begin + 4 * i, word)
        for i, word in enumerate(words(data, begin, 6))
        if word >> 26 == 0b100101
    ]
    jump = at + 4 * signed(branch & 0x3FFFFFF, 26)
    assert words(data, jump, 2) == [0x58000050, 0xD61F0200]  # ldr x16, 8; br x16
    assert struct.unpack_from("<Q", data, jump + 8) == (address,)
