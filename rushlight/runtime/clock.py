"""The clock that native code reads, as text: ``@now(place for two words)`` gives ticks."""

from __future__ import annotations

import sys
import time

POSIX = """
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now(ptr %time) {{
  call i32 @clock_gettime(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}}
"""

WINDOWS = """
declare i32 @QueryPerformanceCounter(ptr)

define internal i64 @now(ptr %time) {
  call i32 @QueryPerformanceCounter(ptr %time)
  %ticks = load i64, ptr %time
  ret i64 %ticks
}
"""

if sys.platform == "win32":
    NOW, UNIT = WINDOWS, time.get_clock_info("perf_counter").resolution
else:
    NOW, UNIT = POSIX.format(clock=time.CLOCK_MONOTONIC), 1e-9  # seconds of a tick
