"""Executables: how values of outside are bound, and that nothing of a call stays behind."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np

import rushlight as rl


def test_arguments_of_any_strides_stay_as_they_are() -> None:
    double = rl.compile(lambda x: x * 2)
    for x in (rl.ones(1).expand(4), rl.arange(6.0).reshape(2, 3).T, rl.arange(6.0)[::2]):
        before = x.clone()
        assert double(x).equal(before * 2)
        assert x.equal(before)


def test_a_tensor_with_gaps_is_written_to_where_it_lies() -> None:
    whole = rl.zeros(6)
    part = whole[::2]

    @rl.compile
    def add(x: rl.Tensor) -> None:
        part.add_(x)

    add(rl.ones(3))
    add(rl.ones(3))
    assert whole.tolist() == [2.0, 0.0, 2.0, 0.0, 2.0, 0.0]


def test_views_that_need_copies_are_taken_at_each_call() -> None:
    w = rl.arange(6.0).reshape(2, 3)
    product = rl.compile(lambda x: x @ w.T.reshape(2, 3))
    x = rl.eye(2)
    assert product(x).equal(w.T.reshape(2, 3))
    w.mul_(2)
    assert product(x).equal(w.T.reshape(2, 3))


def test_a_call_keeps_neither_its_inputs_nor_its_results() -> None:
    product = rl.compile(lambda x, y: (x @ y).relu())
    x, y = rl.ones(3, 4), rl.ones(4, 5)
    result = product(x, y)
    gc.collect()  # a trace consists of cycles
    counts = [sys.getrefcount(t._array) for t in (x, y, result)]
    assert counts == [sys.getrefcount(np.ones(1)) + 1] * 3


def test_threads_have_memory_of_their_own() -> None:
    power = rl.compile(lambda x: (x @ x).tanh() @ x)
    inputs = [rl.full((40, 40), 0.01 * i) for i in range(8)]
    wanted = [(x @ x).tanh() @ x for x in inputs]
    found: list[list[bool]] = [[] for _ in inputs]

    def work(i: int) -> None:
        for _ in range(30):
            found[i].append(power(inputs[i]).allclose(wanted[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all([len(each) == 30 and all(each) for each in found])


def test_products_of_every_kind_are_written_where_they_belong() -> None:
    for kind in (rl.float32, rl.float64, rl.int64, rl.bfloat16, rl.complex64):
        a, b = rl.arange(6).reshape(2, 3).to(kind), rl.arange(12).reshape(3, 4).to(kind)
        assert rl.compile(lambda a, b: a.mm(b))(a, b).equal(a.mm(b))
        assert rl.compile(lambda a, b: a.mv(b[:, 0]))(a, b).equal(a.mv(b[:, 0]))
        assert rl.compile(lambda a, b: a[0].dot(b[:, 0]))(a, b).equal(a[0].dot(b[:, 0]))
        batch = b.expand(2, 3, 4)
        assert rl.compile(lambda a, b: a[:, None] @ b)(a, batch).equal(a[:, None] @ batch)


def test_what_is_captured_may_be_another_array_at_each_call() -> None:
    w = rl.ones(3)
    scaled = rl.compile(lambda x: (x * w, x @ w))
    for array in (np.arange(3, dtype=np.float32), np.arange(6, dtype=np.float32)[::2]):
        w.data = rl.from_numpy(array)
        for _ in range(2):
            array += 1
            product, dot = scaled(rl.ones(3))
            assert product.tolist() == array.tolist()
            assert dot.item() == array.sum()
