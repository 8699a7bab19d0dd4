"""PyTorch's own OpInfo records, run here: every sample input must give PyTorch's result.

python tests/peers/opinfo.py            # all records: a line each, then counts by category
python tests/peers/opinfo.py add sum    # these records, with the first mismatches
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import DecorateInfo, OpInfo

if __name__ == "__main__":
    sys.path.insert(0, ".")
import rushlight as rl
from rushlight.nn import functional

DTYPES = {
    torch.float32: rl.float32,
    torch.float64: rl.float64,
    torch.int64: rl.int64,
    torch.bool: rl.bool,
}
ALL_DTYPES = {
    getattr(torch, name): getattr(rl, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
}
UNDEFINED_VALUES = {  # these results hold whatever was in memory: shape and dtype count
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}

GAUGE = {"svd", "linalg.svd", "svd_lowrank", "pca_lowrank"}
GAUGE |= {"linalg.eigh", "linalg.eig", "linalg.qr"}
"""Vectors determined up to sign or phase by a decomposition: compared by the record's own rule."""

TIES = {"kthvalue", "topk", "mode", "sort", "argsort"}
"""PyTorch leaves open which of equal elements these choose: the values at their indices count."""


@dataclass
class Outcome:
    """What happened to one record."""

    name: str
    category: str
    samples: int = 0
    gradients: int = 0
    by_double: int = 0  # float32 samples beyond the tolerance, settled by PyTorch's float64
    problems: list[str] = field(default_factory=list)
    missing: str | None = None

    @property
    def passed(self) -> bool:
        return self.missing is None and not self.problems and self.samples > 0


def full_name(record: OpInfo) -> str:
    return f"{record.name}/{record.variant_test_name}" if record.variant_test_name else record.name


def category(record: OpInfo) -> str:
    return record.name.rsplit(".", 1)[0] if "." in record.name else "torch"


def compared(record: OpInfo) -> bool:
    """Whether PyTorch has samples of it in a dtype that is compared."""
    return any(dtype in record.supported_dtypes("cpu") for dtype in DTYPES)


def ours(record: OpInfo) -> Callable[..., Any] | None:
    """Our function for a record: of the same name, or PyTorch's Python wrapper run over ours."""
    return translate_function(record.op) if record.op is not None else None


@functools.cache
def translate_function(function: Any) -> Any:
    if isinstance(function, functools.partial):
        inner = translate_function(function.func)
        return (
            None if inner is None else functools.partial(inner, *function.args, **function.keywords)
        )
    module = getattr(function, "__module__", "") or ""
    if isinstance(function, types.FunctionType) and module.startswith("torch.testing"):
        return rebuild(function)
    return by_path(path_of(function))


def rebuild(function: types.FunctionType) -> Any:
    """A helper of PyTorch's tests with ``torch`` meaning ``rushlight`` inside it."""
    if "aten" in function.__code__.co_names:  # it calls PyTorch's inner operators
        return None
    cells = []
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        if callable(value) and not isinstance(value, type):
            value = translate_function(value)
            if value is None:
                return None
        cells.append(types.CellType(value))
    names = {"torch": rl, "F": functional, "wrapper_set_seed": with_seed}
    scope = {**function.__globals__, **names}
    twin = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, tuple(cells)
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def with_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """PyTorch's ``wrapper_set_seed``: the samples of random ops are drawn from one seed."""
    rl.manual_seed(42)
    return op(*args, **kwargs)


@functools.cache
def paths() -> dict[int, str]:
    """Where PyTorch's public functions are found, by identity."""
    found: dict[int, str] = {}
    spaces = [("", torch), ("nn.functional.", torch.nn.functional), ("linalg.", torch.linalg)]
    spaces += [("fft.", torch.fft), ("special.", torch.special), ("masked.", torch.masked)]
    spaces += [("signal.windows.", torch.signal.windows), ("Tensor.", torch.Tensor)]
    for prefix, space in spaces:
        for name in sorted(dir(space), key=lambda n: n.startswith("_")):
            try:
                found.setdefault(id(getattr(space, name)), prefix + name)
            except Exception:
                continue
    return found


