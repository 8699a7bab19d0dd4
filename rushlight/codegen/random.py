"""Native code that draws random numbers from a Mersenne Twister.

Its state is the one that NumPy's ``MT19937`` keeps: 624 words and the position of the next one. The
functions take the words that PyTorch takes on the CPU, in the same order, and agree to the last bit
with :mod:`rushlight.kernels.distributions`, of whose formulas they are made.

A draw is cut into chunks, which several threads may run. The words of a chunk are drawn when its
turn has come, one chunk after the other; what becomes of them is computed at the same time as that
of others. So the samples are the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from rushlight.codegen.instructions import TYPES
from rushlight.codegen.lanes import KINDS, LANES, Code, Lanes
from rushlight.kernels.box_muller import libm_log, normal_pairs

LENGTH, DISTANCE = 624, 397  # words of the state, and how far ahead its recurrence reaches
ONE, TWO, LONG = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.int64)
SINGLE, DOUBLE, BOOL = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_)
BLOCK = 16  # samples that the Box-Muller transform makes at once
CHUNK = 4096  # samples of a chunk; the last one may have up to 15 more


def unchanged(words: Lanes) -> Lanes:
    return words


class Draw(NamedTuple):
    """A function ``void rl_<what>_<kind>(ptr context, i64 chunk)``.

    The context has 8 bytes for each of: the number of the chunk whose turn it is (0 at first), the
    address of the state, that of the samples, their count, and the numbers.

    Args:
        what: the distribution.
        dtype: the type of the samples.
        words: what a sample is made of: one word (uint32), or two (uint64).
        numbers: the types of the parameters.
        write: makes the body of the function.
        formula: the sample of given words, and of the numbers.
    """

    what: str
    dtype: np.dtype
    words: np.dtype
    numbers: tuple[np.dtype, ...]
    write: Callable[[Draw], Code]
    formula: Callable[..., Any] = unchanged

    @property
    def name(self) -> str:
        return f"rl_{self.what}_{KINDS[self.dtype]}"

    def chunks(self, count: int) -> int:
        """How many chunks make that many samples. The last one has 16 or more, if all have."""
        return 1 if self.write is swaps else max(1, (count - BLOCK) // CHUNK + 1)


def module(draw: Draw) -> str:
    """The function, and those that it is made of, as LLVM assembly."""
    functions = {
        f"void @{draw.name}(ptr %context, i64 %chunk)": draw.write(draw),
        "internal void @temper(ptr %from, ptr %to, i64 %size)": temper(),
        "internal void @twist(ptr %state)": twist(),
    }
    text = ["declare i64 @llvm.umin.i64(i64, i64)", "declare void @rl_await(ptr, i64)", WORDS]
    for head, code in functions.items():
        text += [f"define {head} {{", *code.lines, "  ret void", "}"]
    declared = {line for code in functions.values() for line in code.declared.values()}
    return "\n".join([*text, *sorted(declared)])


def fractions(words: Lanes) -> Lanes:
    """Numbers in [0, 1): 24 bits of one word as float32, 53 of two as float64."""
    if words.dtype == np.uint32:
        return (words & (1 << 24) - 1).view(np.int32).astype(np.float32) * 2.0**-24
    return (first_on_top(words) & (1 << 53) - 1).astype(np.float64) * 2.0**-53


def first_on_top(words: Lanes) -> Lanes:
    """Two words that lie in memory one after the other, the first as the high half."""
    return words << 32 | words >> 32


def fused(a: Any, b: Any, c: Any) -> Lanes:
    """``a * b + c`` of lanes, rounded once."""
    result: Lanes = a.fma(b, c)
    return result


def uniform(words: Lanes, low: Lanes, high: Lanes) -> Lanes:
    x = fractions(words)
    low, high = low.astype(x.dtype), high.astype(x.dtype)
    y = fused(x, high - low, low)
    return low.where(y == high, y)  # rounding may have reached the open end


def normal(u: Any, v: Any, mean: Lanes, std: Lanes) -> list[Lanes]:
    u, v = fractions(u), fractions(v)
    scale, shift = std.astype(u.dtype), mean.astype(u.dtype)
    return [fused(x, scale, shift) for x in normal_pairs(u, v, fused)]


def exponential(words: Lanes, rate: Lanes) -> Lanes:
    return 0.0 - libm_log(1 - fractions(words)) * (1 / rate)


def bernoulli(words: Lanes, p: Lanes) -> Lanes:
    return fractions(words) < p


def integers(words: Lanes, first: Lanes, span: Lanes) -> Lanes:
    """``first + words % span``, for a span below 2**28."""
    x = words.astype(np.float64)
    rest = x - np.floor(x * (1 / span)) * span  # exact, of a quotient that may be wrong by one
    rest = (rest + span).where(rest < 0, rest)
    rest = (rest - span).where(rest >= span, rest)
    return rest.astype(np.int32).astype(np.int64) + first


def elements(draw: Draw) -> Code:
    """Sample after sample, each of its words."""
    code = Code()
    begin(code, draw)
    start, size = extent(code, "%chunk", "%count")
    with turn(code):
        draw_words(code, draw, "0", size)
    out = code.pointer("%out", start, draw.dtype)

    def sample(index: str, lanes: int) -> None:
        words = code.load("%scratch", index, draw.words, lanes)
        value = draw.formula(words, *numbers(code, draw, lanes))
        code.store(value.astype(draw.dtype), out, index)

    code.each("0", size, sample)
    return code


def blocks(draw: Draw) -> Code:
    """Samples by blocks; behind the last full one, 16 fresh samples replace the last 16 of all."""
    code = Code()
    begin(code, draw)
    start, size = extent(code, "%chunk", "%count")
    rest = code.let(f"and i64 {size}, {BLOCK - 1}")  # which only the last chunk can have
    full = code.let(f"sub i64 {size}, {rest}")
    some = code.let(f"icmp ne i64 {rest}, 0")
    with turn(code):
        draw_words(code, draw, "0", size)
        draw_words(code, draw, full, code.let(f"select i1 {some}, i64 {BLOCK}, i64 0"))
    out = code.pointer("%out", start, draw.dtype)

    def block(index: str, to: str) -> None:
        halves = [code.let(f"add i64 {index}, {n}") for n in (0, LANES)]
        u, v = [code.load("%scratch", at, draw.words, LANES) for at in halves]
        for n, samples in enumerate(draw.formula(u, v, *numbers(code, draw, LANES))):
            code.store(samples, out, code.let(f"add i64 {to}, {n * LANES}"))

    with code.loop("0", full, BLOCK) as index:
        block(index, index)
    code.write(f"br i1 {some}, label %rest, label %done")
    code.begin("rest")
    block(full, code.let(f"sub i64 {size}, {BLOCK}"))
    code.write("br label %done")
    code.begin("done")
    return code


def swaps(draw: Draw) -> Code:
    """The numbers from 0 on; then step i swaps those at i and at ``i + word % (count - i)``."""
    code = Code()
    begin(code, draw)
    with code.loop("0", "%count", 1) as index:
        code.write(f"store i64 {index}, ptr {code.pointer('%out', index, LONG)}, align 8")
    steps = code.let("sub i64 %count, 1")
    further = code.let(f"sdiv i64 {code.let(f'sub i64 {steps}, {BLOCK}')}, {CHUNK}")
    with code.loop("0", code.let(f"add i64 {further}, 1"), 1) as piece:
        start, size = extent(code, piece, steps)
        draw_words(code, draw, "0", size)
        with code.loop("0", size, 1) as index:
            step = code.let(f"add i64 {start}, {index}")
            left = code.let(f"trunc i64 {code.let(f'sub i64 %count, {step}')} to i32")
            word = code.load("%scratch", index, draw.words, 1).name
            ahead = code.let(f"zext i32 {code.let(f'urem i32 {word}, {left}')} to i64")
            here = code.pointer("%out", step, LONG)
            there = code.pointer(here, ahead, LONG)
            number, other = (code.let(f"load i64, ptr {at}, align 8") for at in (here, there))
            code.write(f"store i64 {number}, ptr {there}, align 8")
            code.write(f"store i64 {other}, ptr {here}, align 8")
    return code


def begin(code: Code, draw: Draw) -> None:
    """Reads the context, and takes memory for the words of a chunk."""
    kinds = [TYPES[KINDS[dtype]] for dtype in draw.numbers]
    fields = {"state": "ptr", "out": "ptr", "count": "i64"}
    fields |= {f"n{i}": kind for i, kind in enumerate(kinds)}
    for place, (name, kind) in enumerate(fields.items(), 1):
        at = code.let(f"getelementptr i64, ptr %context, i64 {place}")
        code.write(f"%{name} = load {kind}, ptr {at}, align 8")
    words = CHUNK + 2 * BLOCK  # up to 15 samples more, and a block that is drawn behind the last
    code.write(f"%scratch = alloca [{words} x {TYPES[KINDS[draw.words]]}], align 64")


def extent(code: Code, chunk: str, count: str) -> tuple[str, str]:
    """The first of a chunk's samples, and how many they are."""
    start = code.let(f"mul i64 {chunk}, {CHUNK}")
    left = code.let(f"sub i64 {count}, {start}")
    last = code.let(f"icmp slt i64 {left}, {CHUNK + BLOCK}")
    return start, code.let(f"select i1 {last}, i64 {left}, i64 {CHUNK}")


