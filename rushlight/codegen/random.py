"""Native code that draws random numbers from a Mersenne Twister.

Its state is the one that NumPy's ``MT19937`` keeps: 624 words and the position of the next one. The
functions take the words that PyTorch takes on the CPU, in the same order, and agree to the last bit
with :mod:`rushlight.kernels.distributions`, of whose formulas they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from rushlight.codegen.instructions import TYPES
from rushlight.codegen.lanes import KINDS, LANES, Code, Lanes
from rushlight.kernels.box_muller import libm_log, normal_pairs
from rushlight.kernels.multiply_add import multiply_add

LENGTH, DISTANCE = 624, 397  # words of the state, and how far ahead its recurrence reaches
ONE, TWO, LONG = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.int64)
SINGLE, DOUBLE, BOOL = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_)
BLOCK = 16  # samples that the Box-Muller transform makes at once
CHUNK = 2048  # samples whose words wait in the first-level cache


def unchanged(words: Lanes) -> Lanes:
    return words


class Draw(NamedTuple):
    """A function ``void rl_<what>_<kind>(ptr state, ptr out, i64 count, numbers…)``.

    Args:
        what: the distribution.
        dtype: the type of the samples that it writes to ``out``.
        words: what a sample is made of: one word (uint32), or two (uint64).
        numbers: the types of the further arguments.
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


def module(draw: Draw) -> str:
    """The function, and those that it is made of, as LLVM assembly."""
    numbers = [f", {TYPES[KINDS[dtype]]} %n{i}" for i, dtype in enumerate(draw.numbers)]
    functions = {
        f"void @{draw.name}(ptr %state, ptr %out, i64 %count{''.join(numbers)})": draw.write(draw),
        "internal void @temper(ptr %from, ptr %to, i64 %size)": temper(),
        "internal void @twist(ptr %state)": twist(),
    }
    text = ["declare i64 @llvm.umin.i64(i64, i64)", WORDS]
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


def affine(x: Any, scale: Any, shift: Any) -> Any:
    """``x * scale + shift``, rounded once."""
    return multiply_add(x, scale, shift) if x.dtype == np.float32 else x.fma(scale, shift)


def uniform(words: Lanes, low: Lanes, high: Lanes) -> Lanes:
    x = fractions(words)
    low, high = low.astype(x.dtype), high.astype(x.dtype)
    y = affine(x, high - low, low)
    return low.where(y == high, y)  # rounding may have reached the open end


def normal(u: Any, v: Any, mean: Lanes, std: Lanes) -> list[Lanes]:
    u, v = fractions(u), fractions(v)
    scale, shift = std.astype(u.dtype), mean.astype(u.dtype)
    return [affine(x, scale, shift) for x in normal_pairs(u, v)]


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
    with chunks(code, "%count", draw) as (start, size):
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

    def block(out: str, index: str) -> None:
        second = code.let(f"add i64 {index}, {LANES}")
        u, v = [code.load("%scratch", at, draw.words, LANES) for at in (index, second)]
        pair = draw.formula(u, v, *numbers(code, draw, LANES))
        for samples, at in zip(pair, (index, second), strict=True):
            code.store(samples, out, at)

    with chunks(code, "%count", draw) as (start, size):
        out = code.pointer("%out", start, draw.dtype)
        with code.loop("0", size, BLOCK) as index:
            block(out, index)
    rest = code.let(f"and i64 %count, {BLOCK - 1}")
    some = code.let(f"icmp ne i64 {rest}, 0")
    code.write(f"br i1 {some}, label %rest, label %done")
    code.begin("rest")
    draw_words(code, f"{BLOCK * per_sample(draw)}")
    block(code.pointer("%out", code.let(f"sub i64 %count, {BLOCK}"), draw.dtype), "0")
    code.write("br label %done")
    code.begin("done")
    return code


def swaps(draw: Draw) -> Code:
    """The numbers from 0 on; then step i swaps those at i and at ``i + word % (count - i)``."""
    code = Code()
    with code.loop("0", "%count", 1) as index:
        code.write(f"store i64 {index}, ptr {code.pointer('%out', index, LONG)}, align 8")
    steps = code.let("sub i64 %count, 1")
    with chunks(code, steps, draw) as (start, size), code.loop("0", size, 1) as index:
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


@contextmanager
def chunks(code: Code, count: str, draw: Draw) -> Iterator[tuple[str, str]]:
    """Chunk after chunk of samples, whose words are in ``%scratch``: its start and its size."""
    # In front of all else: an alloca in a loop would take the stack again in each turn.
    code.lines.insert(1, f"  %scratch = alloca [{CHUNK} x {TYPES[KINDS[draw.words]]}], align 64")
    whole = code.let(f"add i64 {count}, {CHUNK - 1}")
    with code.loop("0", code.let(f"sdiv i64 {whole}, {CHUNK}"), 1) as chunk:
        start = code.let(f"mul i64 {chunk}, {CHUNK}")
        left = code.let(f"sub i64 {count}, {start}")
        size = code.let(f"call i64 @llvm.umin.i64(i64 {left}, i64 {CHUNK})")
        draw_words(code, code.let(f"mul i64 {size}, {per_sample(draw)}"))
        yield start, size


def draw_words(code: Code, count: str) -> None:
    code.write(f"call void @words(ptr %state, ptr %scratch, i64 {count})")


def per_sample(draw: Draw) -> int:
    return draw.words.itemsize // ONE.itemsize


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