def path_of(function: Any) -> str:
    return paths().get(id(function), "") or getattr(function, "__name__", "")


def by_path(path: str) -> Any:
    value: Any = rl
    for part in path.split("."):
        value = getattr(value, part, None)
        if value is None:
            return None
    return value


def translate(value: Any, grads: list[tuple[Any, Any]] | None = None) -> Any:
    """A PyTorch value as ours; pairs of leaves that want gradients are added to ``grads``."""
    if isinstance(value, torch.Tensor):
        return translate_tensor(value, grads)
    if isinstance(value, torch.dtype):
        return ALL_DTYPES[value]
    if isinstance(value, torch.Size):
        return rl.Size(value)
    if isinstance(value, torch.device):
        return rl.device(str(value))
    if isinstance(value, (torch.memory_format, torch.layout)):
        return getattr(rl, str(value).removeprefix("torch."))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(translate(v, grads) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(translate(v, grads) for v in value)
    if isinstance(value, dict):
        return {k: translate(v, grads) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(*(translate(v, grads) for v in (value.start, value.stop, value.step)))
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith("torch.nn."):
        fields = [field.name for field in dataclasses.fields(value)]
        return ours_of(value)(**{name: translate(getattr(value, name)) for name in fields})
    if isinstance(value, torch.nn.PairwiseDistance):
        return ours_of(value)(value.norm, value.eps, value.keepdim)
    return value


def ours_of(value: Any) -> Any:
    """Our class of the name that a PyTorch object's class has in ``torch.nn``."""
    return getattr(rl.nn, type(value).__name__)


def translate_tensor(value: torch.Tensor, grads: list[tuple[Any, Any]] | None) -> Any:
    """A copy of the tensor with its strides and all of its storage around it."""
    if value.layout is not torch.strided:
        raise NotImplementedError(f"layout {value.layout}")
    for known, twin in grads or ():
        if known is value:
            return twin
    plain = value.detach()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    memory = torch.empty(0, dtype=plain.dtype).set_(plain.untyped_storage())
    if plain.dtype is torch.bfloat16:
        t = rl.from_numpy(memory.float().numpy().copy()).to(rl.bfloat16)
    else:
        t = rl.from_numpy(memory.numpy().copy())
    with rl.no_grad():
        t = t.as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset()).detach()
    if value.requires_grad:
        t = t.requires_grad_()
        if grads is not None:
            grads.append((value, t))
    return t


def tolerance(record: OpInfo, dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol): assert_close's for the dtype, or wider ones that the record itself asks for."""
    real = {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)
    rtol, atol = {
        torch.float32: (1.3e-6, 1e-5),
        torch.float64: (1e-7, 1e-7),
        torch.float16: (1e-3, 1e-5),
        torch.bfloat16: (1.6e-2, 1e-5),
    }.get(real, (0.0, 0.0))
    for info in record.decorators:
        for decorator in (
            getattr(info, "decorators", [info]) if isinstance(info, DecorateInfo) else [info]
        ):
            if isinstance(decorator, toleranceOverride) and real in decorator.d:
                wider = decorator.d[real]
                rtol, atol = max(rtol, wider.rtol), max(atol, wider.atol)
    return rtol, atol


def compare(record: OpInfo, theirs: Any, mine: Any, where: str) -> Iterator[str]:
    """Every difference between two results, as text."""
    if isinstance(theirs, torch.Tensor):
        if not isinstance(mine, rl.Tensor):
            yield f"{where}: expected a Tensor, got {type(mine).__name__}"
            return
        if theirs.layout is not torch.strided:
            yield f"{where}: layout {theirs.layout}"
            return
        if tuple(theirs.shape) != tuple(mine.shape):
            yield f"{where}: shape {tuple(mine.shape)}, expected {tuple(theirs.shape)}"
            return
        if ALL_DTYPES.get(theirs.dtype) is not mine.dtype:
            yield f"{where}: dtype {mine.dtype}, expected {theirs.dtype}"
            return
        if record.name in UNDEFINED_VALUES:
            return
        yield from compare_values(record, theirs, mine, where)
    elif isinstance(theirs, (tuple, list)):
        if not isinstance(mine, (tuple, list)) or len(mine) != len(theirs):
            yield f"{where}: expected {len(theirs)} results, got {mine!r:.60}"
            return
        for i, (a, b) in enumerate(zip(theirs, mine, strict=True)):
            yield from compare(record, a, b, f"{where}[{i}]")
    elif isinstance(theirs, float) and isinstance(mine, (int, float)):
        if not np.isclose(theirs, mine, *tolerance(record, torch.float32), equal_nan=True):
            yield f"{where}: {mine}, expected {theirs}"
    elif isinstance(theirs, torch.dtype):
        if ALL_DTYPES.get(theirs) is not mine:
            yield f"{where}: {mine}, expected {theirs}"
    elif theirs is not None and theirs != mine:
        yield f"{where}: {mine!r}, expected {theirs!r}"


def compare_values(record: OpInfo, theirs: torch.Tensor, mine: Any, where: str) -> Iterator[str]:
    plain = theirs.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        plain, mine = plain.float(), mine.float()
    a, b = plain.numpy(force=True), mine.detach().numpy()
    rtol, atol = tolerance(record, theirs.dtype)
    close = np.isclose(b, a, rtol=rtol, atol=atol, equal_nan=True)
    if not close.all():
        i = tuple(int(k) for k in np.argwhere(~close)[0])
        bad = int((~close).sum())
        yield f"{where}: {bad} of {a.size} values differ, at {i}: {b[i]!r}, expected {a[i]!r}"


def describe(sample: Any) -> str:
    def short(v: Any) -> Any:
        if isinstance(v, torch.Tensor):
            return f"T{tuple(v.shape)}:{str(v.dtype).removeprefix('torch.')}"
        if isinstance(v, (list, tuple)):
            return [short(x) for x in v]
        return v

    words = [short(sample.input), *map(short, sample.args)]
    words += [f"{k}={short(v)}" for k, v in sample.kwargs.items()]
    return ", ".join(map(str, words))[:160]


def flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def run_record(record: OpInfo, most_problems: int = 5) -> Outcome:
    """Every sample of every dtype that PyTorch supports, with gradients where it has them."""
    outcome = Outcome(full_name(record), category(record))
    function = ours(record)
    if function is None:
        outcome.missing = "no such op here"
        return outcome
    for dtype in DTYPES:
        if dtype not in record.supported_dtypes("cpu"):
            continue
        wants = record.supports_autograd and dtype in record.supported_backward_dtypes("cpu")
        torch.manual_seed(0)
        np.random.seed(0)
        for sample in record.sample_inputs("cpu", dtype, requires_grad=wants):
            problem = run_sample(record, function, sample, wants, outcome)
            if problem and dtype is torch.float32 and as_near(record, function, sample, wants):
                outcome.by_double += 1
                problem = None
            if outcome.missing:
                return outcome
            if problem:
                outcome.problems.append(f"{str(dtype)[6:]}: ({describe(sample)}) {problem}")
                if len(outcome.problems) >= most_problems:
                    return outcome
    return outcome


def run_sample(
    record: OpInfo, function: Callable[..., Any], sample: Any, wants: bool, outcome: Outcome
) -> str | None:
    pairs: list[tuple[Any, Any]] = []
    try:
        mine_input, mine_args, mine_kwargs = (
            translate(part, pairs) for part in (sample.input, list(sample.args), sample.kwargs)
        )
    except NotImplementedError:
        return None  # a sparse or quantised sample: no strided tensor can stand for it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        theirs = record.op(sample.input, *sample.args, **sample.kwargs)
        try:
            rl.manual_seed(0)
            mine = function(mine_input, *mine_args, **mine_kwargs)
        except Exception as error:
            if f"object has no attribute '{record.name}'" in str(error):
                outcome.missing = "no such method here"
                return None
            return f"{type(error).__name__}: {str(error)[:200]}"
    outcome.samples += 1
    if record.name in TIES:
        same, theirs, mine = settle_ties(record, sample, theirs, mine)
        wants = wants and same
    seen = sample.output_process_fn_grad if record.name in GAUGE else lambda value: value
    for problem in compare(record, seen(theirs), seen(mine), "result"):
        return problem
    if wants and pairs and record.name not in UNDEFINED_VALUES:
        return compare_gradients(record, sample, theirs, mine, pairs, outcome)
    return None


def settle_ties(record: OpInfo, sample: Any, theirs: Any, mine: Any) -> tuple[bool, Any, Any]:
    """The results with indices replaced by the values they point at, where the indices differ."""
    indices, other = (theirs, mine) if record.name == "argsort" else (theirs[1], mine[1])
    other = torch.from_numpy(other.numpy().copy())
    if indices.shape != other.shape or torch.equal(indices, other):
        return True, theirs, mine
    names = {"kthvalue": 2, "topk": 2, "mode": 1, "sort": 1, "argsort": 1}
    given = (sample.input, *sample.args)
    place = names[record.name]
    dim = given[place] if len(given) > place else sample.kwargs.get("dim", -1)
    keep = sample.input.ndim == indices.ndim
    a, b = (i if keep else i.unsqueeze(dim) for i in (indices, other))
    there, here = (torch.take_along_dim(sample.input.detach(), i, dim) for i in (a, b))
    if record.name == "argsort":
        return False, there, translate(here)
    return False, (theirs[0], there), (mine[0], translate(here))


def compare_gradients(
    record: OpInfo, sample: Any, theirs: Any, mine: Any, pairs: list, outcome: Outcome
) -> str | None:
    theirs = flat(sample.output_process_fn_grad(theirs))
    try:
        mine = flat(sample.output_process_fn_grad(mine))
    except Exception as error:
        return f"processing the output: {type(error).__name__}: {error}"
    theirs = [t for t in theirs if isinstance(t, torch.Tensor) and t.requires_grad]
    if not theirs:
        return None
    mine = [t for t in mine if isinstance(t, rl.Tensor) and t.requires_grad]
    if len(mine) != len(theirs):
        return f"{len(mine)} results require grad, expected {len(theirs)}"
    torch.manual_seed(1)
    cotangents = [torch.randn_like(t) for t in theirs]
    expected = torch.autograd.grad(theirs, [a for a, _ in pairs], cotangents, allow_unused=True)
    try:
        got = rl.autograd.grad(
            mine, [b for _, b in pairs], [translate(c) for c in cotangents], allow_unused=True
        )
    except Exception as error:
        return f"backward: {type(error).__name__}: {str(error)[:200]}"
    outcome.gradients += 1
    for i, (a, b) in enumerate(zip(expected, got, strict=True)):
        if a is None or b is None:
            zero = (a is None and b is None) or not (a if a is not None else b).any()
            if not zero:
                return f"gradient {i}: {b!r:.80}, expected {a!r:.80}"
            continue
        for problem in compare(record, a, b, f"gradient {i}"):
            return problem
    return None


def as_near(record: OpInfo, function: Callable[..., Any], sample: Any, wants: bool) -> bool:
    """Whether our float32 is as near to PyTorch's float64 as PyTorch's own float32 is.

    Where float32 itself is coarser than the tolerance (an ill-conditioned gradient, a cancelling
    sum), two right programs differ by more than it; float64 then is the judge.
    """
    try:
        mine = all_values(function, translate(sample.input), sample, translate, wants, rl)
        theirs = all_values(record.op, sample.input, sample, lambda v: v, wants, torch)
        exact = all_values(record.op, doubled(sample.input), sample, doubled, wants, torch)
    except Exception:
        return False
    if not len(mine) == len(theirs) == len(exact):
        return False
    for m, t, e in zip(mine, theirs, exact, strict=True):
        if m.shape != t.shape or m.dtype != t.dtype:
            return False
        ours_off, theirs_off = (np.abs(x.astype(e.dtype) - e) for x in (m, t))
        if not np.isfinite(e).all() or ours_off.max(initial=0) > 2 * theirs_off.max(initial=0):
            return False
    return True


def doubled(value: Any) -> Any:
    """A sample's value with its float32 tensors in float64."""
    if isinstance(value, torch.Tensor):
        if value.dtype is not torch.float32:
            return value
        return value.detach().double().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(doubled(v) for v in value)
    if isinstance(value, dict):
        return {k: doubled(v) for k, v in value.items()}
    return torch.float64 if value is torch.float32 else value


def all_values(
    function: Any, first: Any, sample: Any, convert: Callable, wants: bool, lib: Any
) -> list[np.ndarray]:
    """Results and gradients of one sample in one library, as arrays."""
    args, kwargs = convert(list(sample.args)), convert(sample.kwargs)
    lib.manual_seed(0)
    results = flat(sample.output_process_fn_grad(function(first, *args, **kwargs)))
    values = [t.detach().numpy() for t in results if isinstance(t, lib.Tensor)]
    leaves = [t for t in tensors_in([first, args, kwargs]) if t.requires_grad]
    outputs = [t for t in results if isinstance(t, lib.Tensor) and t.requires_grad]
    if wants and leaves and outputs:
        random = np.random.default_rng(0)
        weights = [
            lib.from_numpy(random.standard_normal(tuple(t.shape))).to(t.dtype) for t in outputs
        ]
        grads = lib.autograd.grad(outputs, leaves, weights, allow_unused=True)
        values += [g.detach().numpy() for g in grads if g is not None]
    return values


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, (torch.Tensor, rl.Tensor)):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (list, tuple, dict)):
        return []
    return [t for part in parts for t in tensors_in(part)]


