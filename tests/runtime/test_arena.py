"""Plans of memory: no overlap, little waste."""

from __future__ import annotations

import random

import pytest

from rushlight.runtime.arena import Arena, Block, Plan, plan


def busiest(blocks: list[Block]) -> int:
    """The bytes alive in the busiest step: no plan needs less."""
    change: dict[int, int] = {}
    for block in blocks:
        change[block.first] = change.get(block.first, 0) + block.size
        change[block.last + 1] = change.get(block.last + 1, 0) - block.size
    most = alive = 0
    for step in sorted(change):
        alive += change[step]
        most = max(most, alive)
    return most


def check(blocks: list[Block], planned: Plan) -> None:
    order = sorted(range(len(blocks)), key=lambda i: planned.offsets[i])
    for position, i in enumerate(order):
        start, block = planned.offsets[i], blocks[i]
        assert start >= 0
        assert start % block.alignment == 0
        assert start + block.size <= planned.size or block.size == 0
        for j in order[position + 1 :]:
            if planned.offsets[j] >= start + block.size:
                break
            apart = blocks[j].first > block.last or blocks[j].last < block.first
            assert apart or blocks[j].size == 0 or block.size == 0, (block, blocks[j])


@pytest.mark.parametrize("seed", range(40))
def test_random_blocks_do_not_overlap(seed: int) -> None:
    chance = random.Random(seed)
    steps = chance.choice((1, 5, 50, 500))
    blocks = []
    for _ in range(chance.randrange(300)):
        first = chance.randrange(steps)
        last = min(first + int(chance.expovariate(1 / chance.choice((1, 10, 100)))), steps - 1)
        size = chance.choice((0, 1, 4, 100, 4096, 1 << 20)) * chance.randint(1, 9)
        blocks.append(Block(size, first, last, chance.choice((1, 64, 64, 64, 4096))))
    check(blocks, plan(blocks))


def test_stacked_lifetimes_waste_little() -> None:
    """Activations live from the forward pass to their turn in the backward one."""
    chance, count = random.Random(0), 400
    blocks = []
    for i in range(count):
        size = 64 * chance.randint(1, 10_000)
        blocks += [Block(size, i, 2 * count - i), Block(size, 2 * count - i - 1, 2 * count - i + 1)]
    planned = plan(blocks)
    check(blocks, planned)
    assert planned.size <= 1.02 * busiest(blocks)


def test_blocks_that_take_turns_share_their_bytes() -> None:
    planned = plan([Block(1000, i, i) for i in range(100)])
    assert planned == Plan([0] * 100, 1000)


def test_nothing_needs_nothing() -> None:
    assert plan([]) == Plan([], 0)
    assert plan([Block(0, 0, 5), Block(0, 0, 5)]) == Plan([0, 0], 0)


@pytest.mark.parametrize("alignment", [64, 128, 4096])
def test_arena_is_aligned(alignment: int) -> None:
    for size in (0, 1, 1000, 1 << 20):
        arena = Arena(size, alignment)
        assert arena.address % alignment == 0
        assert arena.bytes.nbytes == size
        assert size == 0 or arena.bytes.ctypes.data == arena.address
