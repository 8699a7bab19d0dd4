"""Rooms: memory between steps, which programs use one after the other.

A call takes a room, and gives it back when it ends: programs that take turns need together as much
memory as the largest of them alone, however many there are. Two that run at a time have two rooms.
Once the largest program is gone, the room shrinks to what the others need.
"""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

from rushlight.runtime.arena import Arena


class Rooms:
    """The rooms that nobody is in, and the bytes that the programs of this process need.

    Any thread may take a room at any time, and programs may go at any time: rooms come and go by
    single operations of a list, which Python does not interrupt. Counts that two threads change at
    once may be wrong; then a room is made once more, or stays too large.

    >>> rooms, program = Rooms(), {1}
    >>> rooms.enter(program, 1000)
    >>> room = rooms.take(1000)
    >>> rooms.give(room)
    >>> rooms.take(500) is room
    True
    """

    def __init__(self) -> None:
        self.free: list[Arena] = []
        self.needs: Counter[int] = Counter()
        self.most = 0  # bytes that any program needs

    def enter(self, program: Any, size: int) -> None:
        """A program needs rooms of that size as long as it lives."""
        self.needs[size] += 1
        self.most = max(self.most, size)
        weakref.finalize(program, self.leave, size).atexit = False

    def leave(self, size: int) -> None:
        self.needs[size] -= 1
        if self.needs[size] <= 0:
            del self.needs[size]
            self.most = max([*self.needs], default=0)
            self.keep(None)

    def take(self, size: int) -> Arena:
        """A room of at least that size."""
        try:
            room = self.free.pop()
        except IndexError:
            return Arena(size)
        if room.bytes.nbytes < size:
            del room  # before there is another one
            return Arena(size)
        return room

    def give(self, room: Arena) -> None:
        """Nobody is in the room any more."""
        if room.bytes.nbytes <= self.most:
            self.free.append(room)

    def keep(self, room: Arena | None) -> None:
        """One more room, or none, and a free one: the larger stays if anybody needs its size."""
        try:
            other = self.free.pop()
        except IndexError:
            other = None
        for each in sorted([r for r in (room, other) if r is not None], key=size_of)[-1:]:
            if size_of(each) <= self.most:
                self.free.append(each)

    def have(self, size: int) -> bool:
        """Whether a free room has that size."""
        return any([size_of(room) >= size for room in [*self.free]])


def size_of(room: Arena) -> int:
    return room.bytes.nbytes


rooms = Rooms()
