"""PyTorch's own module records, run here: every module input must give PyTorch's results.

python tests/peers/modules.py                      # all records: a line each, then a count
python tests/peers/modules.py nn.Linear nn.Conv2d  # these records, with the first mismatches
"""

from __future__ import annotations

import copy
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_modules import ModuleErrorEnum, ModuleInfo, module_db

if __name__ == "__main__":
    sys.path.insert(0, ".")
import rushlight as rl
from tests.peers import opinfo
from tests.peers.opinfo import doubled, flat, tensors_in, tolerance, translate_function

DTYPES = (torch.float32, torch.float64)
Values = dict[str, np.ndarray]


@dataclass
class Outcome:
    """What happened to one record."""

    name: str
    inputs: int = 0
    gradients: int = 0
    errors: int = 0
    by_double: int = 0  # float32 inputs beyond the tolerance, settled by PyTorch's float64
    problems: list[str] = field(default_factory=list)
    missing: str | None = None

    @property
    def passed(self) -> bool:
        return self.missing is None and not self.problems and self.inputs > 0


def ours(record: ModuleInfo) -> Any:
    """Our class of the same name, or None."""
    return getattr(rl.nn, record.module_cls.__name__, None)


def translate(value: Any, leaves: list[tuple[Any, Any]] | None = None) -> Any:
    """A PyTorch value as ours; pairs of leaves that want gradients are added to ``leaves``."""
    if isinstance(value, torch.nn.TransformerEncoderLayer):
        return translate_encoder_layer(value)
    if isinstance(value, torch.nn.Module):
        raise NotImplementedError(f"a module {type(value).__name__} as an argument")
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return rl.nn.utils.rnn.PackedSequence(*[translate(part, leaves) for part in value])
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(translate(part, leaves) for part in value)
    if isinstance(value, dict):
        return {key: translate(part, leaves) for key, part in value.items()}
    if callable(value) and not isinstance(value, (torch.Tensor, type)):
        return translate_function(value) or value
    return opinfo.translate(value, leaves)


def translate_encoder_layer(layer: torch.nn.TransformerEncoderLayer) -> Any:
    attention, weight = layer.self_attn, layer.linear1.weight
    twin = rl.nn.TransformerEncoderLayer(
        attention.embed_dim,
        attention.num_heads,
        dim_feedforward=layer.linear1.out_features,
        dropout=layer.dropout.p,
        activation=translate_function(layer.activation),
        layer_norm_eps=layer.norm1.eps,
        batch_first=attention.batch_first,
        norm_first=layer.norm_first,
        bias=layer.linear1.bias is not None,
        dtype=translate(weight.dtype),
    )
    twin.load_state_dict(translate(dict(layer.state_dict())))
    return twin.train(layer.training)


