"""Bad input gets a clear error: the class PyTorch users expect, the value, the allowed range."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rushlight as rl
from rushlight.ops import registry

A, B = rl.ones(2, 3), rl.ones(4, 5)
LEAF = rl.ones(3, requires_grad=True)

CASES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "matmul shapes": (lambda: A @ B, RuntimeError, r"2x3 and 4x5"),
    "mm shapes": (lambda: A.mm(B), RuntimeError, r"cannot be multiplied \(2x3 and 4x5\)"),
    "bmm batches": (
        lambda: rl.bmm(rl.ones(2, 3, 4), rl.ones(3, 4, 5)),
        RuntimeError,
        r"2.*3|batch",
    ),
    "broadcast": (lambda: A + B, RuntimeError, r"size of tensor a \(3\).*tensor b \(5\)"),
    "cat shapes": (lambda: rl.cat([A, B]), RuntimeError, r"(?i)sizes of tensors must match.*3.*5"),
    "stack shapes": (lambda: rl.stack([A, B]), RuntimeError, r"equal size.*\[2, 3\].*\[4, 5\]"),
    "cat of nothing": (lambda: rl.cat([]), (RuntimeError, ValueError), r"non-empty"),
    "axis too high": (lambda: A.sum(2), IndexError, r"\[-2, 1\], but got 2"),
    "axis too low": (lambda: A.sum(-3), IndexError, r"\[-2, 1\], but got -3"),
    "axis of a scalar": (lambda: rl.tensor(1.0).sum(1), IndexError, r"\[-1, 0\], but got 1"),
    "transpose axis": (lambda: A.transpose(0, 2), IndexError, r"but got 2"),
    "duplicate axes": (lambda: A.sum((0, 0)), RuntimeError, r"appears multiple times"),
    "duplicate permute": (
        lambda: A.permute(0, 0),
        RuntimeError,
        r"multiple times|duplicate|repeated",
    ),
    "two unknown sizes": (
        lambda: A.reshape(-1, -1),
        RuntimeError,
        r"only one dimension can be inferred",
    ),
    "unknown size of nothing": (
        lambda: rl.ones(0, 3).reshape(-1, 0),
        RuntimeError,
        r"cannot reshape tensor of 0 elements",
    ),
    "reshape count": (
        lambda: A.reshape(4, 2),
        RuntimeError,
        r"\[4, 2\].*invalid for input of size 6",
    ),
    "negative size": (lambda: rl.zeros(-1, 2), RuntimeError, r"negative dimension -1"),
    "fractional size": (lambda: rl.zeros(1.5), TypeError, r"float"),
    "fractional reshape": (lambda: A.reshape(1.5, 4), TypeError, r"float"),
    "element count": (
        lambda: rl.empty(2**40, 2**40),
        RuntimeError,
        r"(?i)overflow|too large|elements",
    ),
    "element count of expand": (
        lambda: rl.ones(1, 1).expand(2**40, 2**40).clone(),
        (RuntimeError, MemoryError),
        r".",
    ),
    "65 dimensions": (lambda: rl.zeros([1] * 65), RuntimeError, r"64"),
    "65 dimensions by unsqueeze": (lambda: rl.zeros([1] * 64).unsqueeze(0), RuntimeError, r"64"),
    "index too high": (
        lambda: rl.ones(3)[3],
        IndexError,
        r"index 3 is out of bounds for dimension 0 with size 3",
    ),
    "index too low": (lambda: rl.ones(3)[-4], IndexError, r"index -4 is out of bounds.*size 3"),
    "advanced index too high": (
        lambda: rl.ones(3)[rl.tensor([0, 3])],
        IndexError,
        r"index 3 is out of bounds.*size 3",
    ),
    "too many indices": (
        lambda: A[0, 0, 0],
        IndexError,
        r"too many indices for tensor of dimension 2",
    ),
    "float index": (lambda: A[rl.tensor([0.5])], IndexError, r"must be long, int, byte or bool"),
    "wrong mask": (
        lambda: A[rl.tensor([True, False, True])],
        IndexError,
        r"shape of the mask \[3\].*\[2, 3\]",
    ),
    "write index too high": (
        lambda: rl.ones(3).__setitem__(5, 1.0),
        IndexError,
        r"index 5.*size 3",
    ),
    "write of the wrong shape": (
        lambda: rl.ones(3).__setitem__(slice(None), rl.ones(2)),
        RuntimeError,
        r"2.*3|3.*2",
    ),
    "gather index": (
        lambda: rl.gather(A, 1, rl.tensor([[3], [0]])),
        (RuntimeError, IndexError),
        r"index 3.*size 3",
    ),
    "gather negative index": (
        lambda: rl.gather(A, 1, rl.tensor([[-1], [0]])),
        (RuntimeError, IndexError),
        r"index -1.*size 3",
    ),
    "gather float index": (
        lambda: rl.gather(A, 1, rl.tensor([[0.0]])),
        RuntimeError,
        r"(?i)int64|int32|index",
    ),
    "scatter index": (
        lambda: rl.zeros(2, 3).scatter(1, rl.tensor([[7]]), 1.0),
        (RuntimeError, IndexError),
        r"index 7.*size 3",
    ),
    "index_select index": (
        lambda: A.index_select(1, rl.tensor([5])),
        (IndexError, RuntimeError),
        r"5|out of range",
    ),
    "take index": (lambda: A.take(rl.tensor([6])), IndexError, r"6"),
    "empty max": (lambda: rl.ones(0).max(), RuntimeError, r"(?i)max.*(empty|no identity|numel)"),
    "empty max by dim": (
        lambda: rl.ones(0, 3).max(0),
        IndexError,
        r"(?i)max.*(non-zero|empty|size)",
    ),
    "empty argmax": (lambda: rl.ones(0).argmax(), (RuntimeError, IndexError), r"(?i)argmax"),
    "bitwise on floats": (lambda: A & A, RuntimeError, r"bitwise_and.*Float"),
    "matmul of bools": (lambda: rl.ones(2, 2).bool() @ rl.ones(2, 2).bool(), RuntimeError, r"Bool"),
    "bool subtraction": (lambda: A.bool() - A.bool(), RuntimeError, r"(?i)subtraction|Bool"),
    "mean of integers": (lambda: rl.arange(3).mean(), RuntimeError, r"(?i)mean.*(Long|int64)"),
    "matmul of two dtypes": (
        lambda: A @ rl.ones(3, 2, dtype=rl.float64),
        RuntimeError,
        r"(?i)same dtype.*float.*double",
    ),
    "integer gradient": (
        lambda: rl.arange(3).requires_grad_(),
        RuntimeError,
        r"floating point.*int64",
    ),
    "integer gradient at birth": (
        lambda: rl.tensor([1], requires_grad=True),
        RuntimeError,
        r"floating point",
    ),
    "in-place dtype": (lambda: rl.arange(3).add_(1.5), RuntimeError, r"Float can't be cast.*Long"),
    "in-place shape": (
        lambda: rl.ones(3).add_(rl.ones(2, 3)),
        RuntimeError,
        r"output with shape \[3\].*broadcast shape \[2, 3\]",
    ),
    "in-place on an expanded view": (
        lambda: rl.ones(1).expand(3).add_(1),
        RuntimeError,
        r"single memory location.*clone\(\)",
    ),
    "in-place on a leaf": (
        lambda: LEAF.add_(1),
        RuntimeError,
        r"a leaf Variable that requires grad.*in-place",
    ),
    "in-place on a view of a leaf": (
        lambda: LEAF[:2].add_(1),
        RuntimeError,
        r"a view of a leaf Variable that requires grad",
    ),
    "backward of many values": (
        lambda: (LEAF * 2).backward(),
        RuntimeError,
        r"only for scalar outputs, got shape \[3\]",
    ),
    "backward without graph": (
        lambda: rl.ones(1).sum().backward(),
        RuntimeError,
        r"does not require grad",
    ),
    "gradient of the wrong shape": (
        lambda: (LEAF * 2).backward(rl.ones(2)),
        RuntimeError,
        r"shape of \[2\].*shape of \[3\]",
    ),
    "integer division by zero": (lambda: rl.arange(3) // 0, RuntimeError, r"ZeroDivisionError"),
    "integer remainder by zero": (
        lambda: rl.arange(3) % rl.tensor([0, 1, 1]),
        RuntimeError,
        r"ZeroDivisionError",
    ),
    "negative probability": (
        lambda: rl.multinomial(rl.tensor([-1.0, 2.0]), 1),
        RuntimeError,
        r"(?i)probability.*(<\s*0|negative)",
    ),
    "zero probabilities": (
        lambda: rl.multinomial(rl.zeros(3), 1),
        RuntimeError,
        r"(?i)invalid multinomial distribution|sum",
    ),
    "unknown device": (lambda: rl.zeros(2, device="cuda"), RuntimeError, r"'cuda'.*'cpu'"),
    "unknown device name": (lambda: rl.device("gpu"), RuntimeError, r"cpu.*gpu"),
    "move to an absent device": (lambda: A.to("cuda:1"), RuntimeError, r"'cuda:1'.*'cpu'"),
    "one_hot class": (lambda: rl.ops.ops.one_hot(rl.tensor([3]), 3), RuntimeError, r"(?i)class"),
    "embedding index": (lambda: rl.ops.ops.embedding(A, rl.tensor([2])), IndexError, r"2"),
    "pad longer than rank": (
        lambda: registry["nn.functional.pad"].call(rl.ones(2), (1, 1, 1, 1)),
        RuntimeError,
        r"(?i)padding",
    ),
    "ragged list": (
        lambda: rl.tensor([[1, 2], [3]]),
        ValueError,
        r"expected sequence of length 2 at dim 1 \(got 1\)",
    ),
    "a string": (lambda: rl.tensor("abc"), (TypeError, ValueError), r"str"),
    "split sizes": (lambda: A.split([1, 1], dim=1), RuntimeError, r"split_sizes|sum|exactly"),
    "chunk zero": (lambda: A.chunk(0), RuntimeError, r"chunk.*greater than 0"),
    "inverse of a rectangle": (lambda: rl.linalg.inv(A), RuntimeError, r"square"),
    "inverse of a singular matrix": (
        lambda: rl.linalg.inv(rl.zeros(2, 2)),
        RuntimeError,
        r"singular",
    ),
    "cholesky of an indefinite matrix": (
        lambda: rl.linalg.cholesky(-rl.eye(2)),
        RuntimeError,
        r"positive-definite",
    ),
    "item of many": (
        lambda: A.item(),
        RuntimeError,
        r"Tensor with 6 elements cannot be converted to Scalar",
    ),
    "bool of many": (lambda: bool(A), RuntimeError, r"ambiguous"),
    "numpy of a tensor with grad": (lambda: LEAF.numpy(), RuntimeError, r"detach\(\)\.numpy\(\)"),
    "seed": (lambda: rl.manual_seed("x"), (TypeError, ValueError), r"."),
    "randint range": (lambda: rl.randint(5, 5, (2,)), RuntimeError, r"from=5.*to=5|from.*less"),
    "object array": (lambda: rl.from_numpy(np.array([object()])), TypeError, r"object"),
    "arange step": (lambda: rl.arange(0, 5, 0), RuntimeError, r"step must be nonzero"),
    "topk": (lambda: rl.ones(3).topk(4), RuntimeError, r"(?i)k.*out of range|index k"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name: str) -> None:
    call, error, message = CASES[name]
    with pytest.raises(error, match=message):
        call()


def test_a_failed_write_changes_nothing() -> None:
    x = rl.arange(3)
    with pytest.raises(RuntimeError):
        x.add_(1.5)
    assert x.tolist() == [0, 1, 2]
    assert x._version == 0


def test_a_saved_tensor_changed_in_place_is_named_with_the_line() -> None:
    x = rl.ones(3, requires_grad=True)
    w = rl.ones(3)
    y = (x * w).sum()
    w.add_(1)
    with pytest.raises(
        RuntimeError, match=r"MulBackward0.*version 1; expected version 0.*test_bad_inputs.py:\d+"
    ):
        y.backward()


def test_a_second_backward_says_retain_graph() -> None:
    x = rl.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()


class WrongCount(rl.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, g):
        return g


class WrongShape(rl.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, g):
        return rl.ones(7)


def test_custom_functions_with_wrong_gradients() -> None:
    x = rl.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
        WrongCount.apply(x, x).sum().backward()
    with pytest.raises(RuntimeError, match=r"invalid gradient.*\[7\].*\[3\]"):
        WrongShape.apply(x).sum().backward()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_a_cast_to_integers_never_traps(value: float) -> None:
    with np.errstate(all="raise"):
        y = rl.tensor([value]).to(rl.int64)
    assert y.dtype is rl.int64
    assert y.tolist() == rl.tensor([value]).to(rl.int64).tolist()
