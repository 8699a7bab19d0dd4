"""Devices: where a tensor's elements live. This build has the CPU."""

from __future__ import annotations

from rushlight.errors import kind

_KNOWN = ("cpu", "cuda", "mps", "xpu", "meta", "xla", "opencl", "vulkan", "hpu", "mtia")


class device:  # noqa: N801 - PyTorch's spelling
    """A place for tensors, such as ``rl.device("cpu")``.

    A device may be named that this machine lacks; putting a tensor there is the error.

    >>> rl.device("cuda", 1)
    device(type='cuda', index=1)
    """

    __slots__ = ("index", "type")

    def __init__(
        self,
        device: str | device | int | None = None,
        index: int | None = None,
        *,
        type: str | None = None,
    ) -> None:
        self.type: str
        self.index: int | None
        if device is None:
            device = "cpu" if type is None else type
        if isinstance(device, __class__):  # type: ignore[name-defined]
            self.type, self.index = device.type, device.index
            return
        if isinstance(device, int) and not isinstance(device, bool):
            self.type, self.index = "cuda", device
            return
        if not isinstance(device, str):
            raise TypeError(f"device(): expected a string, got {kind(device)}")
        name, colon, number = device.partition(":")
        if name not in _KNOWN:
            raise RuntimeError(
                f"Expected one of {', '.join(_KNOWN)} device type at start of device string: "
                f"{device}"
            )
        if colon and not number.isdecimal():
            raise RuntimeError(f"Invalid device string: '{device}'")
        if colon and index is not None:
            raise RuntimeError(
                "type (string) must not include an index because index was passed explicitly: "
                f"{device}"
            )
        self.type = name
        self.index = int(number) if colon else index

    def __repr__(self) -> str:
        suffix = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{suffix})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple:
        return (device, (str(self),))

    def __enter__(self) -> device:
        require(self)
        return self

    def __exit__(self, *exception: object) -> None:
        return None


cpu = device("cpu")


def require(value: device | str | int | None) -> device:
    """The device a tensor is asked to be on; an error that lists the others if it is not here."""
    if value is None or value is cpu:
        return cpu
    wanted = device(value)
    if wanted.type != "cpu":
        raise RuntimeError(
            f"device '{wanted}' is not available: this build of Rushlight has the device 'cpu'"
        )
    if wanted.index not in (None, 0):
        raise RuntimeError(f"device '{wanted}' does not exist: there is one CPU device, 'cpu'")
    return cpu
