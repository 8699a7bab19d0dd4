"""Room for many arrays is address space, not memory."""

from __future__ import annotations

import sys

import pytest

from rushlight.memory import make_room


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("nbytes", [0, 1000, 5 << 20, 200 << 20])
def test_room_takes_next_to_no_memory(nbytes):
    make_room(1 << 20)
    before = resident()
    make_room(nbytes)
    assert resident() - before < (20 << 20)
