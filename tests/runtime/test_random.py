"""Native draws are NumPy's, bit for bit, and leave the generator in the same state."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from rushlight import generator as streams
from rushlight.codegen.lanes import LANES, Code
from rushlight.codegen.random import CHUNK, DRAWS, fused, module
from rushlight.generator import Generator, Twister
from rushlight.kernels import distributions
from rushlight.kernels.box_muller import normal_pairs
from rushlight.runtime import random as native
from rushlight.runtime.jit import compile_ir, llvm, load, target
from rushlight.runtime.threads import symbols
from tests.waiting import PATIENCE

FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
COUNTS = [*range(21), 31, 32, 33, 623, 624, 625, 1247, CHUNK - 1, CHUNK, CHUNK + 1, 5000, 10007]

PARAMETERS: dict[str, tuple[float, ...]] = {
    "words": (),
    "uniform": (0.3, 0.7),
    "normal": (0.3, 0.7),
    "exponential": (0.3,),
    "bernoulli": (0.3,),
    "integers": (3, 7.0),
    "permutation": (),
}
DRAWERS: dict[str, Callable[[Generator, int], np.ndarray]] = {
    "words": lambda g, n: g.words(n),
    "long words": lambda g, n: g.long_words(n),
    "byte": lambda g, n: distributions.integers(g, (n,), np.uint8, 3, 200),
    "one value": lambda g, n: distributions.integers(g, (n,), np.int64, 7, 8),
    "low": lambda g, n: distributions.integers(g, (n,), np.int64, -(2**63) + 1, 5 - 2**63),
    "widest": lambda g, n: distributions.integers(g, (n,), np.int64, -5, 2**28 - 6),
    "wider": lambda g, n: distributions.integers(g, (n,), np.int64, -5, 2**28),
    "any": lambda g, n: distributions.any_integers(g, (n,), np.int32),
    "permutation": lambda g, n: distributions.permutation(g, n),
    "short permutation": lambda g, n: distributions.permutation(g, n, np.int16),
    "flags": lambda g, n: distributions.bernoulli(g, (n,), np.bool_, 0.3),
    "counts": lambda g, n: distributions.bernoulli(g, (n,), np.int64, 0.3),
    "all": lambda g, n: distributions.bernoulli(g, (n,), np.float32, 1.0),
    "none": lambda g, n: distributions.bernoulli(g, (n,), np.float32, 0.0),
    "normal pairs": lambda g, n: distributions.normal(g, (n,), np.float32, contiguous=False),
    "complex": lambda g, n: distributions.normal(g, (n,), np.complex64, 0.5, 2.0),
    "multinomial": lambda g, n: distributions.multinomial(g, np.ones(n + 1, np.float32), n + 1),
}
for kind in FLOATS:
    name = np.dtype(kind).name
    DRAWERS |= {
        f"rand {name}": lambda g, n, t=kind: distributions.uniform(g, (n,), t),
        f"uniform {name}": lambda g, n, t=kind: distributions.uniform(g, (n,), t, -0.1, 0.3),
        f"coarse {name}": lambda g, n, t=kind: distributions.uniform(g, (n,), t, 1000.0, 1001.0),
        f"randn {name}": lambda g, n, t=kind: distributions.normal(g, (n,), t),
        f"normal {name}": lambda g, n, t=kind: distributions.normal(g, (n,), t, 0.5, 0.02),
        f"exponential {name}": lambda g, n, t=kind: distributions.exponential(g, (n,), t, 1.7),
        f"bernoulli {name}": lambda g, n, t=kind: distributions.bernoulli(g, (n,), t, 0.3),
    }


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a single number is drawn by native code, where that is switched on."""
    monkeypatch.setattr(streams, "_FEW", 1)


def switch(on: bool) -> None:
    streams.native.drawn = streams._PATIENCE
    streams.native.found = native.functions() if on else None


@pytest.fixture(autouse=True)
def switched_back() -> Iterator[None]:
    drawn, found = streams.native.drawn, streams.native.found
    yield
    streams.native.drawn, streams.native.found = drawn, found


def by_both(program: Callable[[Generator], Any], seed: int = 3) -> None:
    """Runs a program by NumPy and by native code, and compares results and states."""
    runs = []
    for on in (False, True):
        switch(on)
        generator = Generator().manual_seed(seed)
        result = program(generator)
        runs.append((*(result if isinstance(result, list) else [result]), generator.get_state()))
    for theirs, ours in zip(*runs, strict=True):
        assert theirs.dtype == ours.dtype
        assert theirs.shape == ours.shape
        assert theirs.tobytes() == ours.tobytes()


def test_native_code_is_there() -> None:
    assert native.functions() is native.draw


