"""Mixed precision: scaling a loss so that small gradients survive 16 bits."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any

from rushlight.autograd.modes import local
from rushlight.device import device as device_class
from rushlight.dtypes import bfloat16, dtype, float16
from rushlight.ops import ops
from rushlight.symbol import refuse_in_trace
from rushlight.tensor import Tensor


class autocast:  # noqa: N801 - PyTorch's spelling
    """Inside, ops of a CUDA device would choose 16 bits by themselves; without one, none does.

    >>> with rl.autocast("cuda", enabled=False):
    ...     rl.ones(2) + 1
    tensor([2., 2.])
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        kind = device_class(device_type).type
        if enabled and kind == "cpu":
            raise NotImplementedError(
                "autocast on the CPU is not available: convert the model and its inputs with "
                ".to(rushlight.bfloat16), or pass enabled=False"
            )
        if enabled:
            warnings.warn(
                f"autocast: device '{kind}' is not available. Disabling autocast.",
                UserWarning,
                stacklevel=2,
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        return function


def is_autocast_available(device_type: str) -> bool:
    """Whether ops of a device can choose 16 bits by themselves: False.

    >>> rl.amp.is_autocast_available("cuda")
    False
    """
    return False


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether ops of a device now choose 16 bits by themselves: False.

    >>> rl.is_autocast_enabled()
    False
    """
    return False


def get_autocast_dtype(device_type: str) -> dtype:
    """The type that ops of a device would choose.

    >>> rl.get_autocast_dtype("cpu")
    rushlight.bfloat16
    """
    return bfloat16 if device_class(device_type).type == "cpu" else float16


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: dtype | None = None) -> Any:
    """Marks the ``forward`` of an autograd function for autocast: it stays as it is.

    >>> forward = rl.amp.custom_fwd(lambda ctx, x: x, device_type="cuda")
    """
    return (lambda function: function) if fwd is None else fwd


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Marks the ``backward`` of an autograd function for autocast: it stays as it is."""
    return (lambda function: function) if bwd is None else bwd


class GradScaler:
    """Multiplies a loss by a large number, and divides the gradients by it before a step.

    A step whose gradients are not finite is left out, and the number made smaller; after
    ``growth_interval`` steps without such it is made larger.

    >>> scaler = rl.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale(rl.tensor(2.0))
    tensor(16.)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if growth_factor <= 1.0:
            raise ValueError(f"The growth factor must be > 1.0, got {growth_factor}")
        if not backoff_factor < 1.0:
            raise ValueError(f"The backoff factor must be < 1.0, got {backoff_factor}")
        if enabled and device_class(device).type != "cpu":
            warnings.warn(
                f"GradScaler is enabled, but device '{device}' is not available. Disabling.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._finite: dict[int, bool] = {}  # of the optimizers unscaled since the last update

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each tensor in a sequence, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._factor()
        return type(outputs)([self.scale(t) for t in outputs])

    def _factor(self) -> Any:
        """The scale; inside a trace, a number that is read anew at each call."""
        trace = local.state.trace
        return self._scale if trace is None else trace.host(lambda: self._scale)

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of the optimizer's parameters by the scale."""
        if not self._enabled:
            return
        if id(optimizer) in self._finite:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        finite = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(1 / self._factor())
                    finite = finite and bool(ops.isfinite(parameter.grad).all())
        self._finite[id(optimizer)] = finite

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()`` with gradients divided by the scale, if they are finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) not in self._finite:
            self.unscale_(optimizer)
        return optimizer.step(*args, **kwargs) if self._finite[id(optimizer)] else None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Changes the scale by what the last steps showed, or to ``new_scale``."""
        if not self._enabled:
            return
        refuse_in_trace("GradScaler.update()")
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._finite:
            raise RuntimeError("No inf checks were recorded prior to update.")
        elif all(self._finite.values()):
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale, self._growth_tracker = self._scale * self._growth_factor, 0
        else:
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        self._finite.clear()

    def get_scale(self) -> float:
        """The present scale; 1 if disabled."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether it scales at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` restores; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from what :meth:`state_dict` returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
