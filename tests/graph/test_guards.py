"""Guards see what a function depends on, and nothing else."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import time
import types
from collections import OrderedDict, deque

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.graph.epoch import Entries, epoch
from rushlight.graph.guards import LEAVES, Guards
from rushlight.graph.watches import MISSING, same
from rushlight.nn import hooks
from rushlight.symbol import TraceError

SCALE = 2
LIMITS = {"low": [0, 1], "high": (2, 3)}
WEIGHT = rl.ones(3)
NOISE = 0


def twice(x):
    return x * 2


def through_globals(x):
    return twice(x) * SCALE + WEIGHT + len(LIMITS["low"])


class Flag(enum.Enum):
    A = 1
    B = 2


@dataclasses.dataclass
class Settings:
    width: int = 3
    sizes: list = dataclasses.field(default_factory=list)
    inner: Settings | None = None


class Net(nn.Module):
    factor = 2

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.body = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout())
        self.steps = 4
        self.sizes = [1, 2]
        self.settings = Settings()
        self.seen = 0  # no code that forward reaches reads it
        self.losses = []

    def forward(self, x):
        for _ in range(self.steps):
            x = self.helper(x) * self.factor * self.settings.width
        return self.body(self.fc(x)) + len(self.sizes)

    def helper(self, x):
        return x + SCALE

    def report(self):
        return self.losses, self.seen


def broken(guards: Guards, message: str) -> None:
    """Guards that do not hold, say why, and go on saying so."""
    assert not guards.hold()
    assert guards.explain() == message
    assert not guards.hold()


def unmoved(guards: Guards) -> None:
    """Guards that hold, though something else may have changed."""
    assert guards.hold()
    assert guards.explain() is None


def intact(guards: Guards) -> None:
    unmoved(guards)
    assert guards.changes() == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SCALE", 3, "global 'SCALE' was 2, is 3"),
        ("SCALE", 2.0, "global 'SCALE' was 2, is 2.0"),
        ("SCALE", True, "global 'SCALE' was 2, is True"),
        ("WEIGHT", rl.ones(3), "global 'WEIGHT' was a Tensor, is another Tensor"),
        ("twice", lambda x: x, "global 'twice' was twice, is <lambda>"),
        ("len", lambda x: 7, "global 'len' was missing, is <lambda>"),
    ],
)
def test_globals(monkeypatch, name, value, message):
    guards = Guards(through_globals)
    intact(guards)
    monkeypatch.setitem(globals(), name, value)
    broken(guards, message)


def test_an_equal_value_is_as_good(monkeypatch):
    large = int("1000")
    monkeypatch.setitem(globals(), "SCALE", large)
    guards = Guards(through_globals)
    monkeypatch.setitem(globals(), "SCALE", int("1000"))
    intact(guards)


def test_globals_that_are_not_named_do_not_matter(monkeypatch):
    guards = Guards(lambda x: x.NOISE + SCALE)
    monkeypatch.setitem(globals(), "NOISE", 1)
    monkeypatch.setitem(globals(), "x", 1)
    intact(guards)


def test_a_deleted_global(monkeypatch):
    guards = Guards(through_globals)
    monkeypatch.delitem(globals(), "SCALE")
    broken(guards, "global 'SCALE' was 2, is missing")


def test_edits_deep_in_a_global(monkeypatch):
    guards = Guards(through_globals)
    LIMITS["low"].append(5)
    broken(guards, "LIMITS['low'][2] was missing, is 5")
    LIMITS["low"].pop()
    intact(guards)
    monkeypatch.setitem(LIMITS, "middle", 1)
    broken(guards, "LIMITS['middle'] was missing, is 1")


def test_modules_of_python(monkeypatch):
    settings = types.ModuleType("settings")
    settings.RATE, settings.other = 0.5, 1
    settings.rule = lambda x: x * settings.RATE
    guards = Guards(lambda x: settings.rule(x))
    settings.other = 2
    settings.new = 3
    unmoved(guards)
    settings.RATE = 0.25
    broken(guards, "settings.RATE was 0.5, is 0.25")
    settings.RATE = 0.5
    unmoved(guards)
    monkeypatch.setitem(sys.modules, "the_settings", settings)

    def imports(x):
        from the_settings import RATE

        return x * RATE

    guards = Guards(imports)
    settings.RATE = 2.5
    broken(guards, "the_settings.RATE was 0.5, is 2.5")


def test_closures_and_nonlocals():
    count, table = 1, {"a": (1, 2)}

    def function(x):
        return x * count + table["a"][0]

    def bump(value):
        nonlocal count
        count = value

    guards = Guards(function)
    bump(2)
    broken(guards, "closure variable 'count' was 1, is 2")
    bump(1)
    intact(guards)
    table["a"] = (1, 2)  # an equal tuple
    intact(guards)
    table["b"] = table.pop("a")
    broken(guards, "table['a'] was (1, 2), is missing")


def test_an_empty_cell():
    def make():
        def function(x):
            return x if x is None else later

        guards = Guards(function)
        assert guards.hold()
        later = 3
        return guards

    broken(make(), "closure variable 'later' was missing, is 3")


def test_defaults():
    def function(x, scale=2, *, shift=1, sizes=[1]):  # noqa: B006
        return x * scale + shift + sizes[0]

    guards = Guards(function)
    function.__defaults__ = (3,)
    broken(guards, "function.__defaults__ was (2,), is (3,)")
    function.__defaults__ = (2,)
    intact(guards)
    function.__kwdefaults__["shift"] = 2
    broken(guards, "function.__kwdefaults__['shift'] was 1, is 2")
    function.__kwdefaults__["shift"] = 1
    function.__kwdefaults__["sizes"].append(4)
    broken(guards, "function.__kwdefaults__['sizes'][1] was missing, is 4")


def test_attributes_of_functions():
    def function(x):
        return x * function.rate

    function.rate, function.calls = 1, 0
    guards = Guards(function)
    function.calls = 1
    unmoved(guards)
    function.rate = 2
    broken(guards, "function.rate was 1, is 2")


def test_partials_lambdas_methods_and_wrappers():
    sizes = [1]
    inner = functools.partial(lambda x, n, m=0: x * n + m + sizes[0], n=[2], m=3)
    guards = Guards(functools.partial(inner))
    intact(guards)
    inner.keywords["n"].append(1)
    assert not guards.hold()
    inner.keywords["n"].pop()
    sizes[0] = 5
    broken(guards, "sizes[0] was 1, is 5")

    for wrapper in (functools.lru_cache, rl.no_grad(), rl.compile):
        sizes[0] = 1
        guards = Guards(wrapper(lambda x: x * sizes[0]))
        intact(guards)
        sizes[0] = 2
        broken(guards, "sizes[0] was 1, is 2")


def test_recursion(monkeypatch):
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != NOISE and even(n - 1)

    guards = Guards(even)
    intact(guards)
    monkeypatch.setitem(globals(), "NOISE", 1)
    broken(guards, "global 'NOISE' was 0, is 1")


def test_functions_without_source_generators_and_nested_code(monkeypatch):
    space = {"rate": 2}
    exec("def function(x):\n    return [rate * y for y in (z + 1 for z in x)]", space)
    guards = Guards(space["function"])
    intact(guards)
    space["rate"] = 3
    broken(guards, "global 'rate' was 2, is 3")

    def generator(x):
        def inner():
            return SCALE

        yield from (x * inner() for _ in range(2))

    guards = Guards(generator)
    intact(guards)
    monkeypatch.setitem(globals(), "SCALE", 3)
    broken(guards, "global 'SCALE' was 2, is 3")


def test_builtins_and_callables_of_libraries():
    for function in (len, rl.sin, rl.nn.functional.relu, functools.reduce, max):
        intact(Guards(function))


def test_attributes_of_a_network(monkeypatch):
    net = Net()
    guards = Guards(net)
    intact(guards)
    net.steps = 5
    broken(guards, "Net().steps was 4, is 5")
    net.steps = 4
    intact(guards)
    net.sizes.append(3)
    broken(guards, "Net().sizes[2] was missing, is 3")
    net.sizes.pop()
    net.settings.width = 4
    broken(guards, "Net().settings.width was 3, is 4")
    net.settings.width = 3
    intact(guards)
    monkeypatch.setattr(Net, "factor", 3)
    broken(guards, "Net.factor was 2, is 3")


def test_attributes_that_no_code_reads_do_not_matter():
    net = Net()
    guards = Guards(net.forward)
    net.seen += 1
    net.losses.append(1.0)
    net.another = 5
    assert guards.hold()
    assert guards.explain() is None
    assert [str(c) for c in guards.changes()] == [
        "self.seen was 0, is 1",
        "self.another was missing, is 5",
    ]


def test_an_owner_that_goes_on_counting():
    class Trainer:
        def __init__(self):
            self.net, self.history, self.epoch, self.best = Net(), [], 0, None

        def step(self, x):
            return self.net(x).sum()

        def fit(self):
            for self.epoch in range(2):
                self.history.append(self.step(rl.ones(2, 3)).item())
            self.best = min(self.history)

    trainer = Trainer()
    guards = Guards(trainer.step)
    trainer.fit()
    unmoved(guards)
    trainer.net = Net()
    broken(guards, "self.net was a Net, is another Net")


def test_code_that_reads_attributes_by_computed_names():
    net = Net()
    guards = Guards(lambda x: getattr(net, "se" + x))
    net.seen += 1
    broken(guards, "net.seen was 0, is 1")


def test_methods(monkeypatch):
    net = Net()
    guards = Guards(net)
    monkeypatch.setattr(Net, "report", lambda self: None)
    unmoved(guards)
    monkeypatch.setattr(Net, "helper", lambda self, x: x)
    broken(guards, "Net.helper was Net.helper, is test_methods.<locals>.<lambda>")

    class Wide(Net):
        pass

    guards = Guards(Wide())
    intact(guards)
    Wide.forward = lambda self, x: x
    assert not guards.hold()
    del Wide.forward
    guards = Guards(net)
    net.forward = lambda x: x
    assert not guards.hold()


def test_training_mode_and_parts_of_a_network():
    net = Net()
    guards = Guards(lambda x: net(x))
    net.eval()
    broken(guards, "net.training was True, is False")
    net.train()
    intact(guards)
    net.body[2].eval()
    broken(guards, "net.body.2.training was True, is False")
    net.train()
    weight = net.fc.weight
    net.fc.weight = nn.Parameter(weight.detach())
    broken(guards, "net.fc.weight was a Parameter, is another Parameter")
    net.fc._parameters["weight"] = weight
    intact(guards)
    net.body[1].running_mean = rl.zeros(3)
    broken(guards, "net.body.1.running_mean was a Tensor, is another Tensor")
    guards = Guards(net)
    net.body.append(nn.ReLU())
    assert not guards.hold()
    del net.body[-1]
    assert not guards.hold()  # its dict of modules is another one
    guards = Guards(net)
    net.body._modules["2"] = nn.ReLU()
    broken(guards, "Net().body.2 was a Dropout, is a ReLU")


def test_shape_dtype_and_gradients_of_tensors():
    net = Net()
    guards = Guards(net)
    net.fc.weight.data = rl.zeros(3, 3)
    intact(guards)
    net.fc.weight.requires_grad_(False)
    broken(guards, "Net().fc.weight.requires_grad was True, is False")
    net.fc.weight.requires_grad_(True)
    intact(guards)
    net.double()
    assert not guards.hold()
    guards = Guards(net.fc)
    net.float()
    broken(guards, "Linear().weight.dtype was rushlight.float64, is rushlight.float32")
    guards = Guards(net.fc)
    net.fc.bias.data = rl.zeros(4)
    broken(guards, "Linear().bias.shape was (3,), is (4,)")


def test_networks_whose_parameters_have_no_shape_yet():
    layer = nn.LazyLinear(2)
    guards = Guards(layer)
    assert guards.hold()
    layer(rl.ones(1, 3))
    assert not guards.hold()


def test_hooks():
    net = Net()
    guards = Guards(net, [hooks.everywhere])
    rate = [1]
    handle = net.fc.register_forward_hook(lambda module, args, result: result * rate[0])
    assert not guards.hold()
    assert "_forward_hooks" in guards.explain()
    guards = Guards(net)
    intact(guards)
    rate[0] = 2
    assert not guards.hold()
    rate[0] = 1
    handle.remove()
    assert not guards.hold()
    guards = Guards(net, [hooks.everywhere])
    net(rl.ones(2, 3))
    intact(guards)
    handle = nn.modules.module.register_module_forward_hook(lambda *args: None)
    assert not guards.hold()
    handle.remove()
    assert guards.hold()


def test_objects():
    class Slotted:
        __slots__ = ("__rate", "other")

        def __init__(self):
            self.__rate = 1

        def rate(self):
            return self.__rate

        def set(self, rate):
            self.__rate = rate

    class Rule:
        kinds = [1]
        limit = 3

        def __init__(self):
            self.slotted, self.flag, self.inner = Slotted(), Flag.A, Settings(inner=Settings())
            self.spaces = types.SimpleNamespace(depth=1)

        @property
        def name(self):
            return SCALE * self.limit

        @classmethod
        def make(cls):
            return cls.kinds

        def __call__(self, x):
            inner = self.inner.inner.sizes
            return x * self.slotted.rate() * self.flag.value, inner, self.name, self.spaces.depth

    rule = Rule()
    guards = Guards(rule)
    intact(guards)
    rule.slotted.set(2)
    broken(guards, "Rule().slotted._Slotted__rate was 1, is 2")
    rule.slotted.set(1)
    rule.flag = Flag.B
    assert "Flag.B" in guards.explain()
    rule.flag = Flag.A
    rule.inner.inner.sizes.append(1)
    broken(guards, "Rule().inner.inner.sizes[0] was missing, is 1")
    rule.inner.inner.sizes.clear()
    rule.spaces.depth = 2
    broken(guards, "Rule().spaces.depth was 1, is 2")
    rule.spaces.depth = 1
    Rule.limit = 4
    broken(guards, "Rule.limit was 3, is 4")
    Rule.limit = 3
    intact(guards)
    rule.limit = 3  # hides that of the class
    assert not guards.hold()

    guards = Guards(lambda x: Rule.make())
    Rule.kinds.append(2)
    broken(guards, "Rule.kinds[1] was missing, is 2")


def test_classes_that_code_makes_objects_of():
    rate = [1]

    class Point:
        def __init__(self, x):
            self.x = x * rate[0]

    guards = Guards(lambda x: Point(x))
    rate[0] = 2
    broken(guards, "rate[0] was 1, is 2")


def test_containers():
    ring, members, order = deque([1, 2], maxlen=2), {1, 2}, OrderedDict(a=1, b=2)
    guards = Guards(lambda x: (ring, members, order))
    ring.append(3)
    broken(guards, "ring[0] was 1, is 2")
    ring.extend((1, 2))
    members.add(3)
    broken(guards, "members[3] was missing, is 3")
    members.remove(3)
    intact(guards)
    nan = float("nan")
    order["a"] = nan
    guards = Guards(lambda x: order)
    order["a"] = float("nan")
    intact(guards)


def test_many_data_are_compared_and_too_many_refused():
    data = list(range(LEAVES))
    guards = Guards(lambda x: data[0])
    data[-1] = 7
    broken(guards, f"data[{LEAVES - 1}] was {LEAVES - 1}, is 7")
    data.append(1)
    with pytest.raises(TraceError, match=f"data is a list of {LEAVES + 1} elements"):
        Guards(lambda x: data[0])
    fixed = tuple(data)
    Guards(lambda x: fixed[0])


def test_large_data_that_only_reflection_reaches_are_compared_by_length():
    class Owner:
        def __init__(self):
            self.scale, self.data = 2.0, list(range(LEAVES + 1))

    owner, name = Owner(), "scale"
    guards = Guards(lambda x: x * getattr(owner, name))
    owner.data[0] = 7
    unmoved(guards)
    owner.data.append(1)
    broken(guards, f"owner.data['length'] was {LEAVES + 1}, is {LEAVES + 2}")


def test_what_is_ours_accounts_for_itself():
    net = Net()
    optimizer = rl.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        net(x).sum().backward()
        optimizer.step()

    guards = Guards(step)
    step(rl.ones(2, 3))
    intact(guards)
    optimizer.param_groups[0]["lr"] = 0.2
    unmoved(guards)
    assert [str(c) for c in guards.changes()] == ["optimizer.param_groups[0].lr was 0.1, is 0.2"]

    class Own(rl.optim.SGD):
        rate = 1

        def step(self, closure=None):
            return self.rate, super().step(closure)

    optimizer = Own(net.parameters(), lr=0.1)
    guards = Guards(step)
    step(rl.ones(2, 3))
    intact(guards)
    Own.rate = 2
    broken(guards, "Own.rate was 1, is 2")


def test_changes_and_their_restoration():
    table, items, members = {"a": 1, "b": 2, "c": 3}, [1, 2, 3], {1}
    net = Net()
    count = 0

    def function(x):
        nonlocal count
        global NOISE
        count += 1
        NOISE = 5
        del table["a"]
        table["d"] = 4
        items.pop()
        items.append(7)
        items.extend((8, 9))
        members.add(2)
        net.steps += 1
        net.last = x
        net.settings.sizes.append(1)
        Net.factor = 7
        Settings.fresh = 1

    guards = Guards(function, [net])
    before = dict(net.__dict__)
    function(rl.ones(1))
    changes = guards.changes()
    assert {str(change) for change in changes} == {
        "closure variable 'count' was 0, is 1",
        "global 'NOISE' was 0, is 5",
        "table['a'] was 1, is missing",
        "table['d'] was missing, is 4",
        "items[2] was 3, is 7",
        "items[3] was missing, is 8",
        "items[4] was missing, is 9",
        "members[2] was missing, is 2",
        "Net().steps was 4, is 5",
        "Net().last was missing, is a Tensor",
        "Net().settings.sizes[0] was missing, is 1",
        "Net.factor was 2, is 7",
        "Settings.fresh was missing, is 1",
    }
    guards.restore(changes)
    assert list(table.items()) == [("a", 1), ("b", 2), ("c", 3)]
    assert (items, members, count, NOISE, Net.factor) == ([1, 2, 3], {1}, 0, 0, 2)
    assert net.__dict__ == before
    assert "fresh" not in vars(Settings)
    unmoved(guards)


def test_shortened_lists_are_restored():
    items, ring = [1, 2, 3], deque([1, 2, 3])
    guards = Guards(lambda x: (items, ring))
    items.clear()
    ring.pop()
    guards.restore(guards.changes())
    assert (items, ring) == ([1, 2, 3], deque([1, 2, 3]))
    intact(guards)


def test_the_order_of_a_dict():
    scales = {"a": 2.0, "b": 3.0}
    guards = Guards(lambda x: x * next(iter(scales.values())))
    scales["a"] = scales.pop("a")
    assert not guards.hold()
    assert guards.explain() == "scales[order] was ('a', 'b'), is ('b', 'a')"
    guards.restore(guards.changes())
    assert guards.hold()
    assert [*scales] == ["a", "b"]


def test_released_entries_are_the_programs_own():
    net = Net()

    def function(x):
        net.last = net(x)
        return net.last

    net.last = None
    guards = Guards(function)
    result = function(rl.ones(2, 3))
    (change,) = [c for c in guards.changes() if c.key == "last"]
    assert (change.container, change.before, change.after) == (net.__dict__, None, result)
    guards.restore([change])
    guards.release([change])
    change.put(rl.zeros(1))
    assert guards.hold()
    net.steps = 9
    broken(guards, "net.steps was 4, is 9")
    change.put(MISSING)
    assert "last" not in net.__dict__

    cache = {"last": 0, "rate": 1}
    guards = Guards(lambda x: cache["rate"])
    cache["last"] = 1
    changes = guards.changes()
    guards.restore(changes)
    guards.release(changes)
    cache["last"] = 2
    assert guards.hold()
    cache["rate"] = 2
    broken(guards, "cache['rate'] was 1, is 2")


def test_what_does_not_matter_is_let_go_of():
    net = Net()
    guards = Guards(net)
    (watch,) = [w for w in guards.modules.watches if w.container is net.__dict__]
    assert "losses" in watch.before
    guards.restore(guards.changes())
    assert "losses" not in watch.before
    net.losses = None
    assert guards.hold()


def test_values():
    method = WEIGHT.sum
    assert same((1, "a", WEIGHT), (1, "a", WEIGHT))
    assert same(method, WEIGHT.sum)
    assert not same((1, WEIGHT), (1, WEIGHT.clone()))
    assert not same(Settings(), Settings())
    assert same(rl.float32, rl.float32)
    assert same(frozenset({1}), frozenset({1}))


def test_every_change_of_a_modules_parts_ends_the_epoch():
    def ends(change) -> bool:
        before = epoch.now
        change()
        return epoch.now is not before

    net = Net()
    entries = Entries(a=1, b=2, c=3)
    assert not ends(lambda: net(rl.ones(2, 3)))
    assert not ends(lambda: net.state_dict())
    for change in (
        lambda: setattr(net, "steps", 3),
        lambda: delattr(net, "steps"),
        lambda: delattr(net.fc, "bias"),
        lambda: net.fc.register_parameter("bias", None),
        lambda: net.register_buffer("mean", rl.zeros(1)),
        lambda: net.add_module("more", nn.ReLU()),
        lambda: net.body.append(nn.ReLU()),
        lambda: net.body.eval(),
        lambda: net.fc.register_forward_hook(print),
        lambda: entries.update(a=2),
        lambda: entries.pop("a"),
        lambda: entries.popitem(),
        lambda: entries.setdefault("d", 1),
        lambda: entries.__ior__({"e": 1}),
        lambda: entries.__delitem__("e"),
        lambda: entries.clear(),
    ):
        assert ends(change)


def test_the_time_of_a_look(capsys):
    blocks = [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()) for _ in range(15)]
    net = nn.Sequential(*blocks)
    optimizer = rl.optim.Adam(net.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = net(x).sum() * SCALE
        loss.backward()
        optimizer.step()
        return loss

    begin = time.perf_counter()
    guards = Guards(step)
    made = time.perf_counter() - begin

    def best(look) -> float:
        times = []
        for _ in range(200):
            begin = time.perf_counter()
            assert look()
            times.append(time.perf_counter() - begin)
        return min(times) * 1e6

    def look_anew() -> bool:
        epoch.end()
        return guards.hold()

    count = len(list(net.modules()))
    print(
        f"\nguards of {count} modules: made in {made * 1e3:.1f} ms, hold in "
        f"{best(guards.hold):.1f} µs, after a change of some module in {best(look_anew):.1f} µs"
    )
    assert guards.explain() is None