@pytest.mark.parametrize("what", DRAWERS)
def test_draws_of_all_sizes(what: str) -> None:
    draw = DRAWERS[what]
    large = what == "multinomial" or "float64" in what or "pairs" in what
    for count in COUNTS if not large else COUNTS[:-2]:
        before = count % 5  # so that pairs of words start at odd places too
        by_both(lambda g, n=count, k=before: [g.words(k), draw(g, n), g.words(1)])


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, np.complex64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("draw", [distributions.uniform, distributions.normal])
def test_samples_are_written_where_they_are_wanted(draw: Any, order: Any, kind: Any) -> None:
    def program(generator: Generator) -> np.ndarray:
        out = np.zeros((7, 50), kind, order)
        assert draw(generator, out.shape, out.dtype, out=out) is out
        return np.ascontiguousarray(out)

    by_both(program)
    np.testing.assert_array_equal(
        program(Generator().manual_seed(8)), draw(Generator().manual_seed(8), (7, 50), kind)
    )


@pytest.mark.parametrize("seed", range(8))
def test_programs_of_mixed_draws(seed: int) -> None:
    def program(generator: Generator) -> list[np.ndarray]:
        chosen = np.random.default_rng(seed)
        names, counts = chosen.choice(list(DRAWERS), 40), chosen.integers(0, 700, 40).tolist()
        return [DRAWERS[name](generator, n) for name, n in zip(names, counts, strict=True)]

    by_both(program, seed)


def test_large_draws() -> None:
    by_both(lambda g: distributions.normal(g, (300_001,), np.float32))
    by_both(lambda g: distributions.uniform(g, (300_001,), np.float32, -1e-3, 3.0))
    by_both(lambda g: distributions.permutation(g, 100_000))


def test_uniform_numbers_stay_below_the_open_end() -> None:
    switch(True)
    sample = distributions.uniform(Generator().manual_seed(0), (1 << 20,), np.float32, 1e6, 1e6 + 1)
    assert 1e6 <= sample.min() < sample.max() < 1e6 + 1


def test_copies_continue_on_their_own() -> None:
    switch(True)
    generator = Generator().manual_seed(1)
    generator.words(1000)
    others = [generator.clone_state(), copy.deepcopy(generator)]
    others.append(pickle.loads(pickle.dumps(generator)))
    samples = [distributions.normal(g, (1000,), np.float32) for g in (generator, *others)]
    for sample in samples[1:]:
        np.testing.assert_array_equal(samples[0], sample)
    assert not np.array_equal(generator.words(1000), generator.words(1000))


def test_seeding_starts_anew() -> None:
    switch(True)
    generator = Generator().manual_seed(5)
    first = generator.words(1000)
    np.testing.assert_array_equal(generator.manual_seed(5).words(1000), first)


def test_threads_share_a_generator() -> None:
    switch(True)
    generator, drawn = Generator().manual_seed(2), []

    def work() -> None:
        drawn.extend([generator.words(5000) for _ in range(50)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # No word is drawn twice, and none is lost.
    expected = Generator().manual_seed(2).words(len(drawn) * 5000)
    np.testing.assert_array_equal(np.sort(np.concatenate(drawn)), np.sort(expected))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_draws_the_same() -> None:
    switch(True)
    generator = Generator().manual_seed(4)
    generator.words(1000)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, distributions.normal(generator, (1000,), np.float32).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 4000), np.float32)
    os.close(read)
    os.close(write)
    np.testing.assert_array_equal(distributions.normal(generator, (1000,), np.float32), theirs)


def test_programs_may_call_the_functions() -> None:
    known = native.function("normal", np.dtype(np.float32))
    assert known is not None
    generator, out = Generator().manual_seed(0), np.empty(100, np.float32)
    state = generator.twister.bits.ctypes.state_address
    context = known.context(0, state, out.ctypes.data, out.size, 0.0, 1.0)
    known.call(ctypes.addressof(context), 0)
    switch(False)
    expected = distributions.normal(Generator().manual_seed(0), (100,), np.float32)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("count", [16, 1000, CHUNK + 15, CHUNK + 16, 5 * CHUNK, 20 * CHUNK + 7])
@pytest.mark.parametrize("key", DRAWS, ids=lambda key: f"{key[0]} {key[1]}")
def test_any_number_of_threads_draws_the_same(key: tuple[str, np.dtype], count: int) -> None:
    before, numbers = rl.get_num_threads(), PARAMETERS[key[0]]
    runs = []
    try:
        for threads in (1, 2, 5):
            rl.set_num_threads(threads)
            bits = Twister(9).bits
            samples = [native.draw(bits, key[0], count, key[1], *numbers) for _ in range(2)]
            runs.append((*[x.tobytes() for x in samples], bits.random_raw(3).tobytes()))
    finally:
        rl.set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("key", DRAWS, ids=lambda key: f"{key[0]} {key[1]}")
