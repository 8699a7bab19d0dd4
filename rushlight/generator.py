"""The stream of random words, equal to PyTorch's on the CPU: one seed, one stream in both.

What the words become is in :mod:`rushlight.kernels.distributions`.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

DEFAULT_SEED = 67280421310721

_LENGTH = 624  # words of state
_FEW = 16  # numbers that NumPy draws as soon as native code
_PATIENCE = 1 << 20  # numbers that NumPy draws in the time in which native code is loaded

_MAKING = threading.Lock()

# The bytes of PyTorch's own state, by which either library can continue the other's stream.
_STATE = np.dtype(
    [
        ("seed", np.uint64),
        ("left", np.int32),
        ("seeded", np.int32),
        ("next", np.uint64),
        ("words", np.uint64, _LENGTH),
        ("unused_x", np.float64),
        ("normal", np.float64),
        ("unused_rho", np.float64),
        ("has_normal", np.int32),
        ("unused_float", np.int32, 3),
    ]
)


# (bits, what, count, dtype, numbers…, out) -> the samples, or None if it knows no such ones.
NativeDraw = Callable[..., "np.ndarray | None"]


class Twister:
    """NumPy's Mersenne Twister, seeded in the standard way."""

    __slots__ = ("_memory", "bits", "bulk")

    def __init__(self, seed: int) -> None:
        self.bits = np.random.MT19937()
        self.bulk = np.random.Generator(self.bits)
        self._memory: np.ndarray | None = None
        np.random.RandomState(self.bits).seed(seed % 2**32)  # the only door to that seeding

    @property
    def memory(self) -> np.ndarray | None:
        """The words and the position where NumPy keeps them; None if they are not found there.

        Asking NumPy itself takes ten times as long.
        """
        if self._memory is None:
            kind, address = ctypes.c_uint32 * (_LENGTH + 1), self.bits.ctypes.state_address
            found = np.ctypeslib.as_array(kind.from_address(address))
            state = self.bits.state["state"]
            agree = np.array_equal(found[:_LENGTH], state["key"]) and found[-1] == state["pos"]
            self._memory = found if agree else found[:0]
        return self._memory if self._memory.size else None

    def read(self) -> tuple[np.ndarray, int]:
        """The words, and the position of the next one."""
        memory = self.memory
        if memory is None:
            state = self.bits.state["state"]
            return state["key"], int(state["pos"])
        with self.bits.lock:
            return memory[:_LENGTH].copy(), int(memory[_LENGTH])

    def write(self, words: np.ndarray, position: int) -> None:
        """Goes on with other words from another position."""
        memory = self.memory
        if memory is None:
            self.bits.state = {
                "bit_generator": "MT19937",
                "state": {"key": words.astype(np.uint32), "pos": position},
            }
            return
        with self.bits.lock:
            memory[:_LENGTH], memory[_LENGTH] = words, position


class Native:
    """Native functions for large draws, loaded once enough was drawn to be worth the wait.

    They give the samples that NumPy's functions give here, from the same words. ``load`` finds
    them; the package sets it, since they are made in layers above this one.
    """

    __slots__ = ("drawn", "found", "load")

    def __init__(self) -> None:
        self.load: Callable[[], NativeDraw | None] = lambda: None
        self.found: NativeDraw | None = None
        self.drawn = 0

    def wanted(self, count: int) -> NativeDraw | None:
        """The functions, if there are any, for someone who wants ``count`` more numbers."""
        if self.drawn < _PATIENCE:
            self.drawn += count
            if self.drawn >= _PATIENCE:
                self.found = self.load()
        return self.found


native = Native()


