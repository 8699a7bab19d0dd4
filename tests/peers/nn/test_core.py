"""Modules, containers, initialisers and tools in PyTorch and here."""

from __future__ import annotations

import copy
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.peers.scenarios import Body, Scenarios, compare

pytest.importorskip("torch.nn.utils.prune")

scenarios = Scenarios()


def told(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The class and text of the error that a call raises."""
    try:
        call(*args, **kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {common(str(error))}"
    return "no error"


def common(text: str) -> str:
    """A text without the name of the library, nor of its modules, nor a cure."""
    text = re.sub(r"; (call super|a function goes).*", "", text)  # ours also says what to do
    text = re.sub(r"(torch|rushlight)\.(nn\.modules\.\w+\.|nn\.\w+\.|nn\.)?", "", text)
    return text.replace("torch Tensor", "Tensor").replace("rushlight Tensor", "Tensor")


def seeded(lib: Any, make: Callable[[], Any]) -> Any:
    lib.manual_seed(0)
    return make()


def network(lib: Any) -> Any:
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", lib.zeros((), dtype=lib.int64))
            self.register_buffer("scratch", lib.ones(2), persistent=False)
            self.scale = nn.Parameter(lib.ones(3))
            self.inner = nn.Sequential(nn.Linear(3, 4), nn.Identity(), nn.Linear(4, 3))

        def forward(self, x: Any) -> Any:
            return self.inner(x) * self.scale + x

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = Block()
            self.tied = self.first.inner[0]
            self.absent = None
            self.register_parameter("nothing", None)
            self.blocks = nn.ModuleList([Block(), Block()])

        def forward(self, x: Any, flip: bool = False) -> Any:
            for block in (self.first, *self.blocks):
                x = block(x)
            return -x if flip else x

    return seeded(lib, Net)


def state(module: Any) -> list[Any]:
    return [[name, t.detach().clone()] for name, t in module.state_dict().items()]


@scenarios
def traversal(lib: Any) -> Iterator[Any]:
    net = network(lib)
    yield [name for name, _ in net.named_parameters()]
    yield [name for name, _ in net.named_parameters(prefix="p", recurse=False)]
    yield [name for name, _ in net.named_parameters(remove_duplicate=False)]
    yield [name for name, _ in net.named_buffers()], list(net.buffers())
    yield [name for name, _ in net.named_modules()]
    yield [name for name, _ in net.named_modules(prefix="m", remove_duplicate=False)]
    yield [name for name, _ in net.named_children()], len(list(net.children()))
    yield len(list(net.modules())), len(list(net.modules(remove_duplicate=False)))
    seen: list[str] = []
    net.apply(lambda m: seen.append(type(m).__name__))
    yield seen
    yield repr(net)
    yield [n for n in dir(net) if n in ("first", "tied", "blocks", "nothing", "training")]
    yield [n for n in dir(net.blocks) if n.isdigit()]


@scenarios
def states(lib: Any) -> Iterator[Any]:
    net = network(lib)
    yield state(net)
    yield list(net.state_dict(prefix="a."))
    yield [type(t).__name__ for t in net.state_dict(keep_vars=True).values()]
    yield [t.requires_grad for t in net.state_dict().values()]
    yield dict(net.state_dict()._metadata), type(net.state_dict()).__name__
    other = lib.nn.Linear(3, 4)
    yield repr(other.load_state_dict(net.first.inner[0].state_dict())), state(other)
    yield repr(other.load_state_dict({"weight": lib.ones(4, 3), "extra": 1}, strict=False))
    yield state(other)
    yield told(other.load_state_dict, {"weight": lib.zeros(2, 3), "more": lib.ones(1)})
    yield told(other.load_state_dict, {"weight": lib.zeros(2, 3)}, strict=False)
    yield told(other.load_state_dict, {"weight": 3, "bias": lib.zeros(4)})
    yield told(other.load_state_dict, [1, 2])
    yield told(net.load_state_dict, other.state_dict())
    kept = other.weight
    new = lib.full((4, 3), 2.0)
    other.load_state_dict({"weight": new, "bias": lib.zeros(4)}, assign=True)
    yield other.weight is kept, type(other.weight).__name__, other.weight.requires_grad
    new[0] = 5.0
    yield other.weight
    scalar = lib.nn.Module()
    scalar.s = lib.nn.Parameter(lib.tensor(0.0))
    scalar.load_state_dict({"s": lib.tensor([3.0])})
    yield scalar.s


@scenarios
def extra_state(lib: Any) -> Iterator[Any]:
    class Extra(lib.nn.Module):
        def __init__(self, value: Any) -> None:
            super().__init__()
            self.value = value

        def get_extra_state(self) -> Any:
            return {"value": self.value}

        def set_extra_state(self, state: Any) -> None:
            self.value = state["value"]

    a, b = Extra(1), lib.nn.Sequential(Extra(2))
    yield dict(a.state_dict()), dict(b.state_dict())
    b[0].load_state_dict(a.state_dict())
    yield b[0].value
    yield told(a.load_state_dict, {}), told(lib.nn.Identity().load_state_dict, a.state_dict())


@scenarios
def state_hooks(lib: Any) -> Iterator[Any]:
    net = lib.nn.Sequential(lib.nn.Linear(1, 1))
    log: list[Any] = []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: log.append((prefix, keep)))
    net[0].register_state_dict_post_hook(lambda m, s, prefix, meta: s.update(marked=prefix))
    yield sorted(net.state_dict()), log
    net._register_state_dict_hook(lambda m, s, prefix, meta: OrderedDict(only=1))
    yield dict(net.state_dict())

    def rename(state_dict: Any, prefix: str, *rest: Any) -> None:
        if prefix + "w" in state_dict:
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")

    layer = lib.nn.Linear(1, 1)
    layer._register_load_state_dict_pre_hook(rename)
    layer.register_load_state_dict_pre_hook(lambda m, *args: log.append(type(m).__name__))
    layer.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    yield repr(layer.load_state_dict({"w": lib.full((1, 1), 7.0)})), layer.weight, log
    layer.register_load_state_dict_post_hook(lambda m, keys: 1)
    yield told(layer.load_state_dict, {})


@scenarios
def attributes(lib: Any) -> Iterator[Any]:
    nn = lib.nn
    m = nn.Module()
    yield told(lambda: m.missing), told(delattr, m, "missing")
    m.w = nn.Parameter(lib.ones(1))
    yield told(setattr, m, "w", lib.ones(2)), told(setattr, m, "w", 3)
    m.w = None
    yield m.w is None, list(m._parameters)
    m.w = nn.Parameter(lib.ones(2))
    m.child = nn.Identity()
    yield told(setattr, m, "child", 3), told(setattr, m, "child", lib.ones(1))
    m.child = None
    yield m.child is None, [n for n, _ in m.named_children()]
    m.register_buffer("b", lib.ones(1))
    yield told(setattr, m, "b", 3)
    m.b = lib.zeros(3)
    yield m.b, list(m._buffers)
    m.b = None
    yield list(m.state_dict())
    m.plain = lib.ones(1)
    yield list(m._buffers), "plain" in m.__dict__
    m.plain = nn.Parameter(lib.ones(1))
    yield "plain" in m.__dict__, [n for n, _ in m.named_parameters()]
    yield told(setattr, m, "plain", nn.Identity())
    del m.plain
    m.plain = nn.Identity()
    yield [n for n, _ in m.named_parameters()], [n for n, _ in m.named_children()]
    m.plain = nn.Parameter(lib.ones(1))
    yield [n for n, _ in m.named_parameters()], [n for n, _ in m.named_children()]
    del m.plain
    yield hasattr(m, "plain")
    m.buffer = nn.Buffer(lib.ones(2), persistent=False)
    m.other = nn.Buffer(lib.ones(2))
    yield [n for n, _ in m.named_buffers()], list(m.state_dict())


@scenarios
def wrong_names(lib: Any) -> Iterator[Any]:
    m = lib.nn.Module()
    p, t, c = lib.nn.Parameter(lib.ones(1)), lib.ones(1), lib.nn.Identity()
    for register, value in (
        (m.register_parameter, p),
        (m.register_buffer, t),
        (m.add_module, c),
        (m.register_module, c),
    ):
        yield told(register, 3, value), told(register, "a.b", value), told(register, "", value)
        yield told(register, "training", value), told(register, "x", "text")
    yield told(m.register_parameter, "x", t)
    leaf = lib.ones(1, requires_grad=True)
    yield told(m.register_buffer, "ok", leaf * 2)
    yield told(lib.nn.Module, 3), told(lib.nn.Module, a=3)
    yield told(m), told(m.train, 3), told(m.get_extra_state)[:12]


@scenarios
def before_init(lib: Any) -> Iterator[Any]:
    def early(value: Callable[[], Any]) -> type:
        class Early(lib.nn.Module):
            def __init__(self) -> None:
                self.thing = value()
                super().__init__()

        return Early

    yield told(early(lambda: lib.nn.Parameter(lib.ones(1))))
    yield told(early(lib.nn.Identity))
    yield told(early(lambda: 3)), early(lambda: 3)().thing

    class Never(lib.nn.Module):
        def __init__(self) -> None:
            pass

    yield told(Never().register_buffer, "b", lib.ones(1))
    yield told(Never().register_parameter, "p", None)


@scenarios
def several_bases(lib: Any) -> Iterator[Any]:
    class Named:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.named = True
            super().__init__(*args, **kwargs)

    class First(Named, lib.nn.Module):
        pass

    class Second(lib.nn.Module, Named):
        call_super_init = True

    class Third(lib.nn.Module, Named):
        pass

    yield First().named, Second().named, hasattr(Third(), "named")


@scenarios
def paths(lib: Any) -> Iterator[Any]:
    net = network(lib)
    yield repr(net.get_submodule("blocks.1.inner.0")), net.get_submodule("") is net
    yield net.get_parameter("first.scale"), net.get_buffer("blocks.0.count")
    yield told(net.get_submodule, "first.nope"), told(net.get_submodule, "first.scale")
    yield told(net.get_parameter, "first.count"), told(net.get_buffer, "first.scale")
    yield told(net.get_parameter, "first.nope"), told(net.get_buffer, "nope")
    net.set_submodule("first.inner.1", lib.nn.Flatten())
    net.set_submodule("first.new", lib.nn.Flatten())
    yield repr(net.first)
    yield told(net.set_submodule, "", lib.nn.Flatten()), told(net.set_submodule, "x", 3)
    yield told(net.set_submodule, "first.no", lib.nn.Flatten(), strict=True)
    yield told(net.set_submodule, "first.scale", lib.nn.Flatten())


@scenarios
def conversions(lib: Any) -> Iterator[Any]:
    net = network(lib)
    net(lib.ones(1, 3)).sum().backward()
    before = list(net.parameters())

    def kinds() -> list[str]:
        tensors = [*net.parameters(), *net.buffers(), *(p.grad for p in net.parameters())]
        return [common(str(t.dtype)) for t in tensors]

    yield net.double() is net, kinds()
    yield all(a is b for a, b in zip(before, net.parameters(), strict=True))
    for convert in (net.half, net.bfloat16, net.float):
        convert()
        yield kinds()
    net.to(lib.float64)
    yield kinds()
    net.to(lib.ones(1))
    yield kinds()
    net.to("cpu", lib.float64, False)
    yield kinds()
    net.to(device="cpu", dtype=lib.float32)
    yield kinds(), told(net.to, lib.int64), net.cpu() is net
    net.type(lib.float64)
    yield kinds()
    yield net.to_empty(device="cpu") is net, [tuple(p.shape) for p in net.parameters()]
    conv = lib.nn.Module()
    conv.w = lib.nn.Parameter(lib.ones(2, 3, 4, 5))
    conv.to(memory_format=lib.channels_last)
    yield conv.w.stride()


@scenarios
def modes(lib: Any) -> Iterator[Any]:
    net = network(lib)
    yield net.eval() is net, [m.training for m in net.modules()]
    net.train()
    net.first.eval()
    yield [m.training for m in net.modules()]
    net.requires_grad_(False)
    yield [p.requires_grad for p in net.parameters()]
    net.requires_grad_()
    net(lib.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    yield [p.grad for p in net.parameters()]
    net.zero_grad()
    yield [p.grad is None for p in net.parameters()]


@scenarios
def copies(lib: Any) -> Iterator[Any]:
    net = network(lib)
    net(lib.ones(2, 3)).sum().backward()
    net.first.scale.requires_grad_(False)
    net.register_forward_hook(lambda m, a, r: r + 1)
    twin = copy.deepcopy(net)
    yield twin(lib.ones(2, 3)), state(twin)
    yield (
        [type(p).__name__ for p in twin.parameters()],
        [p.requires_grad for p in twin.parameters()],
    )
    yield twin.tied is twin.first.inner[0], twin.tied is net.tied
    yield [p.grad is None for p in twin.parameters()]
    yield twin.first.scale is net.first.scale, twin.first.scratch
    shallow = copy.copy(net)
    yield shallow.tied is net.tied
    tied = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    again = copy.deepcopy(tied)
    yield again[0].weight is again[1].weight
    plain = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Flatten()).eval()
    loaded = pickle.loads(pickle.dumps(plain))
    yield repr(loaded), loaded.training, type(loaded[0].weight).__name__
    yield bool((loaded[0].weight == plain[0].weight).all()), loaded[0].weight.requires_grad


@scenarios
def parameters(lib: Any) -> Iterator[Any]:
    data = lib.ones(3)
    p = lib.nn.Parameter(data)
    data[0] = 5.0
    yield p, p.requires_grad, p.is_leaf, isinstance(p, lib.Tensor), repr(p)
    with lib.no_grad():
        yield lib.nn.Parameter(data).requires_grad, lib.nn.Parameter(data, False).requires_grad
    yield type(p * 2).__name__, type(p.detach()).__name__, type(p.data).__name__
    yield lib.nn.Parameter().shape == (0,), told(lib.nn.Parameter, lib.tensor([1, 2]))[16:60]
    yield lib.nn.Parameter(lib.tensor([1, 2]), requires_grad=False)
    q = lib.nn.Parameter(p)
    with lib.no_grad():
        q.mul_(2)
    yield p, q is p
    twin = copy.deepcopy(p)
    yield twin, type(twin).__name__, twin.requires_grad
    p.sum().backward()
    yield p.grad, type(p.grad).__name__
    yield repr(pickle.loads(pickle.dumps(p)))
    yield isinstance(lib.nn.Buffer(lib.ones(1)), lib.nn.Buffer), repr(lib.nn.Buffer(lib.ones(1)))
    y = lib.ones(2, requires_grad=True) * 2
    yield lib.nn.Parameter(y).is_leaf, lib.nn.Parameter(y).grad_fn is None
    yield p.view(-1).requires_grad, p[0], (p @ p), lib.stack([p, p]), p.sum().item()


@scenarios
def forward_hooks(lib: Any) -> Iterator[Any]:
    log: list[Any] = []
    layer = lib.nn.Identity()
    x = lib.ones(1)
    first = layer.register_forward_hook(lambda m, a, r: log.append(("a", len(a))))
    second = layer.register_forward_hook(lambda m, a, r: r + 1)
    layer.register_forward_hook(lambda m, a, r: log.append(("b", r.item())), prepend=True)
    layer.register_forward_pre_hook(lambda m, a: (a[0] * 10,))
    layer.register_forward_pre_hook(lambda m, a: a[0] + 0.5)
    yield layer(x), list(log)
    first.remove()
    second.remove()
    log.clear()
    yield layer(x), list(log)

    class Keyed(lib.nn.Module):
        def forward(self, x: Any, *, k: Any = 1) -> Any:
            return x * k

    keyed = Keyed()
    handle = keyed.register_forward_pre_hook(lambda m, a, kw: (a, {"k": 3}), with_kwargs=True)
    keyed.register_forward_hook(lambda m, a, kw, r: r + kw["k"], with_kwargs=True)
    yield keyed(x, k=2)
    handle.remove()
    keyed.register_forward_pre_hook(lambda m, a, kw: 3, with_kwargs=True)
    yield told(keyed, x, k=2)


@scenarios
def always_called_hooks(lib: Any) -> Iterator[Any]:
    log: list[str] = []

    class Fails(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    m = Fails()
    m.register_forward_hook(lambda m, a, r: log.append(f"always {r}"), always_call=True)
    m.register_forward_hook(lambda m, a, r: log.append("never"))
    m.register_forward_hook(lambda m, a, r: 1 / 0, always_call=True)
    yield told(m, 1), log


@scenarios
def backward_hooks(lib: Any) -> Iterator[Any]:
    log: list[Any] = []
    layer = seeded(lib, lambda: lib.nn.Linear(2, 2))
    layer.register_full_backward_hook(lambda m, gi, go: log.append((gi[0].clone(), go[0].clone())))
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    layer.register_full_backward_pre_hook(lambda m, go: (go[0] * 3,))
    x = lib.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    yield x.grad, layer.weight.grad, log
    yield told(layer.register_backward_hook, lambda m, gi, go: None)
    log.clear()
    bad = lib.nn.Linear(2, 2)
    bad.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    yield told(bad(x).sum().backward)
    old = seeded(lib, lambda: lib.nn.Linear(2, 2))
    old.register_backward_hook(lambda m, gi, go: log.append(go[0].clone()))
    old(x).sum().backward()
    yield log


@scenarios
def backward_hooks_of_several_values(lib: Any) -> Iterator[Any]:
    log: list[Any] = []

    class Two(lib.nn.Module):
        def forward(self, a: Any, word: str, b: Any) -> Any:
            return a * b, b.detach() * 2, a + b

    two = Two()
    two.register_full_backward_hook(
        lambda m, gi, go: log.append([[g is not None for g in gi], [g is not None for g in go]])
    )
    a, b = lib.ones(2, requires_grad=True), lib.full((2,), 3.0, requires_grad=True)
    first, _, last = two(a, "word", b)
    (first.sum() + last.sum()).backward()
    yield a.grad, b.grad, log
    free = lib.nn.Linear(2, 1)
    free.register_full_backward_hook(lambda m, gi, go: log.append((gi, go[0].clone())))
    free(lib.ones(1, 2)).sum().backward()
    yield log[-1]
    with lib.no_grad():
        free(lib.ones(1, 2))
    yield len(log)


@scenarios
def global_hooks(lib: Any) -> Iterator[Any]:
    module = lib.nn.modules.module
    log: list[Any] = []
    x = lib.ones(1, 2, requires_grad=True)
    net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Identity())
    handles = [
        module.register_module_forward_pre_hook(lambda m, a: log.append(f"pre {m._get_name()}")),
        module.register_module_forward_hook(lambda m, a, r: log.append(f"post {m._get_name()}")),
        module.register_module_full_backward_hook(
            lambda m, gi, go: log.append(f"back {m._get_name()}")
        ),
        module.register_module_full_backward_pre_hook(
            lambda m, go: log.append(f"prior {m._get_name()}")
        ),
    ]
    net(x).sum().backward()
    for handle in handles:
        handle.remove()
    net(x)
    yield log
    yield told(module.register_module_backward_hook, lambda *a: None)
    log.clear()
    handles = [
        module.register_module_parameter_registration_hook(lambda m, n, p: log.append(n)),
        module.register_module_buffer_registration_hook(lambda m, n, p: log.append(n)),
        module.register_module_module_registration_hook(lambda m, n, p: log.append(n)),
    ]
    net.more = lib.nn.Linear(1, 1)
    net.register_buffer("buffer", None)
    for handle in handles:
        handle.remove()
    net.quiet = lib.nn.Linear(1, 1)
    yield log


@scenarios
def sequentials(lib: Any) -> Iterator[Any]:
    nn = lib.nn
    a, b, c = nn.Linear(1, 2), nn.Identity(), nn.Flatten()
    s = nn.Sequential(a, b, c)
    yield (
        repr(s),
        len(s),
        s[0] is a,
        s[-1] is c,
        repr(s[1:]),
        [m is n for m, n in zip(s, (a, b, c), strict=True)],
    )
    yield told(lambda: s[3]), told(lambda: s[-4]), told(s.insert, 9, a), told(s.insert, 0, 3)
    s[1] = c
    yield repr(s)
    del s[0]
    yield repr(s), list(s._modules)
    yield repr(s.append(a)), repr(s.insert(0, b)), repr(s.insert(-1, b)), repr(s.extend([c, b]))
    yield repr(s.pop(1)), repr(s), repr(s + nn.Sequential(a)), repr(s[:2] * 2), repr(2 * s[:1])
    s += nn.Sequential(c)
    yield repr(s)
    s = s[:2]
    s *= 2
    yield repr(s), told(lambda: s * 0), told(lambda: s * 1.5), told(lambda: s + 3)
    del s[1:]
    yield repr(s)
    named = nn.Sequential(OrderedDict(first=a, second=b))
    yield repr(named), named.first is a, repr(named[:1]), list(named.state_dict())
    yield told(nn.Sequential, 3), told(nn.Sequential, {"a": a})
    yield repr(nn.Sequential()), nn.Sequential()(3)


@scenarios
def module_lists(lib: Any) -> Iterator[Any]:
    nn = lib.nn
    a, b, c = nn.Linear(1, 2), nn.Identity(), nn.Flatten()
    s = nn.ModuleList([a, a, b])
    yield (
        repr(s),
        len(s),
        s[-1] is b,
        repr(s[:2]),
        [m is n for m, n in zip(s, (a, a, b), strict=True)],
    )
    yield told(lambda: s[3]), told(s.append, 3), told(s.extend, 3), told(s), b in s
    s[0] = c
    s.append(c).extend([a, b])
    yield repr(s)
    s.insert(1, b)
    s += [c]
    yield repr(s), repr(s + nn.ModuleList([a])), repr(s.pop(0)), len(s)
    del s[0], s[1:3]
    yield repr(s), list(s._modules)
    yield repr(nn.ModuleList()), repr(nn.ModuleList(nn.Identity() for _ in range(3)))
    yield repr(nn.ModuleList([nn.Sequential(a, b), nn.Sequential(a, b), a]))


@scenarios
def module_dicts(lib: Any) -> Iterator[Any]:
    nn = lib.nn
    a, b = nn.Linear(1, 2), nn.Identity()
    d = nn.ModuleDict({"a": a, "b": b})
    yield repr(d), len(d), "a" in d, list(d), list(d.keys()), [repr(m) for m in d.values()]
    yield [k for k, _ in d.items()], d["a"] is a, told(lambda: d["zz"])
    d.update([("c", a), ("d", b)])
    d.update(nn.ModuleDict({"e": b}))
    d["f"] = a
    del d["a"]
    yield repr(d), repr(d.pop("c")), list(d)
    yield told(d.update, 3), told(d.update, [1]), told(d.update, [(1, 2, 3)])
    yield told(d.__setitem__, "x.y", a), told(d.__setitem__, "keys", a), told(d, 1)
    d.clear()
    yield repr(d)


@scenarios
def parameter_lists(lib: Any) -> Iterator[Any]:
    nn = lib.nn
    s = nn.ParameterList([lib.zeros(2), nn.Parameter(lib.ones(3)), "text"])
    yield common(repr(s)), len(s), s[1], s[-1], [type(v).__name__ for v in s]
    s.append(lib.zeros(1)).extend([lib.zeros(2, 2)])
    s[0] = lib.ones(1)
    s += [lib.ones(1)]
    yield common(repr(s)), list(s.state_dict()), len(s[1:4]), common(repr(s[1:3]))
    yield told(lambda: s[9]), told(s.extend, lib.ones(2)), told(s.extend, 3), told(s, 1)
    yield [n for n, _ in s.named_parameters()]


@scenarios
def parameter_dicts(lib: Any) -> Iterator[Any]:
    nn = lib.nn
    d = nn.ParameterDict({"b": lib.zeros(2), "a": lib.ones(3), "t": "text"})
    yield common(repr(d)), len(d), list(d), "a" in d, d["a"], d.get("zz", 4), list(reversed(d))
    d["c"] = lib.zeros(1)
    d.update(OrderedDict(z=lib.zeros(1), y=lib.ones(1)))
    yield list(d.keys()), d.setdefault("q", lib.ones(1)), d.setdefault("q"), list(d.state_dict())
    yield d.pop("a"), d.popitem()[0], list(d), common(repr(d.copy())), [k for k, _ in d.items()]
    yield list(d | nn.ParameterDict({"n": lib.ones(1)})), len(list(d.values()))
    yield list(d.fromkeys(["x", "y"])), told(d.__getitem__, 3)[:90], told(d, 1)
    d |= nn.ParameterDict({"m": lib.ones(1)})
    del d["b"]
    yield list(d), [n for n, _ in d.named_parameters()]
    d.clear()
    yield common(repr(d))


@scenarios
def shapes(lib: Any) -> Iterator[Any]:
    nn = lib.nn
    x = lib.ones(2, 6, 3)
    yield (
        nn.Flatten()(x),
        nn.Flatten(0, 1)(x),
        nn.Unflatten(1, (2, 3))(x),
        nn.Unflatten(-1, [3, 1])(x),
    )
    yield repr(nn.Flatten(0)), repr(nn.Unflatten(1, (2, -1)))
    yield told(nn.Unflatten, 1, 3), told(nn.Unflatten, 1, (2.0, 3))


@scenarios
def linears(lib: Any) -> Iterator[Any]:
    nn = lib.nn
    for make in (
        lambda: nn.Linear(3, 2),
        lambda: nn.Linear(3, 2, bias=False, dtype=lib.float64),
        lambda: nn.Bilinear(2, 3, 4),
        lambda: nn.modules.linear.NonDynamicallyQuantizableLinear(2, 2),
    ):
        layer = seeded(lib, make)
        yield repr(layer), state(layer)
    yield told(nn.Bilinear, 0, 3, 4), nn.Linear(0, 2)(lib.ones(3, 0)).shape == (3, 2)
    yield told(nn.Linear, -1, 2)[:12], repr(nn.Identity(1, a=2))


@scenarios
def lazies(lib: Any) -> Iterator[Any]:
    nn = lib.nn
    layer = seeded(lib, lambda: nn.LazyLinear(3))
    yield repr(layer), repr(layer.weight), layer.has_uninitialized_params()
    yield told(lambda: layer.weight.shape), told(lambda: layer.weight + 1)[:11]
    yield told(layer.share_memory), repr(layer.state_dict()["weight"])
    twin, stored = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    yield repr(twin), twin.weight is layer.weight, repr(stored.bias)
    layer.double()
    lib.manual_seed(1)
    yield layer(lib.ones(2, 5, dtype=lib.float64)), repr(layer), state(layer)
    yield isinstance(layer, nn.LazyLinear), len(layer._forward_pre_hooks)
    twin.load_state_dict(nn.Linear(4, 3).state_dict())
    yield repr(twin.weight).split("\n")[0], twin(lib.ones(1, 4)).shape == (1, 3), repr(twin)
    yield told(nn.Linear(4, 3).load_state_dict, stored.state_dict())
    stored.load_state_dict(nn.LazyLinear(3).state_dict())
    yield repr(stored.weight), isinstance(stored.weight, nn.Parameter)
    wrong = nn.LazyLinear(3)
    wrong.load_state_dict(nn.Linear(4, 3).state_dict())
    yield told(wrong, lib.ones(1, 5))


@scenarios
def initialisers(lib: Any) -> Iterator[Any]:
    init = lib.nn.init
    for call in (
        lambda t: init.uniform_(t, -1, 2),
        lambda t: init.normal_(t, 1, 2),
        lambda t: init.constant_(t, 3),
        init.ones_,
        init.zeros_,
        init.xavier_uniform_,
        lambda t: init.xavier_normal_(t, gain=2),
        init.kaiming_uniform_,
        lambda t: init.kaiming_uniform_(t, a=0.2, mode="fan_out"),
        lambda t: init.kaiming_normal_(t, nonlinearity="relu"),
        init.trunc_normal_,
        lambda t: init.trunc_normal_(t, 0.5, 3.0, -1, 1),
        lambda t: init.trunc_normal_(t, 5.0, 1.0, -1, 1),
    ):
        for shape in ((3, 5), (20, 30), (7, 4, 3)):
            for dtype in (lib.float32, lib.float64):
                t = lib.nn.Parameter(lib.empty(shape, dtype=dtype))
                yield seeded(lib, lambda: call(t)) is t, t, t.requires_grad  # noqa: B023
    for shape in ((3, 5), (20, 30), (7, 4, 3)):
        t = lib.empty(shape, dtype=lib.float64)
        yield seeded(lib, lambda: init.orthogonal_(t, gain=2))  # noqa: B023
    for call in (init.eye_, lambda t: init.sparse_(t, 0.4)):
        yield seeded(lib, lambda: call(lib.empty(5, 4)))  # noqa: B023
    for shape in ((4, 2, 3), (3, 4, 3, 3), (4, 2, 3, 3, 2)):
        yield init.dirac_(lib.empty(shape))
    yield init.dirac_(lib.empty(4, 2, 3), groups=2), told(init.dirac_, lib.empty(3, 3, 3), 2)
    generator = lib.Generator()
    generator.manual_seed(7)
    yield init.uniform_(lib.empty(3), generator=generator)
    yield [
        init.calculate_gain(name)
        for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu")
    ]
    yield init.calculate_gain("leaky_relu", 0.3), told(init.calculate_gain, "nope")
    yield told(init.calculate_gain, "leaky_relu", True), told(init.xavier_uniform_, lib.ones(2))
    yield told(init.kaiming_uniform_, lib.ones(2, 2), mode="up"), told(init.eye_, lib.ones(2))
    yield (
        told(init.orthogonal_, lib.ones(2)),
        told(init.dirac_, lib.ones(2)),
        init.kaiming_normal_(lib.empty(0, 3)),
    )
    yield seeded(lib, lambda: init.uniform(lib.empty(2))), init.constant(lib.empty(2), 2)
    yield seeded(lib, lambda: init.xavier_normal(lib.empty(2, 2)))


@scenarios
def clipping(lib: Any) -> Iterator[Any]:
    utils = lib.nn.utils

    def fresh() -> list[Any]:
        ps = [lib.nn.Parameter(lib.zeros(2)), lib.nn.Parameter(lib.zeros(2, 2)), None]
        ps[2] = lib.nn.Parameter(lib.zeros(1))
        ps[0].grad = lib.tensor([3.0, 4.0])
        ps[1].grad = lib.tensor([[1.0, -2.0], [0.5, 12.0]])
        return ps

    for norm in (1, 2.0, 3, float("inf"), "inf"):
        ps = fresh()
        yield utils.clip_grad_norm_(ps, 1.5, norm), [p.grad for p in ps[:2]]
    ps = fresh()
    yield utils.clip_grad_norm_(ps[0], 100.0, foreach=False), ps[0].grad
    ps[0].grad = lib.tensor([float("nan"), 1.0])
    yield told(utils.clip_grad_norm_, ps, 1.0, error_if_nonfinite=True)
    yield utils.clip_grad_norm_(ps, 1.0), ps[1].grad
    yield utils.clip_grad_norm_([], 1.0), utils.clip_grad_norm_(iter([]), 1.0)
    ps = fresh()
    yield utils.clip_grad_value_(ps, 1.5), [p.grad for p in ps[:2]]
    yield utils.get_total_norm([lib.ones(3), lib.ones(1)]), utils.get_total_norm(lib.ones(4), 1)
    utils.clip_grads_with_norm_(ps, 1.0, lib.tensor(4.0))
    yield [p.grad for p in ps[:2]], utils.clip_grad_norm(ps, 0.1)


@scenarios
def vectors(lib: Any) -> Iterator[Any]:
    utils = lib.nn.utils
    layer = seeded(lib, lambda: lib.nn.Linear(2, 3))
    vector = utils.parameters_to_vector(layer.parameters())
    yield vector, vector.requires_grad
    weight = layer.weight
    utils.vector_to_parameters(lib.arange(9.0), layer.parameters())
    yield state(layer), layer.weight is weight, told(utils.vector_to_parameters, 3, [])


def linear(lib: Any, inputs: int, outputs: int) -> Any:
    return lib.nn.Linear(inputs, outputs, dtype=lib.float64)


def trained(lib: Any, layer: Any, steps: int = 3) -> Iterator[Any]:
    x = lib.arange(12, dtype=lib.float64).reshape(4, 3) / 7 - 1
    for _ in range(steps):
        y = layer(x)
        layer.zero_grad()
        (y * y).sum().backward()
        with lib.no_grad():
            for p in layer.parameters():
                p.sub_(p.grad * 0.05)
        yield y, [p.grad for p in layer.parameters()]
    layer.eval()
    yield layer(x), state(layer), [n for n, _ in layer.named_parameters()]


@scenarios
def old_weight_norm(lib: Any) -> Iterator[Any]:
    utils = lib.nn.utils
    for dim in (0, 1, None):
        layer = seeded(lib, lambda: linear(lib, 3, 2))
        utils.weight_norm(layer, dim=dim)
        yield repr(layer), told(utils.weight_norm, layer)
        yield list(trained(lib, layer))
        utils.remove_weight_norm(layer)
        yield state(layer), told(utils.remove_weight_norm, layer)


@scenarios
def old_spectral_norm(lib: Any) -> Iterator[Any]:
    utils = lib.nn.utils
    layer = seeded(lib, lambda: utils.spectral_norm(linear(lib, 3, 2), n_power_iterations=2))
    yield repr(layer), dict(layer.state_dict()._metadata), told(utils.spectral_norm, layer)
    yield list(trained(lib, layer))
    utils.remove_spectral_norm(layer)
    yield state(layer), dict(layer.state_dict()._metadata)
    yield told(utils.remove_spectral_norm, layer)
    yield told(utils.spectral_norm, linear(lib, 3, 2), n_power_iterations=0)


@scenarios
def parametrizations(lib: Any) -> Iterator[Any]:
    p, parametrize = lib.nn.utils.parametrizations, lib.nn.utils.parametrize
    for make in (
        lambda: p.weight_norm(linear(lib, 3, 2)),
        lambda: p.weight_norm(linear(lib, 3, 2), dim=None),
        lambda: p.spectral_norm(linear(lib, 3, 2)),
        lambda: p.orthogonal(linear(lib, 3, 3)),
        lambda: p.orthogonal(linear(lib, 3, 2)),
        lambda: p.orthogonal(linear(lib, 3, 2), orthogonal_map="cayley"),
        lambda: p.orthogonal(linear(lib, 3, 2), use_trivialization=False),
        lambda: p.orthogonal(linear(lib, 3, 3), use_trivialization=False, orthogonal_map="cayley"),
    ):
        layer = seeded(lib, make)
        yield repr(layer), state(layer), parametrize.is_parametrized(layer, "weight")
        yield list(trained(lib, layer))
        twin = copy.deepcopy(layer)
        yield parametrize.type_before_parametrizations(layer).__name__
        parametrize.remove_parametrizations(layer, "weight")
        yield repr(layer), state(layer), told(pickle.dumps, twin)[:90], state(twin)
    yield told(p.orthogonal, linear(lib, 3, 2), orthogonal_map="nope")
    yield told(p.orthogonal, linear(lib, 3, 2), "bias"), told(p.orthogonal, lib.nn.Flatten())
    yield told(p.spectral_norm, linear(lib, 3, 2), dim=2)
    old = lib.nn.utils.weight_norm(seeded(lib, lambda: linear(lib, 3, 2)))
    new = p.weight_norm(linear(lib, 3, 2))
    yield repr(new.load_state_dict(old.state_dict())), state(new)


@scenarios
def own_parametrizations(lib: Any) -> Iterator[Any]:
    parametrize = lib.nn.utils.parametrize

    class Symmetric(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).mT

        def right_inverse(self, a: Any) -> Any:
            return a.triu()

    class Exp(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.exp()

        def right_inverse(self, x: Any) -> Any:
            return x.log()

    class Pruned(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:1]

    layer = seeded(lib, lambda: linear(lib, 3, 3))
    parametrize.register_parametrization(layer, "weight", Symmetric())
    yield repr(layer), state(layer), layer.weight
    layer.weight = lib.eye(3, dtype=lib.float64)
    yield layer.weight, state(layer)
    with parametrize.cached():
        yield layer.weight is layer.weight
    parametrize.register_parametrization(layer, "weight", Exp())
    yield repr(layer), list(trained(lib, layer))
    yield told(parametrize.register_parametrization, layer, "weight", Pruned())[:80]
    yield told(parametrize.register_parametrization, layer, "bias", Pruned())[:80]
    yield told(parametrize.register_parametrization, layer, "nope", Pruned())[:60]
    parametrize.register_parametrization(layer, "bias", Pruned(), unsafe=True)
    yield layer.bias, told(setattr, layer, "bias", lib.ones(3, dtype=lib.float64))
    parametrize.remove_parametrizations(layer, "bias", leave_parametrized=False)
    yield repr(layer), state(layer), parametrize.is_parametrized(layer, "bias")
    other = linear(lib, 3, 3)
    parametrize.transfer_parametrizations_and_params(layer, other)
    yield state(other), [n for n, _ in other.named_parameters()]
    yield told(parametrize.remove_parametrizations, layer, "bias")[:20]


@scenarios
def pruning(lib: Any) -> Iterator[Any]:
    prune = lib.nn.utils.prune

    def fresh() -> Any:
        return seeded(lib, lambda: linear(lib, 3, 4))

    for apply in (
        lambda m: prune.l1_unstructured(m, "weight", 0.4),
        lambda m: prune.l1_unstructured(m, "bias", 2),
        lambda m: prune.l1_unstructured(m, "bias", 1, importance_scores=lib.arange(4.0)),
        lambda m: prune.random_unstructured(m, "weight", 5),
        lambda m: prune.ln_structured(m, "weight", 0.5, n=2, dim=0),
        lambda m: prune.ln_structured(m, "weight", 1, n=1, dim=-1),
        lambda m: prune.random_structured(m, "weight", 2, dim=0),
        lambda m: prune.custom_from_mask(m, "bias", lib.tensor([1, 0, 0, 1])),
        lambda m: prune.identity(m, "bias"),
        lambda m: prune.l1_unstructured(prune.ln_structured(m, "weight", 1, 2, 0), "weight", 3),
        lambda m: prune.ln_structured(prune.l1_unstructured(m, "weight", 3), "weight", 1, 2, 1),
    ):
        layer = fresh()
        lib.manual_seed(3)
        yield prune.is_pruned(layer), apply(layer) is layer, prune.is_pruned(layer)
        yield state(layer), list(trained(lib, layer))
        name = "weight" if "weight_mask" in layer._buffers else "bias"
        prune.remove(layer, name)
        yield state(layer), told(prune.remove, layer, name), prune.is_pruned(layer)
    net = lib.nn.Sequential(fresh(), linear(lib, 4, 2))
    pairs = [(net[0], "weight"), (net[0], "bias")]
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.5)
    yield state(net[0])
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=2)
    yield state(net[0])
    yield told(prune.l1_unstructured, fresh(), "weight", -1)
    yield told(prune.l1_unstructured, fresh(), "weight", 1.5)
    yield told(prune.l1_unstructured, fresh(), "weight", "x")
    yield told(prune.l1_unstructured, fresh(), "weight", 100)
    yield told(prune.ln_structured, fresh(), "bias", 1, 2, 0)
    yield told(prune.ln_structured, fresh(), "weight", 1, 2, 5)
    yield told(prune.global_unstructured, pairs, prune.LnStructured, amount=1, n=2)[:60]
    yield prune.L1Unstructured(2).prune(lib.tensor([1.0, -3.0, 2.0, 0.5]))


@scenarios
def functional_calls(lib: Any) -> Iterator[Any]:
    call = lib.nn.utils.stateless.functional_call
    layer = seeded(lib, lambda: lib.nn.Linear(2, 2))
    x, w = lib.ones(1, 2), lib.full((2, 2), 2.0, requires_grad=True)
    y = call(layer, {"weight": w}, (x,))
    y.sum().backward()
    yield y, w.grad, layer.weight.grad is None, state(layer)
    yield call(layer, {"weight": w, "bias": lib.zeros(2)}, x, strict=True)
    yield told(call, layer, {"weight": w}, x, strict=True)
    yield told(call, layer, {"weight": w, "bias": w, "z": w}, x, strict=True)
    yield told(call, layer, {"nope.weight": w}, x)
    tied = lib.nn.Sequential(layer, lib.nn.Linear(2, 2))
    tied[1].weight = layer.weight
    yield call(tied, {"0.weight": w}, x), call(tied, {"0.weight": w}, x, tie_weights=False)
    yield told(call, tied, {"0.weight": w, "1.weight": w * 2}, x)

    class Counts(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", lib.zeros(1))

        def forward(self, x: Any, by: float = 1) -> Any:
            self.n = self.n + by
            return x * self.n

    yield call(layer, {"weight": w, "unknown": lib.ones(1)}, x), hasattr(layer, "unknown")
    counts, given = Counts(), {"n": lib.full((1,), 5.0)}
    yield call(counts, given, (x,), {"by": 2}), counts.n, given["n"]


@scenarios
def data_parallel(lib: Any) -> Iterator[Any]:
    layer = seeded(lib, lambda: lib.nn.Linear(2, 2))
    net = lib.nn.DataParallel(layer)
    yield repr(net), net(lib.ones(1, 2)), list(net.state_dict()), net.module is layer
    saved = net.state_dict()
    lib.nn.modules.utils.consume_prefix_in_state_dict_if_present(saved, "module.")
    yield list(saved), dict(saved._metadata), repr(layer.load_state_dict(saved))


@scenarios
def fusions(lib: Any) -> Iterator[Any]:
    nn, utils = lib.nn, lib.nn.utils
    for layer, norm, x, fuse in (
        (
            lambda: nn.Conv2d(2, 3, 3),
            lambda: nn.BatchNorm2d(3),
            lib.ones(1, 2, 5, 5, dtype=lib.float64),
            utils.fuse_conv_bn_eval,
        ),
        (
            lambda: nn.ConvTranspose2d(2, 3, 3, bias=False),
            lambda: nn.BatchNorm2d(3, affine=False),
            lib.ones(1, 2, 5, 5, dtype=lib.float64),
            lambda a, b: utils.fuse_conv_bn_eval(a, b, transpose=True),
        ),
        (
            lambda: nn.Linear(2, 3),
            lambda: nn.BatchNorm1d(3),
            lib.ones(4, 2, dtype=lib.float64),
            utils.fuse_linear_bn_eval,
        ),
    ):
        a, b = seeded(lib, layer).double(), norm().double()
        b(a(x * lib.arange(x.shape[-1], dtype=lib.float64)))
        yield told(fuse, a, b)
        fused = fuse(a.eval(), b.eval())
        yield fused(x), b(a(x)), state(fused), [p.requires_grad for p in fused.parameters()]
    yield told(utils.fuse_linear_bn_eval, nn.Linear(2, 3).eval(), nn.BatchNorm1d(2).eval())


@scenarios
def memory_formats(lib: Any) -> Iterator[Any]:
    net = lib.nn.Sequential(lib.nn.Conv2d(3, 4, 3), lib.nn.Linear(2, 2))
    kept = net[0].weight
    lib.nn.utils.convert_conv2d_weight_memory_format(net, lib.channels_last)
    yield net[0].weight.stride(), net[0].weight is kept
    net = lib.nn.ConvTranspose3d(3, 4, 3)
    lib.nn.utils.convert_conv3d_weight_memory_format(net, lib.channels_last_3d)
    yield net.weight.stride()


@scenarios
def transposed_spectral_norm(lib: Any) -> Iterator[Any]:
    utils = lib.nn.utils
    for norm in (utils.spectral_norm, utils.parametrizations.spectral_norm):
        layer = seeded(lib, lambda: norm(lib.nn.ConvTranspose1d(2, 3, 2, dtype=lib.float64)))  # noqa: B023
        yield layer(lib.ones(1, 2, 4, dtype=lib.float64)), state(layer)


@scenarios
def sizes(lib: Any) -> Iterator[Any]:
    u = lib.nn.modules.utils
    yield u._single(2), u._pair(2), u._triple((1, 2, 3)), u._ntuple(5)(0), u._quadruple(1)
    yield (
        u._pair([3, 4]),
        u._reverse_repeat_tuple((1, 2), 2),
        u._list_with_default([None, 3], [7, 8, 9]),
    )


@pytest.mark.parametrize("body", scenarios)
def test_scenario(body: Body) -> None:
    compare(body)
