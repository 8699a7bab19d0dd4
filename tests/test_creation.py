"""Making, filling and converting tensors; PyTorch's own answers are compared in tests/peers."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest

import rushlight as rl
from rushlight.generator import Twister

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, rl.int64),
        (1.0, rl.float32),
        (True, rl.bool),
        (1j, rl.complex64),
        ([1, 2.0], rl.float32),
        ([True, 2], rl.int64),
        ([], rl.float32),
        ([[], []], rl.float32),
        (np.float64(1), rl.float64),
        ([np.int8(1), np.int8(2)], rl.int8),
        ([np.float32(1), 2.0], rl.float32),
        (np.ones(2, np.uint16), rl.uint16),
        ([np.ones(2), np.ones(2)], rl.float64),
        ([rl.tensor(1.0, dtype=rl.float64), 2], rl.float64),
        (range(3), rl.int64),
        ((1, 2), rl.int64),
    ],
)
def test_tensor_infers_its_dtype(data, dtype) -> None:
    t = rl.tensor(data)
    assert t.dtype is dtype
    assert t.tolist() == np.array(data).tolist()


def test_tensor_infers_the_default_dtype() -> None:
    rl.set_default_dtype(rl.float64)
    try:
        assert rl.tensor(1.0).dtype is rl.float64
        assert rl.tensor([1j]).dtype is rl.complex128
        assert rl.zeros(2).dtype is rl.float64
        assert rl.arange(0.0, 2.0).dtype is rl.float64
    finally:
        rl.set_default_dtype(rl.float32)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([[1, 2], [3, 4, 5]], ValueError, r"length 2 at dim 1 \(got 3\)"),
        ([[[1], [2]], [[1], [2, 3]]], ValueError, r"length 1 at dim 2 \(got 2\)"),
        ([[1], 2], TypeError, "sequence of length 1, got a number"),
        ([1, [2]], TypeError, "expected a number, got a sequence"),
        ("abc", TypeError, "invalid data type 'str'"),
        (["abc"], ValueError, "too many dimensions 'str'"),
        (None, RuntimeError, "Could not infer dtype of NoneType"),
        ({1, 2}, RuntimeError, "Could not infer dtype of set"),
        (2**70, ValueError, "Overflow"),
        ([rl.ones(2)], ValueError, "only one element tensors"),
        (np.array(["a"]), TypeError, "can't convert np.ndarray"),
        (np.ones(2, ">f4"), ValueError, "byte order"),
    ],
)
def test_tensor_refuses(data, error, message: str) -> None:
    with pytest.raises(error, match=message):
        rl.tensor(data)


def test_a_list_that_holds_itself_is_refused() -> None:
    data: list = [1]
    data.append(data)
    with pytest.raises(TypeError, match="self-referential"):
        rl.tensor(data)


def test_tensor_of_a_tensor_warns_and_copies() -> None:
    source = rl.ones(2)
    with pytest.warns(UserWarning, match="detach"):
        t = rl.tensor(source)
    t.zero_()
    assert source.tolist() == [1, 1]
    with pytest.warns(UserWarning, match="detach") as caught:
        copy, other = rl.compile(
            lambda x: (rl.tensor(x, dtype=rl.float64), x.new_tensor(x.sum())), fullgraph=True
        )(source)
    assert copy.dtype is rl.float64
    assert copy.tolist() == [1, 1]
    assert other.item() == 2
    assert {w.filename for w in caught if "detach" in str(w.message)} == {__file__}


@pytest.mark.parametrize("make", [rl.zeros, rl.ones, rl.empty, rl.rand, rl.randn])
def test_sizes_in_all_forms(make) -> None:
    assert make(2, 3).shape == make((2, 3)).shape == make([2, 3]).shape == make(size=(2, 3)).shape
    assert make(rl.Size([2])).shape == make(rl.tensor(2)).shape == make(np.int64(2)).shape == (2,)
    assert make(()).shape == ()
    with pytest.raises(TypeError, match="missing"):
        make()
    with pytest.raises(TypeError, match="unexpected keyword argument 'shape'"):
        make(2, shape=3)


def test_more_memory_than_there_is() -> None:
    for call in (lambda n: rl.ones(n), lambda n: rl.arange(n), lambda n: rl.linspace(0, 1, n)):
        with pytest.raises(rl.OutOfMemoryError, match="Unable to allocate"):
            call(2**45)


def test_likes_keep_the_order_in_memory() -> None:
    x = rl.zeros(2, 3, 4).permute(2, 0, 1)
    for make in (rl.zeros_like, rl.ones_like, rl.empty_like, rl.rand_like, rl.randn_like):
        assert make(x).stride() == x.stride()
        assert make(x, memory_format=rl.contiguous_format).stride() == (6, 3, 1)
    assert rl.full_like(x, 1).stride() == x.clone().stride() == x.stride()
    assert x.to(rl.float64).stride() == x.stride()
    assert not rl.zeros_like(x)._is_view()


def test_channels_last() -> None:
    x = rl.rand(2, 3, 4, 5)
    y = x.to(memory_format=rl.channels_last)
    assert y.stride() == (60, 1, 15, 3)
    assert y.tolist() == x.tolist()
    assert y.to(memory_format=rl.channels_last) is y
    assert rl.empty(2, 3, 4, 5, memory_format=rl.channels_last).stride() == (60, 1, 15, 3)


def test_arange_of_large_integers_is_exact() -> None:
    start = 2**62
    assert rl.arange(start, start + 3).tolist() == [start, start + 1, start + 2]
    assert rl.arange(-(2**63), -(2**63) + 2).tolist() == [-(2**63), -(2**63) + 1]


def test_old_constructors() -> None:
    assert rl.Tensor(2, 3).shape == (2, 3)
    assert rl.Tensor([2, 3]).tolist() == [2.0, 3.0]
    assert rl.LongTensor([1.7]).tolist() == [1]
    assert rl.BoolTensor([0, 2]).tolist() == [False, True]
    assert rl.HalfTensor(3).dtype is rl.float16
    assert isinstance(rl.ones(2), rl.FloatTensor)
    assert not isinstance(rl.ones(2), rl.DoubleTensor)
    assert not issubclass(rl.Tensor, rl.FloatTensor)
    assert repr(rl.FloatTensor) == "<class 'rushlight.FloatTensor'>"
    with pytest.raises(RuntimeError, match="'cuda' is not available"):
        rl.cuda.FloatTensor(2)


class TestConversion:
    def test_nothing_to_do_returns_the_tensor_itself(self) -> None:
        x = rl.ones(2)
        assert (
            x.to("cpu") is x.to(rl.float32) is x.float() is x.cpu() is x.to(x) is x.type_as(x) is x
        )
        assert x.to(rl.float32, copy=True) is not x
        assert x.to("cpu", rl.float32, False, True) is not x

    def test_floats_to_integers(self) -> None:
        x = rl.tensor([1.9, -1.9, 300.5, -1.0])
        assert x.to(rl.int64).tolist() == [1, -1, 300, -1]
        assert x.to(rl.uint8).tolist() == [1, 255, 44, 255]

    @pytest.mark.parametrize("dtype", [rl.int8, rl.uint8, rl.int16, rl.int32, rl.int64])
    def test_nan_and_infinities_to_integers_are_the_same_at_any_place(self, dtype) -> None:
        x = rl.tensor([NAN, INF, -INF] * 20)
        once = x.to(dtype).tolist()
        assert once == once[:3] * 20
        assert [t.to(dtype).item() for t in x[:3]] == once[:3]

    def test_16_bit_floats_are_reached_through_float32(self) -> None:
        between = 1 + 2**-11 + 2**-30  # rounds up in float64, to even in float32
        assert rl.tensor(between, dtype=rl.float64).half().item() == 1.0
        assert rl.tensor(between, dtype=rl.float16).item() == 1.0

    def test_complex_to_real_warns(self) -> None:
        with pytest.warns(UserWarning, match="discards the imaginary part"):
            assert rl.tensor([1 + 2j]).float().tolist() == [1.0]

    def test_the_gradient_comes_back_in_the_source_dtype(self) -> None:
        for dtype in (rl.float16, rl.bfloat16, rl.float64, rl.complex64):
            x = rl.ones(2, requires_grad=True)
            (x.to(dtype) * 3).real.float().sum().backward()
            assert x.grad.dtype is rl.float32
            assert x.grad.tolist() == [3, 3]

    def test_integers_have_no_gradient(self) -> None:
        x = rl.ones(2, requires_grad=True)
        assert not x.long().requires_grad
        assert not x.bool().requires_grad
        assert x.double().grad_fn.name() == "ToCopyBackward0"

    def test_bad_targets(self) -> None:
        with pytest.raises(TypeError, match=r"got \(dtype, dtype\)"):
            rl.ones(2).to(rl.int64, rl.int32)
        with pytest.raises(RuntimeError, match="device type"):
            rl.ones(2).to("nowhere")


class TestWriting:
    def test_copy_differentiates(self) -> None:
        source = rl.ones(3, requires_grad=True)
        target = rl.zeros(2, 3)
        target[0].copy_(source * 2)
        (target * rl.arange(6.0).reshape(2, 3)).sum().backward()
        assert source.grad.tolist() == [0, 2, 4]

    def test_fill_differentiates(self) -> None:
        value = rl.tensor(2.0, requires_grad=True)
        x = rl.ones(2, 3, requires_grad=True)
        y = x * 1
        y[:, 0].fill_(value)
        y.sum().backward()
        assert value.grad.item() == 2
        assert x.grad.tolist() == [[0, 1, 1], [0, 1, 1]]

    @pytest.mark.parametrize(
        "write",
        [
            lambda t: t.zero_(),
            lambda t: t.uniform_(),
            lambda t: t.normal_(),
            lambda t: t.exponential_(),
            lambda t: t.bernoulli_(0.5),
            lambda t: t.random_(3),
        ],
    )
    def test_what_was_overwritten_has_no_gradient(self, write) -> None:
        x = rl.ones(3, requires_grad=True)
        y = write(x * 2)
        assert y.grad_fn is not None
        y.sum().backward()
        assert x.grad.tolist() == [0, 0, 0]
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            write(x)
        with rl.no_grad():
            assert write(x) is x

    def test_a_write_counts_as_a_new_version(self) -> None:
        x = rl.ones(2, requires_grad=True)
        y = x * 1
        z = (y * y).sum()
        with rl.no_grad():
            y.normal_()
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            z.backward()

    def test_set_takes_the_memory_of_another(self) -> None:
        x, y = rl.zeros(2), rl.ones(3)
        assert x.set_(y).tolist() == [1, 1, 1]
        assert x.is_set_to(y)
        with pytest.raises(RuntimeError, match="dtype"):
            x.set_(rl.arange(3))


class TestRandom:
    def test_one_seed_one_stream(self) -> None:
        first = [rl.manual_seed(5) and rl.randn(20).tolist() for _ in range(2)]
        assert first[0] == first[1]
        assert rl.initial_seed() == 5
        assert rl.seed() == rl.initial_seed()

    def test_a_generator_has_a_stream_of_its_own(self) -> None:
        rl.manual_seed(1)
        expected = rl.rand(3).tolist()
        rl.manual_seed(1)
        rl.rand(100, generator=rl.Generator().manual_seed(7))
        assert rl.rand(3).tolist() == expected

    @pytest.mark.parametrize("found", [True, False])
    @pytest.mark.parametrize("count", [0, 1, 623, 624, 700])
    def test_a_state_goes_on_where_it_was_taken(
        self, found: bool, count: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not found:  # NumPy may keep its words elsewhere one day
            monkeypatch.setattr(Twister, "memory", None)
        generator = rl.Generator().manual_seed(3)
        rl.rand(count, generator=generator)
        rl.randn(1, generator=generator)
        other = rl.Generator().set_state(generator.get_state())
        assert rl.equal(rl.randn(700, generator=other), rl.randn(700, generator=generator))
        assert rl.equal(rl.randn(3, generator=other), rl.randn(3, generator=generator))

    def test_bad_generators(self) -> None:
        with pytest.raises(TypeError, match=r"must be rushlight\.Generator, not int"):
            rl.rand(2, generator=3)
        with pytest.raises(RuntimeError, match="'cuda' is not available"):
            rl.Generator("cuda")
        with pytest.raises(TypeError, match="ByteTensor"):
            rl.Generator().set_state([1])


class TestNames:
    def test_namespaces_are_modules(self) -> None:
        for name in ("linalg", "special", "signal.windows", "autograd", "random", "cuda.amp"):
            assert importlib.import_module(f"rushlight.{name}")
        assert importlib.import_module("rushlight.backends.cudnn").is_available() is False

    def test_there_is_no_accelerator(self) -> None:
        assert not rl.cuda.is_available()
        assert rl.cuda.device_count() == 0
        assert rl.cuda.manual_seed_all(3) is None
        assert not rl.backends.mps.is_available()
        assert rl.accelerator.current_accelerator() is None
        assert not rl.xpu.is_available()
        assert rl.xpu.device_count() == 0
        for missing in (rl.cuda.current_device, rl.xpu.synchronize):
            with pytest.raises(RuntimeError, match="'cpu'"):
                missing()

    def test_switches_of_attention_are_set_back(self) -> None:
        with rl.backends.cuda.sdp_kernel(True, False, enable_mem_efficient=False):
            assert rl.backends.cuda.flash_sdp_enabled()
            assert not rl.backends.cuda.math_sdp_enabled()
            assert not rl.backends.cuda.mem_efficient_sdp_enabled()
        assert rl.backends.cuda.math_sdp_enabled()
        rl.backends.cuda.enable_cudnn_sdp(False)
        assert not rl.backends.cuda.cudnn_sdp_enabled()
        rl.backends.cuda.enable_cudnn_sdp(True)

    def test_threads(self) -> None:
        before = rl.get_num_threads()
        rl.set_num_threads(1)
        assert rl.get_num_threads() == 1
        rl.set_num_threads(before)
        with pytest.raises(RuntimeError, match="positive"):
            rl.set_num_threads(0)

    def test_settings(self) -> None:
        rl.set_float32_matmul_precision("high")
        assert rl.get_float32_matmul_precision() == "high"
        rl.set_float32_matmul_precision("highest")
        with pytest.warns(UserWarning, match="not one of"):
            rl.set_float32_matmul_precision("low")
        rl.use_deterministic_algorithms(True)
        assert rl.are_deterministic_algorithms_enabled()
        rl.use_deterministic_algorithms(False)
        assert rl.set_flush_denormal(True) is False
        assert rl.get_default_device() == rl.device("cpu")
        with pytest.raises(RuntimeError, match="'cpu'"):
            rl.set_default_device("cuda")


def test_grad_scaler_leaves_out_a_step_that_is_not_finite() -> None:
    class Descent:
        def __init__(self, parameter: rl.Tensor) -> None:
            self.param_groups = [{"params": [parameter]}]

        def step(self) -> None:
            with rl.no_grad():
                for p in self.param_groups[0]["params"]:
                    p.sub_(p.grad)

    x = rl.ones(2, requires_grad=True)
    optimizer, scaler = Descent(x), rl.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    scaler.scale((x * 0.5).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [0.5, 0.5]
    assert scaler.get_scale() == 16.0
    x.grad.fill_(INF)
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [0.5, 0.5]
    assert scaler.get_scale() == 8.0