class Generator:
    """A stream of random words: the 32-bit Mersenne Twister, seeded in its standard way.

    ``spare_normal`` is the second half of a pair of normal samples whose first was asked for alone.

    >>> generator = Generator().manual_seed(0)
    >>> generator.fractions(3, np.float32)
    array([0.4962566 , 0.7682218 , 0.08847743], dtype=float32)
    """

    __slots__ = ("_seed", "_twister", "device", "spare_normal")

    def __init__(self, device: Any = "cpu") -> None:
        if str(device).partition(":")[0] != "cpu":
            raise RuntimeError(f"Generator: there is no device {str(device)!r}, only 'cpu'")
        self.device = device
        self._twister: Twister | None = None
        self.manual_seed(DEFAULT_SEED)

    @property
    def twister(self) -> Twister:
        """The engine, made when the first number is asked for: NumPy's takes long to import."""
        if self._twister is None:
            with _MAKING:  # threads that meet here share one
                if self._twister is None:
                    self._twister = Twister(self._seed)
        return self._twister

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was drawn since it was seeded."""
        return self._twister is None

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of ``seed``, which may be -2**63 to 2**64 - 1; -1 means 2**64 - 1.

        >>> Generator().manual_seed(-1).initial_seed()
        18446744073709551615
        """
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(2**63) <= seed < 2**64:
            raise ValueError(
                "Overflow when unpacking long long: manual_seed expects a seed from -2**63 to "
                f"2**64 - 1, but got {seed}"
            )
        self._seed = int(seed) % 2**64
        self._twister = None
        self.spare_normal: float | None = None
        return self

    def initial_seed(self) -> int:
        """The seed that started this stream."""
        return self._seed

    def seed(self) -> int:
        """Start a stream that nobody can foresee, and return its seed."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 11).initial_seed()

    def get_state(self) -> np.ndarray:
        """The position in the stream, as bytes."""
        words, position = self.twister.read()
        state = np.zeros(1, _STATE)
        state["seed"] = self._seed
        state["seeded"] = 1
        state["left"] = _LENGTH + 1 - position
        state["next"] = position % _LENGTH
        state["words"] = words
        if self.spare_normal is not None:
            state["normal"], state["has_normal"] = self.spare_normal, 1
        return state.view(np.uint8)

    def set_state(self, new_state: np.ndarray) -> Generator:
        """Continue from a position that :meth:`get_state` gave, here or in PyTorch.

        >>> generator = Generator().manual_seed(7)
        >>> state = generator.get_state()
        >>> first = generator.words(3)
        >>> bool((generator.set_state(state).words(3) == first).all())
        True
        """
        if not isinstance(new_state, np.ndarray) or new_state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if new_state.size != _STATE.itemsize:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {_STATE.itemsize} but found the input "
                f"RNG state size to be {new_state.size}"
            )
        state = new_state.flatten().view(_STATE)[0]
        valid = state["seeded"] == 1 and 0 < state["left"] <= _LENGTH and state["next"] <= _LENGTH
        if not valid:
            raise RuntimeError("Invalid mt19937 state")
        self.twister.write(state["words"], _LENGTH + 1 - int(state["left"]))
        self._seed = int(state["seed"])
        self.spare_normal = float(state["normal"]) if state["has_normal"] else None
        return self

    def clone_state(self) -> Generator:
        """A generator that continues from here on its own."""
        return _restored(self.device, self.get_state())

    def get_offset(self) -> int:
        """Only the counter-based generators of other devices have an offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        """Only the counter-based generators of other devices have an offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.device, self.get_state())

    def native(
        self, what: str, count: int, dtype: Any, *numbers: float, out: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Samples by native code; None if there is none for them, or they are few.

        They are in ``out`` if it is given, and contiguous and of that type; else in a new array.
        """
        draw = native.wanted(count) if count >= _FEW else None
        return draw and draw(self.twister.bits, what, count, np.dtype(dtype), *numbers, out=out)

    def words(self, count: int) -> np.ndarray:
        """The next ``count`` words, as uint32."""
        words = self.native("words", count, np.uint32)
        return self._words(count) if words is None else words

    def long_words(self, count: int) -> np.ndarray:
        """The next ``count`` pairs of words, as uint64; the first word is the high half."""
        words = self.native("words", count, np.uint64)
        return self._long_words(count) if words is None else words

    def fractions(self, count: int, dtype: Any) -> np.ndarray:
        """The next ``count`` numbers in [0, 1): 24 bits each as float32, 53 as float64."""
        fractions = self.native("uniform", count, dtype, 0.0, 1.0)
        if fractions is not None:
            return fractions
        if dtype == np.float32:
            words = self._words(count)
            words &= np.uint32((1 << 24) - 1)
            fractions = words.view(np.int32).astype(np.float32)
            fractions *= np.float32(2.0**-24)
        else:
            words = self._long_words(count)
            words &= np.uint64((1 << 53) - 1)
            fractions = words.view(np.int64).astype(np.float64)
            fractions *= np.float64(2.0**-53)
        return fractions

    def _words(self, count: int) -> np.ndarray:
        if count < 1 << 14:  # the raw call starts sooner, the bulk call runs faster
            return self.twister.bits.random_raw(count).astype(np.uint32)
        return self.twister.bulk.integers(0, 1 << 32, count, np.uint32)

    def _long_words(self, count: int) -> np.ndarray:
        if count < 1 << 13:
            words = self.twister.bits.random_raw(2 * count)
            return words[0::2] << np.uint64(32) | words[1::2]
        return self.twister.bulk.integers(0, 1 << 64, count, np.uint64)


def _restored(device: Any, state: np.ndarray) -> Generator:
    return Generator(device).set_state(state)