def run_record(
    record: ModuleInfo, most_problems: int = 5, most_inputs: int | None = None
) -> Outcome:
    """Every module input of both dtypes, in training and evaluation mode, and error inputs.

    Of more than ``most_inputs``, so many are taken, as far apart as they can be.
    """
    outcome = Outcome(record.name)
    if ours(record) is None:
        outcome.missing = "no such module here"
        return outcome
    modes = (True, False) if record.train_and_eval_differ else (True,)
    for dtype in DTYPES:
        if dtype not in record.supported_dtypes("cpu"):
            continue
        for training in modes:
            settings = {"device": "cpu", "dtype": dtype, "requires_grad": True}
            torch.manual_seed(0)
            np.random.seed(0)
            samples = list(record.module_inputs_func(record, training=training, **settings))
            if most_inputs is not None and len(samples) > most_inputs:
                samples = [samples[i * len(samples) // most_inputs] for i in range(most_inputs)]
            for sample in samples:
                words = f"{str(dtype)[6:]}, {'train' if training else 'eval'}: {describe(sample)}"
                for problem in run_input(record, sample, dtype, training, outcome):
                    outcome.problems.append(f"{words}: {problem}")
                    break
                if len(outcome.problems) >= most_problems:
                    return outcome
    outcome.problems += list(error_problems(record, outcome))[:most_problems]
    return outcome


def describe(sample: Any) -> str:
    def short(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return f"T{tuple(value.shape)}"
        if isinstance(value, torch.nn.Module):
            return type(value).__name__
        return [short(part) for part in value] if isinstance(value, (list, tuple)) else value

    def call(given: Any) -> str:
        words = [str(short(value)) for value in given.args]
        return ", ".join(words + [f"{k}={short(v)}" for k, v in given.kwargs.items()])

    forward = "" if sample.forward_input is None else call(sample.forward_input)
    return f"{sample.desc} ({call(sample.constructor_input)})({forward})"[:200]


def run_input(
    record: ModuleInfo, sample: Any, dtype: torch.dtype, training: bool, outcome: Outcome
) -> Iterator[str]:
    """What differs between PyTorch's module and ours for one input."""
    made = sample.constructor_input
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        theirs = record.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
        try:
            arguments = translate(list(made.args)), translate(made.kwargs)
            rl.manual_seed(0)
            mine = ours(record)(*arguments[0], **arguments[1])
            mine = mine.to(opinfo.ALL_DTYPES[dtype]).train(training)
        except Exception as error:
            yield f"construction: {type(error).__name__}: {str(error)[:200]}"
            return
        outcome.inputs += 1
        yield from compare_modules(record, theirs, mine)
        if not record.is_lazy:
            mine.load_state_dict(translate(dict(theirs.state_dict())))
        if sample.forward_input is not None:
            yield from compare_calls(record, sample, dtype, theirs, mine, outcome)


def compare_modules(record: ModuleInfo, theirs: Any, mine: Any) -> Iterator[str]:
    """Differences of two new modules: what is printed, and their state from the same seed."""
    if repr(theirs).replace("torch.", "rushlight.") != repr(mine):
        yield f"repr {mine!r}, expected {theirs!r}"
    a, b = theirs.state_dict(), mine.state_dict()
    if list(a) != list(b):
        yield f"state_dict has {list(b)}, expected {list(a)}"
        return
    if dict(a._metadata) != dict(b._metadata):
        yield f"_metadata {dict(b._metadata)}, expected {dict(a._metadata)}"
    if [name for name, _ in theirs.named_buffers()] != [name for name, _ in mine.named_buffers()]:
        yield "the buffers have other names"
    if not record.is_lazy:
        yield from compare_values(record, state_of(theirs), state_of(mine), "initial ")


def state_of(module: Any) -> Values:
    return {f"state {k}": t.detach().numpy().copy() for k, t in module.state_dict().items()}


def compare_calls(
    record: ModuleInfo, sample: Any, dtype: torch.dtype, theirs: Any, mine: Any, outcome: Outcome
) -> Iterator[str]:
    """Differences of results, gradients and the state afterwards."""
    given = sample.forward_input
    exact = copy.deepcopy(theirs).double() if dtype is torch.float32 else None
    expected = values_of(torch, theirs, given.args, given.kwargs)
    leaves: list[tuple[Any, Any]] = []  # a tensor given twice is one leaf
    try:
        got = values_of(rl, mine, translate(given.args, leaves), translate(given.kwargs, leaves))
    except Exception as error:
        yield f"{type(error).__name__}: {str(error)[:200]}"
        return
    outcome.gradients += any(name.startswith("gradient") for name in expected)
    problems = list(compare_values(record, expected, got, ""))
    if problems and exact is not None:
        judge = values_of(torch, exact, doubled(given.args), doubled(given.kwargs))
        if as_near(expected, got, judge):
            outcome.by_double += 1
            problems = []
    yield from problems
    if record.is_lazy and repr(theirs).replace("torch.", "rushlight.") != repr(mine):
        yield f"repr after the first call {mine!r}, expected {theirs!r}"


def values_of(lib: Any, module: Any, args: Any, kwargs: Any) -> Values:
    """Results, gradients and the state afterwards of one call, as arrays by name."""
    lib.manual_seed(0)
    results = [r for r in flat(module(*args, **kwargs)) if r is not None]
    values = {f"result {i}": r.detach().numpy() for i, r in enumerate(results)}
    leaves = {f"gradient of input {i}": t for i, t in enumerate(tensors_in([args, kwargs]))}
    leaves |= {f"gradient of {name}": p for name, p in module.named_parameters()}
    leaves = {name: t for name, t in leaves.items() if t.requires_grad}
    outputs = [r for r in results if r.requires_grad]
    values |= {"differentiable results": np.array(len(outputs))}
    if leaves and outputs:
        random = np.random.default_rng(0)
        weights = [
            lib.from_numpy(random.standard_normal(tuple(r.shape))).to(r.dtype) for r in outputs
        ]
        grads = lib.autograd.grad(outputs, list(leaves.values()), weights, allow_unused=True)
        for (name, t), g in zip(leaves.items(), grads, strict=True):
            there = np.zeros(tuple(t.shape), np.float32) if g is None else g.detach().numpy()
            values[name] = there
    return values | state_of(module)


def compare_values(record: ModuleInfo, theirs: Values, mine: Values, prefix: str) -> Iterator[str]:
    if list(theirs) != list(mine):
        yield f"{prefix}got {list(mine)}, expected {list(theirs)}"
        return
    for name, a in theirs.items():
        b = mine[name]
        if a.shape != b.shape or (a.dtype != b.dtype and a.any()):
            yield f"{prefix}{name}: {b.dtype}{list(b.shape)}, expected {a.dtype}{list(a.shape)}"
            continue
        kind = torch.float64 if a.dtype == np.float64 else torch.float32
        rtol, atol = (0, 0) if prefix else tolerance(record, kind)
        close = np.isclose(b, a, rtol=rtol, atol=atol, equal_nan=True)
        if not close.all():
            i = tuple(int(k) for k in np.argwhere(~close)[0])
            bad = int((~close).sum())
            yield (
                f"{prefix}{name}: {bad} of {a.size} values differ, at {i}: {b[i]!r}, "
                f"expected {a[i]!r}"
            )


def as_near(theirs: Values, mine: Values, exact: Values) -> bool:
    """Whether our float32 is as near to PyTorch's float64 as PyTorch's own float32 is.

    In a deep module rounding is luck: 1e-5 of an array's largest element is near enough.
    """
    if not list(theirs) == list(mine) == list(exact):
        return False
    for name, e in exact.items():
        if mine[name].shape != theirs[name].shape or not np.isfinite(e).all():
            return False
        ours_off, theirs_off = (np.abs(x.astype(e.dtype) - e) for x in (mine[name], theirs[name]))
        near = max(2 * theirs_off.max(initial=0), 1e-5 * np.abs(e).max(initial=0))
        if ours_off.max(initial=0) > near:
            return False
    return True


def error_problems(record: ModuleInfo, outcome: Outcome) -> Iterator[str]:
    """Wrong inputs that do not raise PyTorch's class of error with PyTorch's message."""
    if record.module_error_inputs_func is None:
        return
    settings = {"device": "cpu", "dtype": torch.float32, "requires_grad": False, "training": True}
    for wrong in record.module_error_inputs_func(record, **settings):
        made = wrong.module_error_input.constructor_input
        given = wrong.module_error_input.forward_input
        outcome.errors += 1
        expected = f"expected {wrong.error_type.__name__}: {wrong.error_regex}"
        try:
            module = ours(record)(*translate(list(made.args)), **translate(made.kwargs))
            if wrong.error_on is ModuleErrorEnum.FORWARD_ERROR:
                module(*translate(given.args), **translate(given.kwargs))
            yield f"no error, {expected}"
        except Exception as error:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of odd patterns
                told = re.search(wrong.error_regex, str(error))
            if not isinstance(error, wrong.error_type) or not told:
                yield f"{type(error).__name__}: {str(error)[:160]}, {expected}"


def records(names: list[str]) -> list[ModuleInfo]:
    return [r for r in module_db if not names or r.name in names]


def main(names: list[str]) -> int:
    counts = {"ok": 0, "FAILED": 0, "missing": 0}
    for record in records(names):
        try:
            outcome = run_record(record, 5 if names else 1)
        except Exception as error:
            outcome = Outcome(record.name)
            outcome.problems.append(f"harness: {type(error).__name__}: {error}")
        state = "missing" if outcome.missing else "ok" if outcome.passed else "FAILED"
        counts[state] += 1
        counted = f"{outcome.inputs} inputs, {outcome.gradients} gradients, {outcome.errors} errors"
        if outcome.by_double:
            counted += f", {outcome.by_double} settled by float64"
        print(f"{state:8}{outcome.name}: {counted}", flush=True)
        for problem in outcome.problems:
            print(f"        {problem}")
    print("\n" + ", ".join(f"{count} {state}" for state, count in counts.items()))
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
