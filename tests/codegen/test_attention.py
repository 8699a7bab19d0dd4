"""Attention by blocks of weights gives what the NumPy kernels give."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen import nest
from rushlight.codegen.attention import Attended, attended, even
from rushlight.codegen.products import Place
from rushlight.kernels import attention as kernels
from rushlight.runtime import natives

Arrays = dict[str, np.ndarray]
NATIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-13}
sdpa = rl.nn.functional.scaled_dot_product_attention


def seen(array: np.ndarray) -> Place:
    return Place(array.shape, tuple([s // array.itemsize for s in array.strides]))


def plan(name: str, arrays: Arrays, causal: bool) -> Attended | None:
    kind = "f32" if arrays["q"].dtype == np.float32 else "f64"
    places = {x: seen(a) for x, a in arrays.items()}
    return attended(name, kind, natives.registers(), places, 0.3, causal)


def run(name: str, arrays: Arrays, causal: bool, backwards: bool = False) -> None:
    """Runs all shares one by one, in working memory that is NaN at first."""
    found = plan(name, arrays, causal)
    assert found is not None
    for zeroed in found.zeroed:
        arrays[zeroed][...] = 0
    space = np.full(found.space, np.nan, arrays["q"].dtype)
    table = found.nest.table()
    memory = {**arrays, "space": space}
    functions = [natives.address(x) for x in found.nest.functions]
    own = [memory[x].ctypes.data for x in found.nest.buffers]
    buffers = np.array([table.ctypes.data, *functions, *own], np.int64)
    function = NATIVE(natives.address(nest.NAME))
    for share in range(found.nest.shares)[:: -1 if backwards else 1]:
        function(buffers.ctypes.data, share, share + 1)


def operands(
    batch: tuple[int, ...],
    sizes: tuple[int, int, int, int],
    dtype: Any = np.float32,
    bias: tuple[int, ...] = (),
    noise: bool = False,
    keys: tuple[int, ...] | None = None,
) -> Arrays:
    rows, columns, inner, wide = sizes
    draw = np.random.default_rng(0)
    keys = batch if keys is None else keys
    shapes = {"q": (*batch, rows, inner), "k": (*keys, columns, inner), "v": (*keys, columns, wide)}
    arrays = {name: draw.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    if bias:
        arrays["bias"] = draw.standard_normal(bias).astype(dtype)
    if noise:
        kept = draw.random((*batch, rows, columns)) < 0.8
        arrays["noise"] = (kept / 0.8).astype(dtype)
    return arrays


def results(arrays: Arrays, causal: bool, backwards: bool = False) -> Arrays:
    """y, its statistics, and the gradients for a fixed gradient of y."""
    q, v = arrays["q"], arrays["v"]
    rows = q.shape[:-1]
    made = {"y": np.full((*rows, v.shape[-1]), np.nan, q.dtype)}
    made |= {name: np.full((*rows, 1), np.nan, q.dtype) for name in ("tops", "totals")}
    run("attend", arrays | made, causal, backwards)
    g = np.random.default_rng(1).standard_normal(made["y"].shape).astype(q.dtype)
    gradients = {f"d{x}": np.full_like(arrays[x], np.nan) for x in "qkv"}
    run("attend_gradient", arrays | made | {"g": g} | gradients, causal, backwards)
    return made | gradients


def expected(arrays: Arrays, causal: bool) -> list[np.ndarray]:
    q, k, v = [arrays[x] for x in "qkv"]
    bias = arrays.get("bias")
    extras = (bias, arrays.get("noise"))
    with np.errstate(all="ignore"):
        saved = kernels.attention(0.3, False, causal, q, k, v, *extras)
        g = np.random.default_rng(1).standard_normal(saved[0].shape).astype(q.dtype)
        found = kernels.attention_gradient(0.3, causal, False, g, *saved, q, k, v, *extras)
    return [
        *saved[:3],
        *[kernels.summed(d, arrays[x].shape) for d, x in zip(found, "qkv", strict=False)],
    ]


CASES: dict[str, tuple[Any, ...]] = {
    "one block": ((2,), (5, 7, 3, 4)),
    "edges of both blocks": ((2, 3), (100, 130, 16, 8)),
    "float64": ((2,), (200, 300, 5, 24), np.float64),
    "one query": ((3,), (1, 300, 8, 8)),
    "one key": ((3,), (97, 1, 1, 1)),
    "one number": ((1,), (1, 1, 1, 1)),
    "bias of weights": ((2, 3), (128, 128, 32, 32), np.float32, (128, 128)),
    "bias of keys, noise": ((2, 3), (70, 130, 8, 8), np.float32, (2, 1, 1, 130), True),
    "shared keys": ((2, 2, 3), (50, 50, 8, 8), np.float32, (), True, (2, 2, 1)),
    "few heads, many rows": ((1,), (500, 260, 8, 40)),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str, causal: bool) -> None:
    arrays = operands(*CASES[case])
    found = results(arrays, causal)
    for (name, x), y in zip(found.items(), expected(arrays, causal), strict=True):
        scale = max(1.0, float(np.abs(y).max()))
        np.testing.assert_allclose(x, y, rtol=0, atol=TOLERANCE[x.dtype] * scale, err_msg=name)


def test_any_strides() -> None:
    """Heads beside each other in memory, as one product makes them."""
    arrays = operands((2, 3), (100, 140, 8, 8))
    turned = {x: np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2) for x, a in arrays.items()}
    for x, y in zip(results(arrays, True).values(), results(turned, True).values(), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def test_order_of_shares_is_free() -> None:
    arrays = operands((2, 2, 3), (200, 200, 8, 8), keys=(2, 2, 1))
    first, second = results(arrays, False), results(arrays, False, backwards=True)
    assert all([np.array_equal(first[x], second[x]) for x in first])


def test_rows_without_keys_are_zeros() -> None:
    arrays = operands((2,), (150, 200, 8, 8), bias=(150, 200))
    arrays["bias"][[3, 120]] = -np.inf
    arrays["bias"][:, 150:] = -np.inf
    found = results(arrays, False)
    assert not found["y"][:, [3, 120]].any()
    for x, y in zip(found.values(), expected(arrays, False), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_not_finite(number: float) -> None:
    """What is not finite makes the rows NaN that it makes NaN in NumPy."""
    arrays = operands((2,), (150, 200, 8, 8))
    arrays["q"][0, 7, 2] = number
    found, reference = results(arrays, False), expected(arrays, False)
    for x, y in zip(
        (found["y"], found["dq"], found["dk"]), (reference[0], *reference[3:5]), strict=True
    ):
        assert np.array_equal(np.isnan(x), np.isnan(y))


def test_empty_operands_have_no_nest() -> None:
    arrays = operands((2,), (5, 0, 3, 4))
    made = {"y": np.empty((2, 5, 4)), "tops": np.empty((2, 5, 1)), "totals": np.empty((2, 5, 1))}
    assert plan("attend", arrays | made, False) is None


def test_blocks_are_even() -> None:
    assert [even(n, 96, 4) for n in (1, 96, 97, 1000)] == [4, 96, 52, 92]


def step(tensors: list[rl.Tensor], function: Any) -> list[np.ndarray]:
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = function(*leaves)
    y.square().sum().backward()
    return [y.detach().numpy(), *[t.grad.numpy() for t in leaves]]


PROGRAMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "dropout": {"dropout_p": 0.3},
    "boolean mask": {"attn_mask": True},
}


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("case", PROGRAMS)
def test_programs(case: str, groups: int) -> None:
    """Compiled attention as eager attention, on one thread and on two."""
    draw, options = np.random.default_rng(0), dict(PROGRAMS[case])
    if options.get("attn_mask"):
        options["attn_mask"] = rl.from_numpy(draw.random((2, 1, 1, 290)) < 0.7)
    shapes = ((2, 4, 520, 16), (2, groups, 290, 16), (2, groups, 290, 16))
    tensors = [rl.from_numpy(draw.standard_normal(s).astype(np.float32)) for s in shapes]

    def function(q: rl.Tensor, k: rl.Tensor, v: rl.Tensor) -> rl.Tensor:
        return sdpa(q, k, v, enable_gqa=True, **options)

    compiled, found, threads = rl.compile(function), [], rl.get_num_threads()
    for count in (1, 2):
        rl.set_num_threads(count)
        rl.manual_seed(0)
        found.append(step(tensors, compiled))
    rl.set_num_threads(threads)
    rl.manual_seed(0)
    for x, y, z in zip(*found, step(tensors, function), strict=True):
        assert np.array_equal(x, y)
        np.testing.assert_allclose(x, z, rtol=1e-3, atol=1e-4)
    listed = str(compiled.explain(*tensors))
    assert "attend" in listed
    assert case == "dropout" or " 0 library calls" in listed


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16], ids=str)
@pytest.mark.parametrize("length", [20, 800])
def test_half_types_are_computed_in_float32_and_rounded_once(length: int, dtype: rl.dtype) -> None:
    xs = [rl.randn(2, length, 8).to(dtype) for _ in range(3)]

    def step(*operands: rl.Tensor) -> Any:
        leaves = [t.detach().requires_grad_() for t in operands]
        y = sdpa(*leaves, is_causal=True)
        return y.detach(), *rl.autograd.grad(y, leaves, operands[0].flip(0))

    compiled = rl.compile(step, fullgraph=True)
    assert "call" not in {s.kind for s in compiled.explain(*xs).steps}
    eps = rl.finfo(dtype).eps
    exact = step(*[x.double() for x in xs])
    for found, wanted in zip(compiled(*xs), exact, strict=True):
        assert found.dtype == dtype
        a, b = found.double().numpy(), wanted.numpy()
        np.testing.assert_allclose(a, b, rtol=eps, atol=eps * np.abs(b).mean())
