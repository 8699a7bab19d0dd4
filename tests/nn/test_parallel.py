"""DataParallel with one device, and batches in parts."""

from __future__ import annotations

import rushlight as rl
from rushlight import nn
from rushlight.nn import parallel


def test_data_parallel_calls_its_module() -> None:
    layer = nn.Linear(2, 3)
    net = nn.DataParallel(layer, device_ids=[0])
    x = rl.ones(4, 2)
    assert rl.equal(net(x), layer(x))
    assert net.module is layer
    assert list(net.state_dict()) == ["module.weight", "module.bias"]
    assert rl.equal(parallel.data_parallel(layer, x), layer(x))


def test_a_state_loses_its_prefix() -> None:
    state = nn.DataParallel(nn.Linear(2, 3)).state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    nn.Linear(2, 3).load_state_dict(state)


def test_scatter_and_gather_are_inverse() -> None:
    batch = {"x": rl.arange(6.0).reshape(3, 2), "name": "text", "pair": (rl.arange(3), 1)}
    parts = parallel.scatter(batch, ["cpu"] * 3)
    assert [p["x"].tolist() for p in parts] == [[[0, 1]], [[2, 3]], [[4, 5]]]
    assert parts[1]["name"] == "text"
    assert parts[2]["pair"][1] == 1
    together = parallel.gather([(p["x"], p["pair"][0]) for p in parts])
    assert rl.equal(together[0], batch["x"])
    assert rl.equal(together[1], batch["pair"][0])


def test_each_module_gets_its_own_input() -> None:
    modules = [nn.Identity(), nn.Flatten(0)]
    first, second = parallel.parallel_apply(modules, [rl.ones(2, 2), (rl.ones(2, 2),)])
    assert first.shape == (2, 2)
    assert second.shape == (4,)
