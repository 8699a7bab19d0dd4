"""Tensors to and from arrays, buffers, pickles, Python numbers, and the memory under them."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

import rushlight as rl

EVERY_DTYPE = [
    *(rl.bool, rl.uint8, rl.int8, rl.int16, rl.int32, rl.int64, rl.uint16, rl.uint32, rl.uint64),
    *(rl.float16, rl.bfloat16, rl.float32, rl.float64, rl.complex64, rl.complex128),
]


def test_from_numpy_shares_memory_both_ways() -> None:
    array = np.zeros(3, np.float32)
    t = rl.from_numpy(array)
    array[0] = 1
    t[1] = 2
    assert t.tolist() == array.tolist() == [1, 2, 0]
    assert np.shares_memory(t.numpy(), array)


def test_a_tensor_over_a_read_only_array_refuses_to_be_written() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    t = rl.from_numpy(array)
    assert (t + 1).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="read-only"):
        t.add_(1)


def test_the_dtypes_that_numpy_has_twice_are_one() -> None:
    for array in (np.ones(2, np.longlong), pickle.loads(pickle.dumps(np.ones(2, np.int64)))):
        for t in (rl.from_numpy(array), rl.as_tensor(array), rl.tensor(array), rl.asarray(array)):
            assert t.to(rl.int64) is t
    t = pickle.loads(pickle.dumps(rl.ones(2)))
    assert t.float() is t


def test_array_protocol() -> None:
    t = rl.tensor([1.5, 2.5])
    assert np.shares_memory(np.asarray(t), t.numpy())
    assert not np.shares_memory(np.array(t), t.numpy())
    assert np.asarray(t, dtype=np.int64).tolist() == [1, 2]
    assert isinstance(np.sin(t), rl.Tensor)
    with pytest.raises(ValueError, match="copy"):
        np.array(t, dtype=np.int64, copy=False)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(rl.ones(2, requires_grad=True))


def test_as_tensor_copies_only_where_it_must() -> None:
    array = np.arange(3.0)
    t = rl.ones(2)
    assert rl.as_tensor(t) is t
    assert np.shares_memory(rl.as_tensor(array).numpy(), array)
    assert not np.shares_memory(rl.as_tensor(array, dtype=rl.float32).numpy(), array)
    assert rl.as_tensor(array[::-1]).tolist() == [2, 1, 0]
    assert not np.shares_memory(rl.tensor(array).numpy(), array)
    assert np.shares_memory(rl.asarray(array).numpy(), array)
    assert not np.shares_memory(rl.asarray(array, copy=True).numpy(), array)


def test_dlpack_both_ways() -> None:
    array = np.arange(4.0).reshape(2, 2)
    t = rl.from_dlpack(array)
    assert np.shares_memory(t.numpy(), array)
    assert np.shares_memory(np.from_dlpack(t), array)
    assert t.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(rl.ones(2, requires_grad=True))


def test_frombuffer_shares_memory() -> None:
    data = bytearray(8)
    t = rl.frombuffer(data, dtype=rl.int32)
    t[1] = 258
    assert bytes(data) == b"\0\0\0\0\2\1\0\0"


@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=str)
def test_every_dtype_goes_to_python_and_back(dtype) -> None:
    t = rl.tensor([[0, 1], [1, 1]]).to(dtype)
    number = t[0, 1].item()
    assert type(number) in (bool, int, float, complex)
    assert number == 1
    assert t.tolist() == [[0, 1], [1, 1]]
    assert type(t.tolist()[0][0]) is type(number)
    assert rl.tensor(t.tolist(), dtype=dtype).tolist() == t.tolist()
    for twin in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
        assert twin.dtype is dtype
        assert twin.tolist() == t.tolist()


def test_a_pickle_keeps_what_a_user_put_on_a_tensor() -> None:
    t = rl.ones(2, requires_grad=True)
    t.grad = rl.ones(2)
    t.note = "mine"
    twin = pickle.loads(pickle.dumps(t))
    assert twin.requires_grad
    assert twin.is_leaf
    assert twin.grad is None
    assert twin.note == "mine"


def test_deepcopy_copies_the_gradient_and_keeps_identity() -> None:
    t = rl.ones(2, requires_grad=True)
    t.grad = rl.full((2,), 3.0)
    first, second = copy.deepcopy([t, t])
    assert first is second
    assert first.requires_grad
    assert first.grad.tolist() == [3, 3]
    assert first.grad is not t.grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(t * 2)


def test_a_subclass_is_pickled_as_itself() -> None:
    t = Labelled([1.0, 2.0])
    t.label = "x"
    for twin in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert type(twin) is Labelled
        assert twin.label == "x"


class Labelled(rl.Tensor):
    """A user's own tensor class."""


