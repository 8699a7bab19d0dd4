"""What a program keeps of captured tensors is right after every way of changing them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.runtime.executable import Binding, Executable


def network() -> nn.Sequential:
    """A network in which a norm is folded, weights are packed, and a shift is a step of its own."""
    rl.manual_seed(0)
    net = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 24, 1), nn.BatchNorm2d(24), nn.Flatten(), nn.Linear(24 * 64, 10)),
    )
    with rl.no_grad():
        for norm in (net[1], net[4]):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2.0)
            norm.weight.normal_()
            norm.bias.normal_()
    return net.eval()


class Pair:
    """A network and its compiled twin, which must agree."""

    def __init__(self) -> None:
        self.net = network()
        self.compiled = rl.compile(self.net, fullgraph=True)
        self.x = rl.randn(40, 3, 8, 8)
        self.agrees()
        assert self.agrees(), "nothing is kept"

    def agrees(self) -> bool:
        """Whether the call, whose result is checked, found all that it keeps to be right."""
        with rl.no_grad():
            rl.testing.assert_close(self.compiled(self.x), self.net(self.x), rtol=1e-4, atol=1e-4)
        return bool(self.binding.skipped)

    @property
    def binding(self) -> Binding:
        return self.program.idle[-1]

    @property
    def program(self) -> Executable:
        known = self.compiled.__dict__["_compiled"].known.values()
        return next(made.forward for several in known for made in several if not made.joint)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def in_place(net: Any) -> None:
    with rl.no_grad():
        net[0].weight.mul_(2)


def through_a_view(net: Any) -> None:
    with rl.no_grad():
        net[3].weight[0].fill_(3)


def by_data(net: Any) -> None:
    net[0].weight.data.mul_(2)


def by_an_entry_of_data(net: Any) -> None:
    net[6].weight.data[3, 5] = 7.0


def other_data(net: Any) -> None:
    net[0].weight.data = rl.randn(16, 3, 3, 3)


def by_detach(net: Any) -> None:
    net[0].weight.detach().add_(1)


def set_to(net: Any) -> None:
    net[1].running_mean.set_(rl.randn(16))


def a_state(net: Any) -> None:
    net.load_state_dict({k: v * 2 if v.is_floating_point() else v for k, v in network_state(net)})


def network_state(net: Any) -> list[tuple[str, Any]]:
    return [(k, v.clone()) for k, v in net.state_dict().items()]


def an_assigned_state(net: Any) -> None:
    net.load_state_dict({k: v + 1 for k, v in network_state(net)}, assign=True)


def statistics(net: Any) -> None:
    net[1].running_var.fill_(3.0)


def counted_statistics(net: Any) -> None:
    net.train()
    net(rl.randn(4, 3, 8, 8))
    net.eval()


def an_optimizer(net: Any) -> None:
    optimizer = rl.optim.SGD(net.parameters(), 0.1)
    net(rl.randn(4, 3, 8, 8)).square().mean().backward()
    optimizer.step()


def a_compiled_step(net: Any) -> None:
    optimizer = rl.optim.SGD(net.parameters(), 0.1)

    @rl.compile(fullgraph=True)
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step(rl.randn(4, 3, 8, 8))


def an_initialiser(net: Any) -> None:
    nn.init.kaiming_normal_(net[0].weight)


def a_vector(net: Any) -> None:
    vector = nn.utils.parameters_to_vector(net.parameters())
    nn.utils.vector_to_parameters(vector.detach() * 0.5, net.parameters())


def a_shallow_copy(net: Any) -> None:
    with rl.no_grad():
        copy.copy(net[0].weight).zero_()


def another_type(net: Any) -> None:
    net.double()
    net.float()
    by_data(net)


def another_order(net: Any) -> None:
    net.to(memory_format=rl.channels_last)


CHANGES = (
    *(in_place, through_a_view, by_data, by_an_entry_of_data, other_data, by_detach, set_to),
    *(a_state, an_assigned_state, statistics, counted_statistics, an_optimizer, a_compiled_step),
    *(an_initialiser, a_vector, a_shallow_copy, another_type, another_order),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changes_are_seen(pair: Pair, change: Callable[[Any], None]) -> None:
    change(pair.net)
    pair.agrees()
    assert pair.agrees(), "what was made again is not kept"


def test_a_tensor_over_the_same_memory_may_write_later(pair: Pair) -> None:
    weight = pair.net[0].weight
    seen, part = weight.data, weight.data[0]
    pair.agrees()
    seen.zero_()
    assert not pair.agrees()
    del seen
    part.fill_(2.0)
    assert not pair.agrees()
    assert pair.agrees()


def test_memory_of_another_tensor_is_watched(pair: Pair) -> None:
    other = rl.randn(16, 3, 3, 3)
    pair.net[0].weight.data = other
    pair.agrees()
    assert pair.agrees()
    other.mul_(3)
    assert not pair.agrees()


@pytest.mark.parametrize("way", ["numpy", "asarray", "from_numpy", "dlpack", "storage"])
def test_memory_that_others_know_is_not_trusted(pair: Pair, way: str) -> None:
    weight = pair.net[0].weight
    if way == "from_numpy":
        array = np.ones(weight.shape, np.float32)
        weight.data = rl.from_numpy(array)
    elif way == "storage":
        array = weight.detach().untyped_storage()
    else:
        plain = weight.detach()
        look = {"numpy": rl.Tensor.numpy, "asarray": np.asarray, "dlpack": np.from_dlpack}[way]
        array = look(plain)
    pair.agrees()
    if way == "dlpack":
        weight.data.mul_(2)
    else:
        array[:4] = 0
    pair.agrees()
    assert not pair.agrees()


def test_shared_memory_is_not_trusted(pair: Pair) -> None:
    pair.net[0].weight.share_memory_()
    pair.agrees()
    assert not pair.agrees()


def test_weights_in_another_order_are_kept(pair: Pair) -> None:
    pair.net.to(memory_format=rl.channels_last)
    assert not pair.net[0].weight.is_contiguous()
    pair.agrees()
    assert pair.agrees()
    in_place(pair.net)
    assert not pair.agrees()


def test_training_is_another_program(pair: Pair) -> None:
    pair.net.train()
    before = pair.net[1].running_mean.clone()
    pair.compiled(pair.x).sum().backward()
    assert not rl.equal(before, pair.net[1].running_mean)
    pair.net.eval()
    pair.agrees()
    assert pair.agrees()


def test_gradients_are_those_of_the_weights(pair: Pair) -> None:
    """With gradients nothing is folded, so that weight and scale have theirs."""
    pair.compiled(pair.x).square().mean().backward()
    found = [p.grad.clone() for p in pair.net.parameters()]
    pair.net.zero_grad()
    pair.net(pair.x).square().mean().backward()
    for g, p in zip(found, pair.net.parameters(), strict=True):
        rl.testing.assert_close(g, p.grad, rtol=1e-3, atol=1e-4)


def test_a_weight_that_two_layers_share_is_packed_once() -> None:
    rl.manual_seed(0)
    layer = nn.Linear(128, 128)
    compiled = rl.compile(lambda x: layer(layer(x).relu()), fullgraph=True)
    x = rl.randn(64, 128)
    with rl.no_grad():
        rl.testing.assert_close(compiled(x), layer(layer(x).relu()))
        ((made,),) = compiled.known.values()
        assert made.forward.program.kept == 128 * 128 * 4
        layer.weight.mul_(2)
        rl.testing.assert_close(compiled(x), layer(layer(x).relu()))


def test_few_bytes_are_not_worth_looking_at() -> None:
    layer = nn.Linear(16, 16)
    compiled = rl.compile(layer, fullgraph=True)
    with rl.no_grad():
        compiled(rl.randn(64, 16))
    ((made,),) = compiled.__dict__["_compiled"].known.values()
    assert made.forward.program.early == 0


@pytest.mark.parametrize("limit", [0, 3000])
def test_no_more_is_kept_than_allowed(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl.config, "keep_packed", limit)
    net = network()
    compiled = rl.compile(net, fullgraph=True)
    x = rl.randn(40, 3, 8, 8)
    with rl.no_grad():
        rl.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-4)
    ((made,),) = compiled.__dict__["_compiled"].known.values()
    assert made.forward.program.kept <= limit + 2048  # of what early steps make, and of packing


def test_threads_have_memory_of_their_own(pair: Pair) -> None:
    results: list[Any] = []
    with rl.no_grad():
        expected = pair.compiled(pair.x)

    def call() -> None:
        with rl.no_grad():
            results.extend([pair.compiled(pair.x) for _ in range(20)])

    workers = [threading.Thread(target=call) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 60
    assert all([rl.equal(y, expected) for y in results])


def test_the_same_bits_for_any_number_of_threads(pair: Pair) -> None:
    before, found = rl.get_num_threads(), []
    try:
        for count in (1, 2):
            rl.set_num_threads(count)
            rl.compiler.reset()
            with rl.no_grad():
                found += [pair.compiled(pair.x), pair.compiled(pair.x)]
    finally:
        rl.set_num_threads(before)
    assert all([rl.equal(y, found[0]) for y in found])


def test_an_error_leaves_nothing_that_is_taken_for_right() -> None:
    table, places = rl.randn(10, 4), rl.tensor([1, 2, 3])
    compiled = rl.compile(lambda x: x + (table[places] * 2).sum(0), fullgraph=True)
    x = rl.ones(4)
    first = compiled(x)
    places.fill_(100)
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(x)
    places.copy_(rl.tensor([1, 2, 3]))
    assert rl.equal(compiled(x), first)


def test_what_runs_once_counts_in_no_sum(pair: Pair) -> None:
    with rl.no_grad():
        report = pair.compiled.explain(pair.x)
    early = [step for step in report.steps if step.early]
    assert len(early) == pair.program.program.early
    assert all([step.what.startswith("once: ") and step.share == 0 for step in early])
    assert report.totals.kept == pair.program.program.kept
    assert "between calls" in str(report)
    late = [step.measured for step in report.steps if not step.early]
    assert report.totals.measured == pytest.approx(sum(late))


def test_weights_in_another_order_are_not_copied_in_vain(pair: Pair) -> None:
    pair.net.to(memory_format=rl.channels_last)
    pair.agrees()
    pair.agrees()
    weight = pair.net[0].weight._array
    arrays = [array for array in pair.binding.ready if isinstance(array, np.ndarray)]
    places = [i for i, array in enumerate(arrays) if np.shares_memory(array, weight)]
    assert places, "a copy was made that nobody reads"


@pytest.mark.parametrize("prepare", [rl.linalg.inv, lambda w: w.sort(1)[0]], ids=["inv", "sort"])
def test_library_calls_read_what_is_kept(prepare):
    rl.manual_seed(0)
    w = rl.randn(300, 300) + 20 * rl.eye(300)
    compiled = rl.compile(lambda x: x @ prepare(w * 2))
    with rl.no_grad():
        for _ in range(3):
            x = rl.randn(2, 300)
            rl.testing.assert_close(compiled(x), x @ prepare(w * 2), rtol=1e-4, atol=1e-4)
