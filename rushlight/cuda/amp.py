"""Mixed precision by the older names: ``rl.cuda.amp.GradScaler()`` scales for a CUDA device."""

from __future__ import annotations

from functools import partial

from rushlight import amp

autocast = partial(amp.autocast, "cuda")
GradScaler = partial(amp.GradScaler, "cuda")
