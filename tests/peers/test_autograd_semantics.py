"""The backward engine in PyTorch and here: graphs, gradients, hooks, modes and errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.scenarios import Body, Scenarios, attempt, compare

scenarios = Scenarios()
V = [0.5, -1.5, 2.0]


def leaf(lib: Any, values: Any = V) -> Any:
    return lib.tensor(values, dtype=lib.float64, requires_grad=True)


@scenarios
def retain_graph(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    yield x.grad, attempt(y.backward), x.grad
    y = (x + 1).sum()
    y.backward()
    yield attempt(y.backward), x.grad
    y = x.exp().sum()
    lib.autograd.grad(y, x, retain_graph=True)
    lib.autograd.grad(y, x)
    yield attempt(lib.autograd.grad, y, x)


@scenarios
def partial_graphs_after_backward(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    shared = x.exp()
    a, b = (shared * 2).sum(), (shared * shared).sum()
    a.backward()
    yield attempt(b.backward), x.grad


@scenarios
def third_order(lib: Any) -> Iterator[Any]:
    x, w = leaf(lib), leaf(lib, [1.0, 2.0, 3.0])
    y = (x.sin() * w * x).sum()
    for _ in range(3):
        gx, gw = lib.autograd.grad(y, [x, w], create_graph=True, allow_unused=True)
        yield gx, gw, gx.requires_grad
        y = (gx * gx).sum() + gx.sum()


@scenarios
def create_graph_in_backward(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    (x**3).sum().backward(create_graph=True)
    yield x.grad, x.grad.requires_grad
    first = x.grad
    x.grad = None
    first.sum().backward()
    yield x.grad, x.grad.requires_grad
    (x**2).sum().backward(create_graph=True)
    yield x.grad, x.grad.requires_grad
    (x**2).sum().backward()
    yield x.grad, x.grad.requires_grad


@scenarios
def gradient_penalty(lib: Any) -> Iterator[Any]:
    x, w = leaf(lib), leaf(lib, [[1.0, 2.0, 3.0], [0.5, 0.25, -1.0]])
    y = (w @ x).tanh().sum()
    (g,) = lib.autograd.grad(y, x, create_graph=True)
    (y + (g**2).sum()).backward()
    yield x.grad, w.grad


@scenarios
def accumulation_keeps_the_tensor(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    yield x.grad is first, first, first._version
    x.grad = None
    (x * 3).sum().backward()
    yield x.grad, first


@scenarios
def gradients_do_not_share_memory(lib: Any) -> Iterator[Any]:
    x, y = leaf(lib), leaf(lib)
    (x + y).sum().backward()
    x.grad.add_(100)
    yield x.grad, y.grad
    x, y = leaf(lib), leaf(lib)
    seed = lib.ones(3, dtype=lib.float64)
    (x + y).backward(seed)
    x.grad.add_(100)
    yield x.grad, y.grad, seed
    x = leaf(lib)
    x.backward(seed)
    x.grad.add_(100)
    yield x.grad, seed
    x = leaf(lib)
    x.expand(2, 3).backward(lib.ones(2, 3, dtype=lib.float64))
    yield x.grad, x.grad.is_contiguous()
    x = leaf(lib, [[1.0, 2.0], [3.0, 4.0]])
    (x.t() * lib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lib.float64)).sum().backward()
    yield x.grad, x.grad.is_contiguous()
    x = leaf(lib)
    x.sum().backward()
    x.grad.add_(1)
    yield x.grad


@scenarios
def gradient_of_an_operand_that_is_saved(lib: Any) -> Iterator[Any]:
    x, w = leaf(lib), lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64)
    (x * w).backward(lib.ones(3, dtype=lib.float64))
    x.grad.add_(100)
    yield w, x.grad


@scenarios
def grad_arguments(lib: Any) -> Iterator[Any]:
    x, w, unused = leaf(lib), leaf(lib), leaf(lib)
    y = x * w
    grad = lib.autograd.grad
    yield attempt(grad, y.sum(), [x, unused])
    yield grad((x * w).sum(), [x, unused], allow_unused=True)
    yield grad((x * w).sum(), [x, unused], materialize_grads=True)
    yield attempt(grad, y.sum(), [x, unused], materialize_grads=True, allow_unused=False)
    yield attempt(grad, y, x), attempt(grad, y, x, lib.ones(2, dtype=lib.float64))
    yield attempt(grad, y.sum(), lib.ones(2)), attempt(grad, lib.ones(()), x)
    y = x * w
    yield grad([y, y * 2], [x, w], [lib.ones(3, dtype=lib.float64)] * 2, retain_graph=True)
    yield grad(y, [x, x], lib.ones(3, dtype=lib.float64), retain_graph=True)
    yield attempt(grad, [y], [x], [None]), attempt(grad, y.sum(), [])
    yield x.grad, w.grad
    yield grad(x.sum(), x), grad([x.sum()], [x]), grad((x.sum(),), x)
    yield attempt(grad, [x.sum(), w.sum()], x, allow_unused=True)
    yield attempt(grad, x, x, lib.ones(3, dtype=lib.float64))
    yield attempt(grad, y.sum(), x, lib.ones((), dtype=lib.float32))


@scenarios
def batched_gradients(lib: Any) -> Iterator[Any]:
    x, w, unused = leaf(lib), leaf(lib), leaf(lib)
    seeds = lib.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 1.0]], dtype=lib.float64)
    y = (x * w).sin()
    grad = lib.autograd.grad
    yield grad(y, [x, w], seeds, is_grads_batched=True, retain_graph=True)
    g = grad(y, x, seeds, is_grads_batched=True, create_graph=True)[0]
    yield g.shape[0], grad(g.sum(), w)
    y = x * x
    yield grad(y, [x, unused], seeds, is_grads_batched=True, allow_unused=True)


@scenarios
def gradients_of_intermediate_values(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2
    z = y.exp()
    out = (z * y).sum()
    yield lib.autograd.grad(out, [y, z], retain_graph=True)
    yield lib.autograd.grad(out, [z, x], retain_graph=True)
    yield lib.autograd.grad(out, out), x.grad
    out.backward(inputs=[y, x])
    yield y.grad, x.grad, z.grad


@scenarios
def backward_arguments(lib: Any) -> Iterator[Any]:
    x, w = leaf(lib), leaf(lib)
    y = x * w
    yield attempt(y.backward), attempt(y.backward, lib.ones(2, dtype=lib.float64))
    y.backward(lib.ones(3, dtype=lib.float64), inputs=[x], retain_graph=True)
    yield x.grad, w.grad
    y.sum().backward(inputs=w)
    yield x.grad, w.grad, attempt((x * w).sum().backward, inputs=[])
    yield attempt(lib.ones(()).backward)
    lib.autograd.backward([x.sum(), (2 * w).sum()], [None, None])
    yield x.grad, w.grad
    lib.autograd.backward((x * w, x.sum()), (lib.ones(3, dtype=lib.float64), None))
    yield x.grad
    yield attempt((x > 0).backward), attempt(x.sum().backward, 3.0)
    one = leaf(lib, [[2.0]])
    one.backward()
    yield one.grad


@scenarios
def hooks_on_leaves(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    log: list[Any] = []
    first = x.register_hook(lambda g: log.append(("first", g.clone())))
    second = x.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: log.append(("third", g.clone())))
    (x * x + x).sum().backward()
    yield x.grad, log
    second.remove()
    first.remove()
    first.remove()
    log.clear()
    x.grad = None
    (x * x).sum().backward()
    yield x.grad, log
    log.clear()
    yield lib.autograd.grad((x * x).sum(), x), log
    yield attempt(lib.ones(3).register_hook, print)


@scenarios
def hooks_on_intermediate_values(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2
    log: list[Any] = []
    y.register_hook(lambda g: log.append(("a", g.clone())))
    handle = y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: log.append(("b", g.clone())))
    (y * y + y).sum().backward(retain_graph=True)
    yield x.grad, log
    handle.remove()
    log.clear()
    x.grad = None
    (y * 3).sum().backward()
    yield x.grad, log
    with (x * 2).register_hook(print):
        pass


@scenarios
def hooks_see_the_whole_gradient_once(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2
    log: list[Any] = []
    y.register_hook(lambda g: log.append(g.clone()))
    total = y.sum()
    for _ in range(3):
        total = total + (y * total).sum()
    total.backward()
    yield log, x.grad


@scenarios
def hooks_and_in_place(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2
    log: list[Any] = []
    y.register_hook(lambda g: log.append(("before", g.clone())))
    y.mul_(3)
    y.register_hook(lambda g: log.append(("after", g.clone())))
    (y * y).sum().backward()
    yield log, x.grad


@scenarios
def hook_answers(lib: Any) -> Iterator[Any]:
    for answer in (lambda g: g.sum(), lambda g: 3, lambda g: "text", lambda g: g.float()):
        x = leaf(lib)
        x.register_hook(answer)
        leaf_error = attempt((x * 2).sum().backward)
        x = leaf(lib)
        y = x * 2
        y.register_hook(answer)
        yield type(leaf_error).__name__, type(attempt((y * 2).sum().backward)).__name__


@scenarios
def hooks_that_raise(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2

    def fail(g: Any) -> None:
        raise KeyError("hook")

    handle = y.register_hook(fail)
    yield attempt((y * y).sum().backward), lib.is_grad_enabled(), x.grad
    handle.remove()
    (x * x).sum().backward()
    yield x.grad
    x.register_hook(fail)
    yield attempt((x * x).sum().backward), x.grad


@scenarios
def retain_grad(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2
    yield y.retains_grad, x.retains_grad, y.grad
    y.retain_grad()
    y.retain_grad()
    x.retain_grad()
    yield y.retains_grad, x.retains_grad
    z = (y * y).sum()
    z.backward(retain_graph=True)
    yield y.grad, x.grad
    z.backward()
    yield y.grad, x.grad
    yield attempt(lib.ones(3).retain_grad)


@scenarios
def retain_grad_and_hooks(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.register_hook(lambda g: g + 1)
    (y * y).sum().backward()
    yield y.grad, x.grad


@scenarios
def retain_grad_and_in_place(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    yield y.retains_grad
    y.sum().backward()
    yield y.grad, x.grad


@scenarios
def retained_gradients_are_their_own(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2
    y.retain_grad()
    z = y + 0
    z.retain_grad()
    z.sum().backward()
    y.grad.add_(5)
    yield y.grad, z.grad, x.grad


@scenarios
def retain_grad_of_a_view(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    v = (x * 2).view(3, 1)
    v.retain_grad()
    yield v.retains_grad
    (v * v).sum().backward()
    yield v.grad, x.grad


@scenarios
def retain_grad_with_create_graph(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * x
    y.retain_grad()
    (y * y).sum().backward(create_graph=True)
    yield y.grad, y.grad.requires_grad


@scenarios
def post_accumulate_hooks(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    log: list[Any] = []
    handle = x.register_post_accumulate_grad_hook(lambda t: log.append((t is x, t.grad.clone())))
    x.register_hook(lambda g: log.append(("hook", g.clone())))
    (x * x).sum().backward()
    (x * x).sum().backward()
    yield log
    handle.remove()
    (x * x).sum().backward()
    yield len(log), lib.autograd.grad(x.sum(), x), len(log)

    def step(t: Any) -> None:
        with lib.no_grad():
            t -= t.grad
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    x.sum().backward()
    yield x, x.grad
    yield attempt((x * 2).register_post_accumulate_grad_hook, step)
    yield attempt(lib.ones(2).register_post_accumulate_grad_hook, step)


@scenarios
def node_hooks(lib: Any) -> Iterator[Any]:
    x, w = leaf(lib), leaf(lib)
    y = x * w
    log: list[Any] = []
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_hook(lambda inputs, outputs: log.append((inputs, outputs)))
    handle = y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0], inputs[1] + 1))
    y.sum().backward(retain_graph=True)
    yield x.grad, w.grad, log
    handle.remove()
    y.sum().backward()
    yield x.grad, w.grad


@scenarios
def order_of_hooks_on_tensor_and_node(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2
    log: list[Any] = []
    y.grad_fn.register_prehook(lambda grads: log.append("node"))
    y.register_hook(lambda g: log.append("tensor"))
    y.grad_fn.register_prehook(lambda grads: log.append("node again"))
    y.register_hook(lambda g: log.append("tensor again"))
    y.sum().backward()
    yield log


@scenarios
def order_of_nodes(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    log: list[Any] = []
    a = x * 2
    b = x * 3
    c = a + b
    d = c * a
    for name, t in {"a": a, "b": b, "c": c, "d": d, "x": x}.items():
        t.register_hook(lambda g, name=name: log.append(name))
    d.sum().backward()
    yield log


@scenarios
def the_graph(lib: Any) -> Iterator[Any]:
    x, w = leaf(lib), leaf(lib)
    y = (x * w + 1).exp().sum()
    node, names = y.grad_fn, []
    while node is not None:
        names.append((type(node).__name__, len(node.next_functions)))
        node = node.next_functions[0][0] if node.next_functions else None
    yield names
    product = (x * w).grad_fn
    (first, _), (second, _) = product.next_functions
    yield first.variable is x, second.variable is w
    yield [t.grad_fn is None for t in (x, x.detach(), lib.ones(2))]
    yield (x * lib.ones(3, dtype=lib.float64)).grad_fn.next_functions[1][0]


@scenarios
def hooks_on_several_tensors(lib: Any) -> Iterator[Any]:
    register = lib.autograd.graph.register_multi_grad_hook
    x, w, unused = leaf(lib), leaf(lib), leaf(lib)
    y, z = x * w, x + w
    log: list[Any] = []
    handle = register([x, y, unused, z], lambda grads: log.append(("all", list(grads))))
    register([y, z], lambda g: log.append(("any", g.clone())), mode="any")
    (y * 2).sum().backward(retain_graph=True)
    yield log
    log.clear()
    (y * z).sum().backward(retain_graph=True)
    yield log
    handle.remove()
    log.clear()
    (y * z).sum().backward()
    yield log, attempt(register, [x], print, mode="some")


@scenarios
def backward_inside_a_hook(lib: Any) -> Iterator[Any]:
    x, w = leaf(lib), leaf(lib)
    y = x * 2

    def again(g: Any) -> None:
        with lib.enable_grad():
            (w * w).sum().backward()

    y.register_hook(again)
    (y * y).sum().backward()
    yield x.grad, w.grad, lib.is_grad_enabled()


@scenarios
def the_same_leaf_inside_a_hook(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2

    def again(g: Any) -> None:
        with lib.enable_grad():
            (x * 100).sum().backward()

    y.register_hook(again)
    (y * y).sum().backward()
    yield x.grad


@scenarios
def grad_mode_inside_hooks(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 2
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append((lib.is_grad_enabled(), g.requires_grad)))
    (y * y).sum().backward(retain_graph=True)
    with lib.no_grad():
        lib.autograd.grad((y * 1).sum(), x) if (y * 1).requires_grad else None
    lib.autograd.grad((y * y).sum(), x, create_graph=True)
    yield seen


@scenarios
def backward_inside_no_grad(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = (x * x).sum()
    with lib.no_grad():
        y.backward(retain_graph=True)
        yield x.grad
        (g,) = lib.autograd.grad(y, x, create_graph=True)
    yield g, g.requires_grad


@scenarios
def modes(lib: Any) -> Iterator[Any]:
    on = lib.is_grad_enabled
    x = leaf(lib)
    seen = [on()]
    with lib.no_grad():
        seen.append((on(), (x * 2).requires_grad))
        with lib.enable_grad():
            seen.append((on(), (x * 2).requires_grad))
            with lib.set_grad_enabled(False):
                seen.append(on())
            seen.append(on())
        seen.append(on())
    seen.append(on())
    lib.set_grad_enabled(False)
    seen.append(on())
    lib.set_grad_enabled(True)
    with lib.inference_mode():
        seen.append((on(), lib.is_inference_mode_enabled(), (x * 2).requires_grad))
        with lib.inference_mode(False):
            seen.append((on(), lib.is_inference_mode_enabled()))
    with lib.inference_mode(mode=False):
        seen.append((on(), lib.is_inference_mode_enabled()))
    yield [*seen, on()]


@scenarios
def modes_and_exceptions(lib: Any) -> Iterator[Any]:
    seen = []
    for make in (lib.no_grad, lib.inference_mode, lambda: lib.set_grad_enabled(False)):
        try:
            with make():
                raise KeyError
        except KeyError:
            seen.append(lib.is_grad_enabled())
    yield seen


@scenarios
def modes_as_decorators(lib: Any) -> Iterator[Any]:
    def body(a: int, b: int = 2) -> Any:
        """Says what it sees."""
        return a, b, lib.is_grad_enabled()

    def fails() -> None:
        raise KeyError

    for make in (
        lib.no_grad,
        lib.enable_grad,
        lib.inference_mode,
        lambda: lib.set_grad_enabled(False),
    ):
        wrapped = make()(body)
        yield wrapped(1, b=5), wrapped.__name__, wrapped.__doc__, lib.is_grad_enabled()
        yield attempt(make()(fails)), lib.is_grad_enabled()
    yield lib.no_grad(body)(1), lib.inference_mode(body)(3)

    @lib.no_grad()
    def recursive(depth: int) -> list[bool]:
        return [lib.is_grad_enabled(), *(recursive(depth - 1) if depth else [])]

    yield recursive(3), lib.is_grad_enabled()

    class Model:
        @lib.no_grad()
        def method(self) -> bool:
            return lib.is_grad_enabled()

        @staticmethod
        @lib.inference_mode()
        def static() -> bool:
            return lib.is_grad_enabled()

    yield Model().method(), Model.static()


@scenarios
def modes_and_generators(lib: Any) -> Iterator[Any]:
    on, seen = lib.is_grad_enabled, []

    @lib.no_grad()
    def numbers() -> Any:
        try:
            while True:
                try:
                    seen.append(("inside", on()))
                    got = yield len(seen)
                    seen.append(("got", got, on()))
                except KeyError:
                    seen.append(("caught", on()))
        finally:
            seen.append(("closed", on()))

    generator = numbers()
    next(generator)
    seen.append(("outside", on()))
    generator.send("hello")
    generator.throw(KeyError("x"))
    generator.close()
    yield seen, on()

    @lib.no_grad()
    def ends() -> Any:
        yield 1
        return "value"

    generator = ends()
    next(generator)
    try:
        next(generator)
    except StopIteration as stop:
        yield stop.value
    for item in ends():
        yield item, on()
        break
    yield on()


@scenarios
def modes_are_per_thread(lib: Any) -> Iterator[Any]:
    seen = []
    with lib.no_grad():
        thread = threading.Thread(target=lambda: seen.append(lib.is_grad_enabled()))
        thread.start()
        thread.join()
        seen.append(lib.is_grad_enabled())

    def turn_off() -> None:
        lib.set_grad_enabled(False)

    thread = threading.Thread(target=turn_off)
    thread.start()
    thread.join()
    yield seen, lib.is_grad_enabled()


@scenarios
def leaves_and_flags(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    plain = lib.ones(3, dtype=lib.float64)

    def flags(t: Any) -> Any:
        return t.requires_grad, t.is_leaf, t.grad_fn is None, t._version

    yield flags(x), flags(plain), flags(x * 2), flags(plain * 2), flags(x.detach())
    yield flags((x * 2).detach()), flags(x.view(3, 1)), flags(plain.view(3, 1)), flags(x.data)
    with lib.no_grad():
        yield flags(x * 2)
    yield flags(plain.requires_grad_()), flags(plain.requires_grad_(False))
    yield attempt((x * 2).requires_grad_, False), flags((x * 2).requires_grad_())
    yield attempt(lib.ones(2, dtype=lib.int64).requires_grad_)
    y = x * 2
    yield flags(y.detach_()), attempt(x.view(3, 1).detach_), flags(leaf(lib).detach_())
    t = lib.ones(3, dtype=lib.float64)
    v = t.view(3, 1)
    t.requires_grad_()
    yield flags(v), flags(t), flags(t.view(3, 1))
    d = x.detach()
    d.requires_grad_()
    (d * 2).sum().backward()
    yield d.grad, x.grad


@scenarios
def assigning_grad(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    for value in (lib.ones(2, dtype=lib.float64), lib.ones(3), 3.0, x):
        yield attempt(setattr, x, "grad", value)
    x.grad = lib.ones(3, dtype=lib.float64)
    (x * 2).sum().backward()
    yield x.grad
    del x.grad
    yield x.grad
    y = x * 2
    yield y.grad


@scenarios
def assigning_data(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * x
    x.data.mul_(10)
    y.sum().backward()
    yield x, x.grad, x._version
    x = leaf(lib)
    x.data = lib.tensor([1.0, 1.0], dtype=lib.float64)
    (x * 3).sum().backward()
    yield x, x.grad, x.requires_grad


@scenarios
def versions(lib: Any) -> Iterator[Any]:
    x = lib.ones(3, dtype=lib.float64)
    seen = [x._version]
    x.add_(1)
    v = x.view(3, 1)
    seen += [x._version, v._version]
    v.mul_(2)
    seen += [x._version, v._version]
    d = x.detach()
    d.zero_()
    seen += [x._version, d._version]
    x[0] = 5
    seen += [x._version, v._version]
    with lib.no_grad():
        x += 1
    x.data.add_(1)
    seen += [x._version, x.clone()._version]
    x.copy_(lib.zeros(3))
    x.fill_(3)
    lib.add(x, 1, out=x)
    yield [*seen, x._version]


@scenarios
def written_after_being_saved(lib: Any) -> Iterator[Any]:
    w = leaf(lib)
    x = w * 1
    cases = {
        "operand": lambda: (x * x, x),
        "result": lambda: (lambda y: (y, y))(x.exp()),
        "not needed": lambda: (x + 1, x),
        "view of operand": lambda: (x * x, x.view(3, 1)),
        "detached": lambda: (x * x, x.detach()),
    }
    for name, make in cases.items():
        x = w * 1
        y, target = make()
        target.add_(1)
        yield name, attempt(y.sum().backward)
    x = w * 1
    y = x * x
    with lib.no_grad():
        x.zero_()
    yield attempt(y.sum().backward)
    const = lib.ones(3, dtype=lib.float64)
    y = w * const
    const.add_(1)
    yield attempt(y.sum().backward)
    y = w + const
    const.add_(1)
    yield attempt(y.sum().backward)


@scenarios
def writing_to_leaves(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    yield attempt(x.add_, 1), attempt(x.view(3, 1).add_, 1), attempt(x.__setitem__, 0, 1.0)
    with lib.no_grad():
        x.add_(1)
        x.view(3, 1).add_(1)
    x.detach().mul_(2)
    yield x, x._version, x.requires_grad, x.is_leaf
    x.sum().backward()
    yield x.grad
    with lib.no_grad():
        v = x.view(3)
    yield attempt(v.add_, 1)
    d = lib.ones(3, dtype=lib.float64)
    d.add_(x)
    yield d.requires_grad, d.is_leaf, d
    (d * d).sum().backward()
    yield x.grad


@scenarios
def views_made_without_recording(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * 1
    with lib.no_grad():
        v = y.view(3, 1)
    yield attempt(v.mul_, 2), attempt(v.mul_, x.view(3, 1))
    with lib.no_grad():
        v.mul_(3)
    yield y, y._version, v._version
    plain = lib.ones(3, dtype=lib.float64)
    with lib.no_grad():
        v = plain.view(3, 1)
    yield attempt(v.mul_, 2), plain
    yield type(attempt(v.mul_, x.view(3, 1))).__name__


@scenarios
def writes_through_views(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    out = lib.zeros(4, 3, dtype=lib.float64)
    h = x
    for t in range(4):
        h = (h * 2).tanh()
        out[t] = h
    (out * out).sum().backward()
    yield out, x.grad, out.requires_grad, out.is_leaf, type(out.grad_fn).__name__


@scenarios
def chains_of_views(lib: Any) -> Iterator[Any]:
    x = leaf(lib, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    base = x * 1
    row = base[0]
    part = row[1:]
    part.mul_(x[1, :2])
    yield base, row, part
    row.add_(1)
    yield part, part.requires_grad
    column = base.t()[1]
    column.mul_(column)
    yield attempt((base * row.sum() + part.sum()).sum().backward), x.grad
    base = x * 1
    base[0][1:].mul_(x[1, :2])
    base.t()[1].add_(base[:, 0])
    (base * base[1]).sum().backward()
    yield x.grad


@scenarios
def two_threads(lib: Any) -> Iterator[Any]:
    results: dict[int, Any] = {}

    def train(which: int) -> None:
        w = leaf(lib, [float(which + 1)] * 3)
        data = lib.tensor(V, dtype=lib.float64)
        for _ in range(50):
            loss = ((w * data).tanh() - 0.3).pow(2).sum()
            loss.backward()
            with lib.no_grad():
                w -= 0.1 * w.grad
                w.grad = None
        results[which] = w.detach()

    threads = [threading.Thread(target=train, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield results[0], results[1]


@scenarios
def one_graph_in_two_threads(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    y = x * x
    errors: list[Any] = []

    def run() -> None:
        errors.append(type(attempt(lib.autograd.grad, y.sum(), x, retain_graph=True)).__name__)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield errors


@scenarios
def anomaly_mode(lib: Any) -> Iterator[Any]:
    x = leaf(lib, [-1.0])
    with lib.autograd.detect_anomaly():
        error = attempt((x.sqrt() * 2).sum().backward)
        yield error, "SqrtBackward0" in str(error), "0th output" in str(error)
    with lib.autograd.detect_anomaly(check_nan=False):
        yield attempt((x.sqrt() * 2).sum().backward)
    with lib.autograd.set_detect_anomaly(False):
        yield attempt((x.sqrt() * 2).sum().backward)
    yield attempt((x.sqrt() * 2).sum().backward)


@scenarios
def inference_tensors(lib: Any) -> Iterator[Any]:
    x = leaf(lib)
    with lib.inference_mode():
        y = x * 2
    yield y.requires_grad, y.is_leaf, y.grad_fn is None
    yield y + 1


@scenarios
def complex_gradients(lib: Any) -> Iterator[Any]:
    z = lib.tensor([1 + 2j, 0.5 - 1j], dtype=lib.complex128, requires_grad=True)
    (z * z.conj()).real.sum().backward()
    yield z.grad, attempt((z * z).sum().backward)
    (z * z).sum().abs().backward()
    yield z.grad
    r = leaf(lib, [1.0, 2.0])
    (r * z).sum().real.backward()
    yield r.grad, z.grad


@scenarios
def gradients_have_the_dtype_of_the_leaf(lib: Any) -> Iterator[Any]:
    a = lib.ones(3, dtype=lib.float32, requires_grad=True)
    b = lib.ones(3, dtype=lib.float64, requires_grad=True)
    c = lib.ones((), dtype=lib.float64, requires_grad=True)
    (a * b + a.double() * 2 + c).sum().backward()
    yield a.grad, b.grad, c.grad
    h = lib.ones(3, dtype=lib.float16, requires_grad=True)
    (h.float() * 3).sum().backward()
    yield h.grad


@pytest.mark.parametrize("body", scenarios)
def test_the_engine_behaves_as_in_pytorch(body: Body) -> None:
    compare(body)