def records(names: list[str]) -> list[OpInfo]:
    chosen = [r for r in op_db if not names or r.name in names or full_name(r) in names]
    return [r for r in chosen if not r.name.startswith("jiterator")] if not names else chosen


def main(names: list[str]) -> int:
    counts: dict[str, list[int]] = {}
    failed = 0
    for record in records(names):
        try:
            outcome = run_record(record, 5 if names else 1)
        except Exception as error:
            outcome = Outcome(full_name(record), category(record))
            outcome.problems.append(f"harness: {type(error).__name__}: {error}")
        state = "missing" if outcome.missing else "ok" if outcome.passed else "FAILED"
        if not compared(record):
            state = "other dtypes only"
        counted = f"{outcome.samples} samples, {outcome.gradients} gradients"
        if outcome.by_double:
            counted += f", {outcome.by_double} settled by float64"
        print(f"{state:8}{outcome.name}: {counted}", flush=True)
        for problem in outcome.problems:
            print(f"        {problem}")
        failed += state == "FAILED"
        passed, total, absent = counts.setdefault(outcome.category, [0, 0, 0])
        counts[outcome.category] = [
            passed + outcome.passed,
            total + 1,
            absent + (outcome.missing is not None),
        ]
    print("\ncategory: passed / records (missing)")
    for name, (passed, total, absent) in counts.items():
        print(f"  {name}: {passed} / {total} ({absent})")
    print(f"  all: {sum(c[0] for c in counts.values())} / {sum(c[1] for c in counts.values())}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