def test_the_plainest_processor_draws_the_same(key: tuple[str, np.dtype]) -> None:
    """One without wide vectors and without the fused multiply-add."""
    binding, host, draw = llvm(), target(), DRAWS[key]
    plain = {"x86_64": "x86-64", "aarch64": "generic"}[host.architecture]
    machine = binding.Target.from_triple(host.triple).create_target_machine(
        cpu=plain, features="", opt=2, reloc="pic", codemodel="small"
    )
    code = machine.emit_object(binding.parse_assembly(module(draw)))
    library, known = load([code], symbols()), native.function(*key)
    assert known is not None
    bits, out, numbers = Twister(6).bits, np.empty(5003, draw.dtype), PARAMETERS[draw.what]
    context = known.context(0, bits.ctypes.state_address, out.ctypes.data, out.size, *numbers)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address(draw.name))
    for chunk in range(draw.chunks(out.size)):
        function(ctypes.addressof(context), chunk)
    expected = native.draw(Twister(6).bits, draw.what, out.size, draw.dtype, *numbers)
    assert expected is not None
    assert out.tobytes() == expected.tobytes()


def test_all_fractions_are_transformed_the_same() -> None:
    """NumPy rounds sums of products by way of float64, native code at once."""
    code, kind = Code(), np.dtype(np.float32)
    with code.loop("0", "%count", LANES) as index:
        u = code.load("%u", index, kind, LANES)
        for name, samples in zip(("%cos", "%sin"), normal_pairs(u, u, fused), strict=True):
            code.store(samples, name, index)
    head = "define void @transform(ptr %u, ptr %cos, ptr %sin, i64 %count) {"
    text = "\n".join([*code.declared.values(), head, *code.lines, "  ret void", "}"])
    library = load([compile_ir(text)])
    pointers = [ctypes.c_void_p] * 3
    transform = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(library.address("transform"))
    for start in range(0, 1 << 24, 1 << 20):
        u = np.arange(start, start + (1 << 20), dtype=np.int32).astype(kind) * kind.type(2.0**-24)
        ours = [np.empty_like(u), np.empty_like(u)]
        transform(u.ctypes.data, *[x.ctypes.data for x in ours], len(u))
        for samples, expected in zip(ours, normal_pairs(u, u), strict=True):
            np.testing.assert_array_equal(samples, expected)


PATIENT = """
import sys
import rushlight as rl
rl.manual_seed(0)
small = rl.rand(1000)
assert "llvmlite" not in sys.modules
rl.manual_seed(0)
large = rl.rand(1 << 20)
from rushlight.generator import native
assert native.found is not None
assert (large[:1000] == small).all()
"""
WITHOUT = """
import sys
sys.modules["llvmlite"] = None  # an import of it fails
import rushlight as rl
rl.manual_seed(0)
small = rl.rand(1000)
rl.manual_seed(0)
assert (rl.rand(1 << 20)[:1000] == small).all()
assert rl.randn(1 << 20).shape == (1 << 20,)
"""


@pytest.mark.parametrize("program", [PATIENT, WITHOUT], ids=["patient", "without llvmlite"])
def test_loading(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)


def test_a_state_that_lies_elsewhere_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    native.functions.cache_clear()
    monkeypatch.setattr(native, "state_is_found", lambda: False)
    assert native.functions() is None
    native.functions.cache_clear()


def test_compiled_draws_are_those_of_dynamic_mode() -> None:
    def draws(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        rl.rand(5)  # which nobody needs, but later draws start behind it
        mask = rl.nn.functional.dropout(x, 0.3)
        return mask, rl.randn(100, 40), rl.rand_like(x), x.t().clone().normal_(1, 2)

    switch(True)
    x, compiled = rl.ones(40, 100), rl.compile(draws, fullgraph=True)
    for seed in (0, 0, 1):
        rl.manual_seed(seed)
        ours = [*compiled(x), rl.rand(3)]
        rl.manual_seed(seed)
        for a, b in zip(ours, [*draws(x), rl.rand(3)], strict=True):
            assert rl.equal(a, b)


def test_ops_draw_by_native_code() -> None:
    samples = []
    for on in (False, True):
        switch(on)
        rl.manual_seed(0)
        x = rl.empty(100, 7).t().normal_(1, 2)
        y = rl.nn.functional.dropout(rl.ones(1000), 0.3)
        samples.append([x, y, rl.randn(50, 50), rl.randint(9, (1000,)), rl.randperm(1000)])
    for theirs, ours in zip(*samples, strict=True):
        assert rl.equal(theirs, ours)
