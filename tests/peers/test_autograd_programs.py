"""Random programs of views, in-place writes, detached values and reads, in PyTorch and here.

Each step runs in both; then all values, flags and versions must agree, and so must the errors. In
the end backward runs from a few tensors, and the gradients of all leaves must agree.
"""

from __future__ import annotations

import contextlib
import random
from typing import Any, NamedTuple

import numpy as np
import pytest

import rushlight as rl
from tests.peers.scenarios import attempt

torch = pytest.importorskip("torch")

# An expanded tensor is read-only here; PyTorch lets parts of it be written to.
ALLOWED = ["refers to a single memory location", "read-only"]


class Different(Exception):
    """The two libraries are known to differ from here on."""


class Pair(NamedTuple):
    """One value of the program: PyTorch's and ours."""

    theirs: Any
    ours: Any


class Program:
    """The values so far, and a log of the steps to print when something differs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = [f"# seed {seed}"]
        self.values: list[Pair] = []
        for i in range(3):
            shape = self.random.choice([(3,), (2, 3), (3, 2), (1, 3), (2, 2, 3)])
            array = np.random.default_rng([seed, i]).uniform(-1, 1, shape)
            leaf = i < 2
            theirs = torch.tensor(array, requires_grad=leaf)
            self.log.append(f"t{i} = tensor(shape={shape}, requires_grad={leaf})")
            self.values.append(Pair(theirs, rl.tensor(array, requires_grad=leaf)))

    def pick(self) -> int:
        """A value, a recent one rather than an old one."""
        count = len(self.values)
        return max(self.random.randrange(count), self.random.randrange(count))

    def matching(self, i: int) -> int | None:
        """A value that broadcasts with value ``i`` to its shape and does not overlap it."""
        shape, memory = self.values[i].theirs.shape, self.values[i].theirs.detach().numpy()
        fits = []
        for j, pair in enumerate(self.values):
            try:
                fit = torch.broadcast_shapes(shape, pair.theirs.shape) == shape
            except RuntimeError:
                continue
            if fit and (i == j or not np.shares_memory(memory, pair.theirs.detach().numpy())):
                fits.append(j)
        return self.random.choice(fits) if fits else None

    def run(self, text: str) -> None:
        """Executes one line, in which ``t[i]`` are values and ``lib`` is the library."""
        self.log.append(text)
        results: list[Any] = []
        for side, lib in enumerate((torch, rl)):
            names = {"lib": lib, "t": [pair[side] for pair in self.values]}
            results.append(attempt(execute, text, names))
        theirs, ours = results
        if any(text in str(result) for text in ALLOWED for result in results):
            raise Different
        assert type(theirs).__name__ == type(ours).__name__, self.report(f"{theirs!r} | {ours!r}")
        if isinstance(theirs, torch.Tensor):
            self.values.append(Pair(theirs, ours))
        self.outcome = type(theirs).__name__
        self.check()

    def check(self) -> None:
        for i, (theirs, ours) in enumerate(self.values):
            a, b = theirs.detach().numpy(), ours.detach().numpy()
            assert a.shape == b.shape, self.report(f"t[{i}]: {a.shape} | {b.shape}")
            assert np.allclose(a, b, equal_nan=True), self.report(f"t[{i}]: {a} | {b}")
            assert facts(theirs) == facts(ours), self.report(
                f"t[{i}]: {facts(theirs)} | {facts(ours)}"
            )

    def gradients(self) -> None:
        if "Error" in self.outcome:
            for pair in self.values:
                pair.theirs.grad = pair.ours.grad = None
        for i, (theirs, ours) in enumerate(self.values):
            if theirs.is_leaf or theirs.retains_grad:
                a, b = theirs.grad, ours.grad
                assert (a is None) == (b is None), self.report(f"t[{i}].grad: {a} | {b}")
                if a is not None:
                    assert np.allclose(a.numpy(), b.numpy()), self.report(f"t[{i}].grad: {a} | {b}")

    def report(self, difference: str) -> str:
        return "\n".join([*self.log, f"PyTorch | Rushlight: {difference}"])


def execute(text: str, names: dict[str, Any]) -> Any:
    exec(text, names)
    return names.get("result")


def facts(t: Any) -> tuple[Any, ...]:
    return t.requires_grad, t.is_leaf, t.grad_fn is None, t._version


def step(program: Program) -> str:
    choose, number = program.random.choice, round(program.random.uniform(-1, 1), 2)
    i = program.pick()
    j = program.matching(i)
    shape = tuple(program.values[i].theirs.shape)
    kind = choose(KINDS)
    if kind == "compute":
        forms = [f"t[{i}] * {number}", f"t[{i}].tanh()", f"t[{i}] + 1", f"t[{i}].clone()"]
        forms += [f"t[{i}] * t[{i}]", f"t[{i}].sum()", f"-t[{i}]", f"t[{i}].detach()"]
        if j is not None:
            forms += [f"t[{i}] * t[{j}]", f"t[{i}] + t[{j}]", f"t[{j}] - t[{i}]"]
        return f"result = {choose(forms)}"
    if kind == "view":
        return f"result = t[{i}]{choose(views(shape, program.random))}"
    if kind == "write":
        forms = [f"t[{i}].mul_({number})", f"t[{i}].add_(1)", f"t[{i}].sin_()", f"t[{i}].zero_()"]
        forms += [f"t[{i}][...] = {number}"]
        if shape:
            forms += [f"t[{i}][0] = {number}", f"t[{i}][-1].mul_({number})"]
        if j is not None and j != i:
            forms += [f"t[{i}].mul_(t[{j}])", f"t[{i}].add_(t[{j}])", f"t[{i}].copy_(t[{j}])"]
            forms += [f"t[{i}][...] = t[{j}]", f"t[{i}].sub_(t[{j}].tanh())"]
        line = choose(forms)
        return f"with lib.no_grad(): {line}" if program.random.random() < 0.2 else line
    if kind == "aside":
        forms = [f"t[{i}].data.mul_({number})", f"t[{i}].detach().add_({number})"]
        forms += [
            f"result = t[{i}].detach().clone().requires_grad_()",
            f"t[{i}]._is_view() or t[{i}].retain_grad()",
        ]
        forms += [f"with lib.no_grad(): result = t[{i}] * {number}"]
        forms += [f"t[{i}].register_hook(lambda g: g * 2)"]
        return choose(forms)
    return f"(t[{i}] * {number}).sum().backward(retain_graph=True)"


KINDS = ["compute"] * 4 + ["view"] * 4 + ["write"] * 4 + ["aside", "backward"]


def views(shape: tuple[int, ...], source: random.Random) -> list[str]:
    """Expressions, to be put after a tensor of ``shape``, that look at it in another way."""
    forms = [".unsqueeze(0)", "[...]", "[None]", ".reshape(-1)", ".squeeze()"]
    if shape and shape[0]:
        row = source.randrange(shape[0])
        forms += [
            f"[{row}]",
            f"[{row}:]",
            f"[:{row + 1}]",
            f".select(-1, {shape[-1] - 1})",
            "[::2]",
        ]
        forms += [".narrow(0, 0, 1)", f".expand(2, *{shape})", ".transpose(0, -1)"]
    if len(shape) == 2:
        forms += [".t()", f".view({shape[1]}, {shape[0]})", "[:, 0]", ".diagonal()", "[:, -1:]"]
    return forms


@pytest.mark.parametrize("seed", range(200))
def test_a_random_program(seed: int) -> None:
    program = Program(seed)
    program.check()
    with contextlib.suppress(Different):
        for _ in range(16):
            program.run(step(program))
            program.gradients()
        chosen = program.random.sample(range(len(program.values)), 2)
        total = " + ".join(f"(t[{i}] * t[{i}]).sum()" for i in chosen)
        program.run(f"({total}).backward()")
        program.gradients()