@contextmanager
def turn(code: Code) -> Iterator[None]:
    """What chunks do one after the other."""
    code.write("call void @rl_await(ptr %context, i64 %chunk)")
    yield
    following = code.let("add i64 %chunk, 1")
    code.write(f"store atomic i64 {following}, ptr %context release, align 8")


def draw_words(code: Code, draw: Draw, place: str, count: str) -> None:
    """Puts the words of ``count`` samples into ``%scratch``, from a place on."""
    to = code.pointer("%scratch", place, draw.words)
    words = code.let(f"mul i64 {count}, {draw.words.itemsize // ONE.itemsize}")
    code.write(f"call void @words(ptr %state, ptr {to}, i64 {words})")


def numbers(code: Code, draw: Draw, lanes: int) -> list[Lanes]:
    return [code.everywhere(f"%n{i}", dtype, lanes) for i, dtype in enumerate(draw.numbers)]


def twist() -> Code:
    """The next 624 words of the state, each from its old value, the next one and one ahead."""
    code = Code()

    def renew(following: int, ahead: int) -> Callable[[str, int], None]:
        def words(index: str, lanes: int) -> None:
            places = [code.let(f"add i64 {index}, {n}") for n in (0, following, ahead)]
            old, after, far = [code.load("%state", place, ONE, lanes) for place in places]
            mixed = (old & 0x80000000 | after & 0x7FFFFFFF) >> 1
            code.store(far ^ mixed ^ -(after & 1) & 0x9908B0DF, "%state", index)

        return words

    # Beyond the end, what lies ahead is what this pass has written.
    turn, last = LENGTH - DISTANCE, LENGTH - 1
    code.each("0", f"{turn}", renew(1, DISTANCE))
    code.each(f"{turn}", f"{last}", renew(1, -turn))
    renew(-last, -turn)(f"{last}", 1)
    return code


