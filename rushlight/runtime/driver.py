"""The native driver: runs the steps of a program, one after the other.

It finds the arrays of a call by itself. Python hands it one tuple of them; where the elements of a
tuple and the data of an array lie is fixed by the binary interfaces of CPython and NumPy, which
every extension module relies on. So a call costs as much with two hundred arrays as with two.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from rushlight.runtime.cache import object_code
from rushlight.runtime.clock import NOW, UNIT
from rushlight.runtime.jit import PLAIN, Library, load
from rushlight.runtime.tasks import once
from rushlight.runtime.threads import symbols

STEP = 6  # words of a native step: function, table of buffers, count, chunk, chunks, bytes
COPY, ROW, JUMP, COUNT, GROW = range(5)
"""What a step without a function does: its kind is in the place of the chunks. Then there are

    ROW    the strides of source and target, in the places of the count and the chunk
    JUMP   the number that means no jump, and the step to go to
    COUNT  the number to add
    GROW   the number at which Python must make room

A jump back stops now and then, as Python may have been interrupted. Beside the error are the words
for it: how many jumps there are until the clock is asked, the ticks of when to stop, and how many
jumps there were between the last two questions: twice as many next time, if there was time enough.
"""
ERROR, WORDS = 2, 5  # words of an error, and with those of jumps
SELDOM = 1 << 16  # jumps after which the clock is asked at the latest
PERIOD = round(0.05 / UNIT)  # ticks that native code may run by itself
ITEMS = tuple.__basicsize__  # bytes of a tuple before its elements
DATA = object.__basicsize__  # bytes of an array before the address of its data

DRIVER = f"""{NOW}
declare void @rl_parallel(ptr, ptr, ptr, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @chunk(ptr %step, i64 %number) {{
  %function = load ptr, ptr %step
  %buffers.at = getelementptr i64, ptr %step, i64 1
  %count.at = getelementptr i64, ptr %step, i64 2
  %size.at = getelementptr i64, ptr %step, i64 3
  %buffers = load ptr, ptr %buffers.at
  %count = load i64, ptr %count.at
  %size = load i64, ptr %size.at
  %begin = mul i64 %number, %size
  %far = add i64 %begin, %size
  %over = icmp sgt i64 %far, %count
  %end = select i1 %over, i64 %count, i64 %far
  call void %function(ptr %buffers, i64 %begin, i64 %end)
  ret void
}}

; Whether it is time to stop; the place of words for jumps is given.
define internal i1 @late(ptr %left.at) {{
  %time = alloca [2 x i64]
  %end.at = getelementptr i64, ptr %left.at, i64 1
  %jumps.at = getelementptr i64, ptr %left.at, i64 2
  %now = call i64 @now(ptr %time)
  %end = load i64, ptr %end.at
  %jumps = load i64, ptr %jumps.at
  %begun = icmp ne i64 %end, 0
  %later = add i64 %now, {PERIOD}
  %until = select i1 %begun, i64 %end, i64 %later
  %left = sub i64 %until, %now
  %early = icmp sgt i64 %left, {PERIOD // 2}
  %twice = shl i64 %jumps, 1
  %half = lshr i64 %jumps, 1
  %changed = select i1 %early, i64 %twice, i64 %half
  %some = or i64 %changed, 1
  %many = icmp sgt i64 %some, {SELDOM}
  %next = select i1 %many, i64 {SELDOM}, i64 %some
  %over = icmp slt i64 %left, 0
  %after = select i1 %over, i64 0, i64 %until
  store i64 %next, ptr %left.at
  store i64 %after, ptr %end.at
  store i64 %next, ptr %jumps.at
  ret i1 %over
}}

; Runs steps from one on, until one meets an error or needs Python; the result is which one, or how
; many there are.
define i64 @rl_run_from(ptr %steps, i64 %first, i64 %count, ptr %pool, ptr %error) {{
  %any = icmp slt i64 %first, %count
  br i1 %any, label %step, label %end

step:
  %i = phi i64 [ %first, %0 ], [ %next, %ran ]
  %after = add i64 %i, 1
  %offset = mul i64 %i, {STEP}
  %at = getelementptr i64, ptr %steps, i64 %offset
  %function = load ptr, ptr %at
  %table.at = getelementptr i64, ptr %at, i64 1
  %table = load ptr, ptr %table.at
  %chunks.at = getelementptr i64, ptr %at, i64 4
  %chunks = load i64, ptr %chunks.at
  %other = icmp eq ptr %function, null
  br i1 %other, label %other.step, label %kernel

other.step:
  %x.at = getelementptr i64, ptr %at, i64 2
  %x = load i64, ptr %x.at
  %y.at = getelementptr i64, ptr %at, i64 3
  %y = load i64, ptr %y.at
  %bytes.at = getelementptr i64, ptr %at, i64 5
  %bytes = load i64, ptr %bytes.at
  %one = load ptr, ptr %table
  switch i64 %chunks, label %copy [
    i64 {ROW}, label %row
    i64 {JUMP}, label %jump
    i64 {COUNT}, label %count.step
    i64 {GROW}, label %grow
  ]

copy:
  %target.at = getelementptr i64, ptr %table, i64 1
  %target = load ptr, ptr %target.at
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %one, i64 %bytes, i1 false)
  br label %ran

row:
  %row.target.at = getelementptr i64, ptr %table, i64 1
  %row.target = load ptr, ptr %row.target.at
  %row.counter.at = getelementptr i64, ptr %table, i64 2
  %row.counter = load ptr, ptr %row.counter.at
  %row.number = load i64, ptr %row.counter
  %row.x = mul i64 %row.number, %x
  %row.y = mul i64 %row.number, %y
  %row.from = getelementptr i8, ptr %one, i64 %row.x
  %row.to = getelementptr i8, ptr %row.target, i64 %row.y
  call void @llvm.memcpy.p0.p0.i64(ptr %row.to, ptr %row.from, i64 %bytes, i1 false)
  br label %ran

jump:
  %held = load i64, ptr %one
  %stay = icmp eq i64 %held, %x
  %to = select i1 %stay, i64 %after, i64 %y
  %back = icmp sle i64 %to, %i
  br i1 %back, label %jump.back, label %ran

jump.back:
  %left.at = getelementptr i64, ptr %error, i64 {ERROR}
  %left = load i64, ptr %left.at
  %fewer = sub i64 %left, 1
  store i64 %fewer, ptr %left.at
  %enough = icmp slt i64 %fewer, 0
  br i1 %enough, label %look, label %ran

look:
  %pause = call i1 @late(ptr %left.at)
  br i1 %pause, label %end, label %ran

count.step:
  %old = load i64, ptr %one
  %new = add i64 %old, %x
  store i64 %new, ptr %one
  br label %ran

grow:
  %rows = load i64, ptr %one
  %full = icmp sge i64 %rows, %x
  br i1 %full, label %end, label %ran

kernel:
  %several = icmp sgt i64 %chunks, 1
  br i1 %several, label %parallel, label %alone

parallel:
  call void @rl_parallel(ptr %pool, ptr @chunk, ptr %at, i64 %chunks)
  br label %checked

alone:
  call void @chunk(ptr %at, i64 0)
  br label %checked

checked:
  %code = load i64, ptr %error
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %end, label %ran

ran:
  %next = phi i64 [ %after, %copy ], [ %after, %row ], [ %to, %jump ], [ %to, %jump.back ],
                  [ %to, %look ], [ %after, %count.step ], [ %after, %grow ], [ %after, %checked ]
  %more = icmp slt i64 %next, %count
  br i1 %more, label %step, label %end

end:
  %done = phi i64 [ %count, %0 ], [ %i, %checked ], [ %i, %grow ], [ %i, %look ], [ %count, %ran ]
  ret i64 %done
}}

define i64 @rl_run(ptr %steps, i64 %count, ptr %pool, ptr %error) {{
  %done = call i64 @rl_run_from(ptr %steps, i64 0, i64 %count, ptr %pool, ptr %error)
  ret i64 %done
}}

; Writes the addresses of arrays to where steps read them: pairs of (which array, where to).
define void @rl_place(ptr %arrays, ptr %pairs, i64 %count) {{
  %items = getelementptr i8, ptr %arrays, i64 {ITEMS}
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %pair, label %end

pair:
  %i = phi i64 [ 0, %0 ], [ %next, %pair ]
  %pair.at = getelementptr [2 x i64], ptr %pairs, i64 %i
  %place.at = getelementptr i64, ptr %pair.at, i64 1
  %number = load i64, ptr %pair.at
  %place = load ptr, ptr %place.at
  %item.at = getelementptr ptr, ptr %items, i64 %number
  %array = load ptr, ptr %item.at
  %data.at = getelementptr i8, ptr %array, i64 {DATA}
  %data = load ptr, ptr %data.at
  store ptr %data, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %pair, label %end

end:
  ret void
}}

; Runs a part of a program, which is: steps, their count, error, pairs, their count.
define i64 @rl_call(ptr %part, ptr %arrays, ptr %pool) {{
  %count.at = getelementptr i64, ptr %part, i64 1
  %error.at = getelementptr i64, ptr %part, i64 2
  %pairs.at = getelementptr i64, ptr %part, i64 3
  %places.at = getelementptr i64, ptr %part, i64 4
  %steps = load ptr, ptr %part
  %count = load i64, ptr %count.at
  %error = load ptr, ptr %error.at
  %pairs = load ptr, ptr %pairs.at
  %places = load i64, ptr %places.at
  call void @rl_place(ptr %arrays, ptr %pairs, i64 %places)
  %done = call i64 @rl_run(ptr %steps, i64 %count, ptr %pool, ptr %error)
  ret i64 %done
}}
"""


class Driver:
    """The functions of :data:`DRIVER`, as Python calls them.

    ``call(part, arrays, pool)`` runs a part, ``run(steps, count, pool, error)`` steps whose
    buffers are in place: how many have run. ``run_from(steps, first, ...)`` goes on with steps.
    ``place(arrays, pairs, count)`` puts them there.
    """

    __slots__ = ("call", "library", "place", "run", "run_from")

    def __init__(self) -> None:
        self.library: Library = load([object_code(DRIVER, PLAIN)], symbols())
        word, size, arrays = ctypes.c_void_p, ctypes.c_int64, ctypes.py_object
        self.call = self.function("rl_call", size, word, arrays, word)
        self.run = self.function("rl_run", size, word, size, word, word)
        self.run_from = self.function("rl_run_from", size, word, size, size, word, word)
        self.place = self.function("rl_place", None, arrays, word, size)

    def function(self, name: str, *kinds: Any) -> Callable[..., Any]:
        return ctypes.CFUNCTYPE(*kinds)(self.library.address(name))


@once
def driver() -> Driver:
    """The driver, compiled on first use."""
    return Driver()
