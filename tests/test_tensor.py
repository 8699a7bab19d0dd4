"""Who may write to the memory of a tensor, and whether somebody has."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.tensor import kin_of, relate


def stamp(t: Any) -> Any:
    return kin_of(t).stamp()


def test_writes_of_all_kin_are_seen() -> None:
    a = rl.zeros(3)
    b = a.data
    c = b.data
    seen = {stamp(a)}
    for t in (a, b, c, b[0], c.detach()):
        t.add_(1)
        seen.add(stamp(a))
    assert len(seen) == 6
    assert stamp(a) == stamp(b) == stamp(c)
    assert a._version == 1


def test_reading_changes_nothing() -> None:
    a = rl.zeros(3)
    b = a.data
    before = stamp(a)
    _ = a + b, b.sum().item(), a.tolist(), a.shape
    assert stamp(a) == before


def test_a_writer_that_is_gone_has_left_a_trace() -> None:
    a, seen = rl.zeros(3), set()
    for _ in range(3):
        seen.add(stamp(a))
        a.data.add_(1)
        gc.collect()
    assert len(seen) == 3
    assert stamp(a) not in seen


def test_two_families_that_meet_forget_none_of_their_writes() -> None:
    """A stamp that one of them has had never comes back."""
    a, b = rl.zeros(3), rl.zeros(3)
    first, second = a.data, b.data
    before = {stamp(a), stamp(b)}
    del first, second
    gc.collect()
    relate(a, b)
    assert stamp(a) == stamp(b)
    assert stamp(a) not in before


def test_kin_that_are_gone_take_no_room() -> None:
    a = rl.zeros(3)
    for _ in range(100):
        _ = a.data
    assert len(kin_of(a).members) <= 2


@pytest.mark.parametrize(
    "lend",
    [
        lambda t: t.numpy(),
        np.asarray,
        np.from_dlpack,
        lambda t: t.storage(),
        lambda t: t.untyped_storage(),
        lambda t: t.data_ptr(),
        lambda t: t.data.numpy(),
        lambda t: t[0].numpy(),
        lambda t: t.detach().numpy(),
    ],
    ids=["numpy", "asarray", "dlpack", "storage", "bytes", "address", "data", "view", "detached"],
)
def test_memory_that_was_lent_is_never_known_to_be_the_same(lend: Any) -> None:
    t = rl.zeros(3)
    assert stamp(t) == stamp(t)
    lend(t)
    assert stamp(t) != stamp(t)


@pytest.mark.parametrize(
    "made",
    [
        rl.from_numpy,
        rl.as_tensor,
        rl.asarray,
        rl.from_dlpack,
        lambda array: rl.frombuffer(array, dtype=rl.float32),
    ],
    ids=["from_numpy", "as_tensor", "asarray", "dlpack", "buffer"],
)
def test_memory_of_others_is_never_known_to_be_the_same(made: Any) -> None:
    t = made(np.ones(3, np.float32))
    assert stamp(t) != stamp(t)


def test_copies_have_memory_of_their_own() -> None:
    for t in (rl.tensor(np.ones(3)), rl.from_numpy(np.ones(3)).clone()):
        assert stamp(t) == stamp(t)
