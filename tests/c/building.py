"""Exported programs, compiled with sanitizers and run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.tensor import Tensor

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-pedantic")
SANITIZED = (*STRICT, "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FAST = (*STRICT, "-O3", "-march=native", "-ffp-contract=off")
ROLES = ("input", "number", "changed input", "output")

DRIVER = r"""
#include "@name@.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    @name@_state state;
    unsigned char *memory = malloc(@NAME@_MEMORY + 1), *arrays[@count@ + 1];
    const size_t sizes[] = {@sizes@, 0};
    const char *roles = "@roles@"; /* i, n: read, o: written, c: both */
    long times = atol(argv[1]);
    int code = @name@_init(&state, memory, argc > 2 && *argv[2] ? argv[2] : NULL);
    for (int i = 0; i < @count@; i++) arrays[i] = malloc(sizes[i] ? sizes[i] : 1);
    while (!code && times--) {
        for (int i = 0; i < @count@; i++)
            if (roles[i] != 'o' && fread(arrays[i], 1, sizes[i], stdin) != sizes[i]) return 5;
        code = @name@_run(@arguments@);
        for (int i = 0; i < @count@ && !code; i++)
            if (roles[i] == 'o' || roles[i] == 'c') fwrite(arrays[i], 1, sizes[i], stdout);
    }
    if (!code && argc > 3) code = @name@_save(&state, argv[3]);
    if (code) fprintf(stderr, "%d %lld %s", code, (long long)state.fault.position,
                      @name@_message(code));
    for (int i = 0; i < @count@; i++) free(arrays[i]);
    free(memory);
    return code ? 4 : 0;
}
"""


class Failure(Exception):
    """A program ended with a code: (code, position, message)."""


class Built:
    """A compiled program."""

    def __init__(self, path: Path, flags: Sequence[str] = SANITIZED) -> None:
        self.path, self.name, folder = path, path.stem, path.parent
        self.arguments = arguments_of(path.with_suffix(".h").read_text())
        self.program = folder / self.name
        self.weights = folder / f"{self.name}.weights"
        driver = folder / f"{self.name}_driver.c"
        driver.write_text(self.driver())
        command = ["gcc", *flags, str(path), str(driver), "-o", str(self.program), "-lm"]
        made = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert made.returncode == 0, made.stderr[:4000]

    def driver(self) -> str:
        sizes = [np.dtype(kind).itemsize * size for _, kind, _, size in self.arguments]
        values = {
            "name": self.name,
            "NAME": self.name.upper(),
            "count": str(len(sizes)),
            "sizes": ", ".join(map(str, sizes)) or "0",
            "roles": "".join([role[0] for role, *_ in self.arguments]),
            "arguments": ", ".join(
                [
                    "&state",
                    *[
                        f"*(double *)(void *)arrays[{i}]"
                        if role == "number"
                        else f"(void *)arrays[{i}]"
                        for i, (role, *_) in enumerate(self.arguments)
                    ],
                ]
            ),
        }
        text = DRIVER
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        return text

    def run(
        self, *calls: Sequence[Any], weights: Path | None = None, save: Path | None = None
    ) -> list[list[np.ndarray]]:
        """The outputs of each call, of which each is given its input tensors."""
        data = b"".join([flat(t) for call in calls for t in call])
        if weights is None and self.weights.exists():
            weights = self.weights
        command = [str(self.program), str(len(calls)), str(weights or "")]
        command += [str(save)] * (save is not None)
        ran = subprocess.run(command, input=data, capture_output=True, timeout=300)
        error = ran.stderr.decode(errors="replace")
        if ran.returncode == 4:
            code, position, message = error.split(" ", 2)
            raise Failure(int(code), int(position), message)
        assert ran.returncode == 0, error[:4000]
        found, offset = [], 0
        for _ in calls:
            outputs = []
            for role, kind, shape, size in self.arguments:
                if role in ("changed input", "output"):
                    outputs.append(
                        np.frombuffer(ran.stdout, kind, size, offset).reshape(shape).copy()
                    )
                    offset += outputs[-1].nbytes
            found.append(outputs)
        assert offset == len(ran.stdout)
        return found


def flat(t: Any) -> bytes:
    array = t._array if isinstance(t, Tensor) else np.asarray(t)
    return np.ascontiguousarray(array).tobytes()


def arguments_of(header: str) -> list[tuple[str, np.dtype, tuple[int, ...], int]]:
    """Role, dtype, shape and size of each argument, as the header describes them."""
    found = []
    for line in header.splitlines():
        role = next((r for r in ROLES if line.startswith(f"/* {r} ")), "")
        if role and " of shape (" in line:
            kind = line.partition(": ")[2].partition(" of shape")[0]
            inside = line.partition(" of shape (")[2].partition(")")[0]
            shape = tuple([int(n) for n in inside.replace(",", " ").split()])
            dtype = getattr(rl, kind).numpy
            found.append((role, dtype, shape, int(np.prod(shape))))
    return found


def tensors_of(result: Any) -> list[np.ndarray]:
    """The tensors of a result, in order."""
    if isinstance(result, Tensor):
        return [result.detach().numpy() if result.dtype != rl.bfloat16 else result._array]
    parts = result.values() if isinstance(result, dict) else result
    return [array for part in parts for array in tensors_of(part)]


def assert_close(found: np.ndarray, expected: np.ndarray, scale: float = 1.0) -> None:
    """Equal, or of floats within rounding of what was computed; NaN and infinity where they are."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    eps = {2: 2e-2, 4: 2e-5, 8: 1e-10}[found.dtype.itemsize] * scale
    wide = [a.astype(np.float64) for a in (found, expected)]
    np.testing.assert_allclose(*wide, rtol=eps, atol=eps)


def build(
    function: Callable[..., Any],
    *args: Any,
    folder: Path,
    flags: Sequence[str] = SANITIZED,
    **how: Any,
) -> Built:
    """Exports a function, and compiles it."""
    return Built(rl.export_c(function, *args, dir=folder, **how), flags)


def check(
    function: Callable[..., Any],
    *args: Any,
    folder: Path,
    flags: Sequence[str] = SANITIZED,
    **how: Any,
) -> Built:
    """Exports a function, and compares its results in C with its own."""
    state = rl.get_rng_state()
    built = build(function, *args, folder=folder, flags=flags, **how)
    (found,) = built.run([a for a in args if isinstance(a, (Tensor, float))])
    rl.set_rng_state(state)
    expected = tensors_of(function(*args))
    for a, b in zip(found[-len(expected) :] if expected else [], expected, strict=True):
        assert_close(a, b)
    return built