def temper() -> Code:
    """Words of the state as they are given out."""
    code = Code()

    def word(index: str, lanes: int) -> None:
        y = code.load("%from", index, ONE, lanes)
        y ^= y >> 11
        y ^= y << 7 & 0x9D2C5680
        y ^= y << 15 & 0xEFC60000
        y ^= y >> 18
        code.store(y, "%to", index)

    code.each("0", "%size", word)
    return code


WORDS = f"""
define internal void @words(ptr %state, ptr %out, i64 %count) {{
entry:
  %position.at = getelementptr i32, ptr %state, i64 {LENGTH}
  br label %next

next:
  %done = phi i64 [ 0, %entry ], [ %end, %take ]
  %left = sub i64 %count, %done
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %look, label %return

look:
  %position.now = load i32, ptr %position.at, align 4
  %used = icmp eq i32 %position.now, {LENGTH}
  br i1 %used, label %renew, label %take

renew:
  call void @twist(ptr %state)
  br label %take

take:
  %position.short = phi i32 [ %position.now, %look ], [ 0, %renew ]
  %position = zext i32 %position.short to i64
  %room = sub i64 {LENGTH}, %position
  %size = call i64 @llvm.umin.i64(i64 %left, i64 %room)
  %from = getelementptr i32, ptr %state, i64 %position
  %to = getelementptr i32, ptr %out, i64 %done
  call void @temper(ptr %from, ptr %to, i64 %size)
  %position.after = add i64 %position, %size
  %position.kept = trunc i64 %position.after to i32
  store i32 %position.kept, ptr %position.at, align 4
  %end = add i64 %done, %size
  br label %next

return:
  ret void
}}
"""

DRAWS = {
    (draw.what, draw.dtype): draw
    for draw in (
        Draw("words", ONE, ONE, (), elements),
        Draw("words", TWO, TWO, (), elements, first_on_top),
        Draw("uniform", SINGLE, ONE, (DOUBLE, DOUBLE), elements, uniform),
        Draw("uniform", DOUBLE, TWO, (DOUBLE, DOUBLE), elements, uniform),
        Draw("normal", SINGLE, ONE, (DOUBLE, DOUBLE), blocks, normal),
        Draw("normal", DOUBLE, TWO, (DOUBLE, DOUBLE), blocks, normal),
        Draw("exponential", SINGLE, TWO, (DOUBLE,), elements, exponential),
        Draw("exponential", DOUBLE, TWO, (DOUBLE,), elements, exponential),
        Draw("bernoulli", SINGLE, TWO, (DOUBLE,), elements, bernoulli),
        Draw("bernoulli", BOOL, TWO, (DOUBLE,), elements, bernoulli),
        Draw("integers", LONG, ONE, (LONG, DOUBLE), elements, integers),
        Draw("permutation", LONG, ONE, (), swaps),
    )
}
"""All functions. ``normal`` wants 16 samples or more, ``permutation`` at most 2**32 - 1."""