def test_python_numbers() -> None:
    assert int(rl.tensor(2.7)) == 2
    assert float(rl.tensor([[3]])) == 3.0
    assert complex(rl.tensor(1j)) == 1j
    assert [10, 20, 30][rl.tensor(1)] == 20
    assert 2 in rl.tensor([1, 2])
    assert 5 not in rl.tensor([1, 2])
    assert bool(rl.tensor([[0.5]]))
    for call, error in (
        (lambda: bool(rl.ones(2)), RuntimeError),
        (lambda: bool(rl.ones(0)), RuntimeError),
        (lambda: float(rl.ones(2)), ValueError),
        (lambda: float(rl.tensor(1j)), RuntimeError),
        (lambda: int(rl.tensor(float("nan"))), ValueError),
        (lambda: [1][rl.tensor(0.0)], TypeError),
        (lambda: "a" in rl.ones(2), RuntimeError),
        (lambda: rl.ones(2).item(), RuntimeError),
    ):
        with pytest.raises(error):
            call()


def test_storages() -> None:
    t = rl.arange(6).reshape(2, 3)
    row = t[1]
    assert row.storage_offset() == 3
    assert row.storage().tolist() == [0, 1, 2, 3, 4, 5]
    assert row.untyped_storage().nbytes() == 48
    assert row.untyped_storage().data_ptr() == t.data_ptr()
    assert row.data_ptr() == t.data_ptr() + 24
    assert rl.zeros(0).data_ptr() == 0
    row.storage()[0] = 9
    assert t[0, 0] == 9
    assert rl.is_storage(t.storage())
    assert not rl.is_storage(t)


def test_resize_uses_the_memory_there_is() -> None:
    t = rl.arange(6)
    address = t.data_ptr()
    assert t.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert t.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert t.data_ptr() == address
    assert t.resize_(8)[:6].tolist() == [0, 1, 2, 3, 4, 5]
    image = rl.zeros(1, 1, 1, 1).resize_(1, 2, 3, 4, memory_format=rl.channels_last)
    assert image.stride() == (24, 1, 8, 2)
    with pytest.raises(RuntimeError, match="negative dimension"):
        t.resize_(-1)
    with pytest.raises(RuntimeError, match="require grad"):
        rl.ones(2, requires_grad=True).resize_(3)


def write_seven(t: rl.Tensor) -> None:
    t.fill_(7)


def test_shared_memory_is_seen_by_a_forked_process() -> None:
    shared, alone = rl.zeros(3).share_memory_(), rl.zeros(3)
    assert shared.is_shared()
    assert shared[1:].is_shared()
    assert not alone.is_shared()
    fork = multiprocessing.get_context("fork")
    for t in (shared, alone):
        process = fork.Process(target=write_seven, args=(t,))
        process.start()
        process.join(30)
        assert process.exitcode == 0
    assert shared.tolist() == [7, 7, 7]
    assert alone.tolist() == [0, 0, 0]


def test_what_a_cpu_tensor_says_of_itself() -> None:
    t = rl.ones(2, 3)
    assert t.is_cpu
    assert not any((t.is_cuda, t.is_mps, t.is_sparse, t.is_quantized, t.is_meta, t.is_pinned()))
    assert t.layout is rl.strided
    assert t.get_device() == -1
    assert t.names == (None, None)
    for call in (t.cuda, t.pin_memory, lambda: t.to("cuda:0"), lambda: rl.ones(2, device="mps")):
        with pytest.raises(RuntimeError, match="'cpu'"):
            call()
