"""Custom autograd functions in PyTorch and here: values, gradients, flags and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.scenarios import Body, Scenarios, attempt, compare

scenarios = Scenarios()
V = [0.5, -1.5, 2.0]


def leaf(lib: Any, values: Any = V) -> Any:
    return lib.tensor(values, dtype=lib.float64, requires_grad=True)


@scenarios
def saved_inputs_outputs_and_intermediates(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            middle = x.exp()
            y = middle * w
            ctx.save_for_backward(x, middle, y, w, None)
            return y

        @staticmethod
        def backward(ctx, g):
            x, middle, y, _, none = ctx.saved_tensors
            assert none is None
            return g * y * x, g * middle

    x, w = leaf(lib), leaf(lib, [1.0, 2.0, 3.0])
    y = F.apply(x, w)
    yield y, y.requires_grad, y.is_leaf, type(y.grad_fn).__name__, y.grad_fn.name()
    yield lib.autograd.grad(y.sum(), [x, w], retain_graph=True)
    y.sum().backward()
    yield x.grad, w.grad
    yield attempt(y.sum().backward)


@scenarios
def second_order_through_a_custom_backward(lib: Any) -> Iterator[Any]:
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    x = leaf(lib)
    (first,) = lib.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = lib.autograd.grad(second.sum(), x)
    yield first, second, third


@scenarios
def second_order_through_a_saved_output(lib: Any) -> Iterator[Any]:
    class Exp(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    x = leaf(lib)
    g = Exp.apply(x)
    for _ in range(3):
        (g,) = lib.autograd.grad(g.sum(), x, create_graph=True)
        yield g


@scenarios
def non_tensor_arguments(lib: Any) -> Iterator[Any]:
    seen = []

    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale, mode, none, items):
            seen.append(ctx.needs_input_grad)
            ctx.scale = scale
            return x * scale

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return g * ctx.scale, None, None, None, None

    x = leaf(lib)
    F.apply(x, 3, "mode", None, [1, 2]).sum().backward()
    yield x.grad, [list(s) for s in seen]


@scenarios
def needs_input_grad(lib: Any) -> Iterator[Any]:
    seen = []

    class Mul(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            seen.append(list(ctx.needs_input_grad))
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            seen.append(list(ctx.needs_input_grad))
            a, b = ctx.saved_tensors
            return g * b if ctx.needs_input_grad[0] else None, g * a

    a, b = leaf(lib), lib.tensor(V, dtype=lib.float64)
    Mul.apply(a, b).sum().backward()
    Mul.apply(b, a).sum().backward()
    yield a.grad, b.grad
    y = Mul.apply(b, b)
    yield y.requires_grad, y.grad_fn is None
    with lib.no_grad():
        y = Mul.apply(a, a)
    yield y.requires_grad, seen


@scenarios
def several_outputs(lib: Any) -> Iterator[Any]:
    seen = []

    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2, x * x

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a, b))
            (x,) = ctx.saved_tensors
            return 2 * a + 2 * x * b

    x = leaf(lib)
    y, z = F.apply(x)
    yield y.output_nr, z.output_nr, y.grad_fn is z.grad_fn
    yield lib.autograd.grad(z.sum(), x, retain_graph=True), seen[-1]
    yield lib.autograd.grad(y.sum(), x, retain_graph=True), seen[-1]
    (y.sum() + (y * z).sum()).backward()
    yield x.grad, seen[-1]


@scenarios
def grads_are_not_materialized(lib: Any) -> Iterator[Any]:
    seen = []

    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a is None, b is None))
            return (0 if a is None else 2 * a) + (0 if b is None else 3 * b)

    x = leaf(lib)
    y, z = F.apply(x)
    z.sum().backward(retain_graph=True)
    y.sum().backward()
    yield x.grad, seen


@scenarios
def a_none_gradient_stops(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return None

    x = leaf(lib)
    y = x * 3
    F.apply(y).sum().backward()
    yield x.grad
    yield attempt(lib.autograd.grad, F.apply(x).sum(), x)
    yield lib.autograd.grad(F.apply(x).sum(), x, allow_unused=True)


@scenarios
def non_differentiable_output(lib: Any) -> Iterator[Any]:
    seen = []

    class Sort(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            values, order = x.sort()
            floats = x * 1
            ctx.mark_non_differentiable(order, floats)
            ctx.save_for_backward(order)
            return values, order, floats

        @staticmethod
        def backward(ctx, g, g_order, g_floats):
            seen.append((g_order, g_floats))
            (order,) = ctx.saved_tensors
            return g * (order + 1)

    x = leaf(lib)
    values, order, floats = Sort.apply(x)
    yield values.requires_grad, order.requires_grad, floats.requires_grad, floats.grad_fn is None
    yield order, floats, order.is_leaf, floats.is_leaf
    values.sum().backward()
    yield x.grad, seen


@scenarios
def integer_output_without_a_mark(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x > 0

        @staticmethod
        def backward(ctx, g, _):
            return 2 * g

    x = leaf(lib)
    y, mask = F.apply(x)
    yield y.requires_grad, mask.requires_grad, mask
    y.sum().backward()
    yield x.grad


@scenarios
def dirty_non_leaf(lib: Any) -> Iterator[Any]:
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = leaf(lib)
    y = x * 3
    version = y._version
    z = Double.apply(y)
    yield z is y, y._version - version, type(y.grad_fn).__name__
    (z * z).sum().backward()
    yield x.grad, y
    yield attempt(Double.apply, leaf(lib))


@scenarios
def dirty_view(lib: Any) -> Iterator[Any]:
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = leaf(lib)
    y = x * 3
    Double.apply(y.narrow(0, 0, 2))
    yield y
    (y * y).sum().backward()
    yield x.grad


@scenarios
def dirty_but_not_returned(lib: Any) -> Iterator[Any]:
    class Forgets(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x + 1

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    yield attempt(Forgets.apply, leaf(lib) * 1)


@scenarios
def dirty_needed_elsewhere(lib: Any) -> Iterator[Any]:
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = leaf(lib)
    y = x * 3
    square = y * y
    Double.apply(y)
    yield attempt(square.sum().backward)


@scenarios
def returns_its_input(lib: Any) -> Iterator[Any]:
    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return 5 * g

    x = leaf(lib)
    y = Same.apply(x)
    yield y is x, y.is_leaf, y.requires_grad, y
    y.sum().backward()
    yield x.grad
    middle = x * 2
    same = Same.apply(middle)
    yield same is middle
    same.sum().backward()
    yield x.grad


@scenarios
def returns_a_view_of_its_input(lib: Any) -> Iterator[Any]:
    class Row(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, g):
            return (5 * g).view(2, 2)

    x = leaf(lib, [[1.0, 2.0], [3.0, 4.0]])
    y = Row.apply(x * 1)
    yield y, y.requires_grad
    (y * y).sum().backward()
    yield x.grad


@scenarios
def one_input_twice(lib: Any) -> Iterator[Any]:
    class Mul(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a * 10

    x = leaf(lib)
    Mul.apply(x, x).sum().backward()
    yield x.grad


@scenarios
def setup_context(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(x, power):
            return x**power, x + power

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, power = inputs
            y, _ = output
            ctx.save_for_backward(x, y)
            ctx.power = power
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            x, y = ctx.saved_tensors
            return g * ctx.power * y / x, None

    x = leaf(lib)
    y, z = F.apply(x, 3)
    yield y, z, y.requires_grad, z.requires_grad
    y.sum().backward()
    yield x.grad


@scenarios
def once_differentiable(lib: Any) -> Iterator[Any]:
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    x = leaf(lib)
    y = Cube.apply(x)
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    yield g, g.requires_grad
    yield attempt(g.sum().backward)
    Cube.apply(x).sum().backward()
    yield x.grad
    seed = leaf(lib)
    (g,) = lib.autograd.grad(Cube.apply(x), x, seed, create_graph=True)
    yield g, g.requires_grad, attempt(lib.autograd.grad, g.sum(), seed)


@scenarios
def wrong_number_of_gradients(lib: Any) -> Iterator[Any]:
    for count in range(4):

        class F(lib.autograd.Function):
            @staticmethod
            def forward(ctx, a, b, count=count):
                ctx.count = count
                return a * b

            @staticmethod
            def backward(ctx, g):
                return (g, g, None)[: ctx.count] if ctx.count != 1 else g

        yield count, attempt(F.apply(leaf(lib), leaf(lib)).sum().backward)

    class Surplus(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            return g, g

    yield attempt(Surplus.apply(leaf(lib)).sum().backward)


@scenarios
def wrong_shape_or_kind_of_gradient(lib: Any) -> Iterator[Any]:
    answers = {
        "shape": lambda g: g.new_ones(7),
        "number": lambda g: 3.0,
        "text": lambda g: "text",
        "scalar expands": lambda g: g.sum(),
        "one row sums": lambda g: g.expand(2, 3),
        "float32 is cast": lambda g: g.float(),
    }
    for name, answer in answers.items():

        class F(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g, answer=answer):
                return answer(g)

        x = leaf(lib)
        yield name, attempt(F.apply(x).sum().backward), x.grad


@scenarios
def exceptions_pass(lib: Any) -> Iterator[Any]:
    class Broken(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, when):
            if when == "forward":
                raise KeyError(when)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise LookupError("backward")

    x = leaf(lib)
    yield attempt(Broken.apply, x, "forward"), lib.is_grad_enabled()
    yield attempt(Broken.apply(x, "backward").sum().backward), lib.is_grad_enabled()
    (x * 2).sum().backward()
    yield x.grad


@scenarios
def grad_mode_inside(lib: Any) -> Iterator[Any]:
    seen = []

    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((lib.is_grad_enabled(), x.requires_grad, (x * 2).requires_grad))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append((lib.is_grad_enabled(), g.requires_grad))
            return 2 * g

    x = leaf(lib)
    y = F.apply(x)
    y.sum().backward(retain_graph=True)
    lib.autograd.grad(y.sum(), x, create_graph=True)
    yield seen


@scenarios
def a_function_inside_a_function(lib: Any) -> Iterator[Any]:
    class Inner(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    class Outer(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with lib.enable_grad():
                inner_x = x.detach().requires_grad_()
                y = Inner.apply(inner_x).sin()
            ctx.save_for_backward(inner_x, y)
            return y.detach()

        @staticmethod
        def backward(ctx, g):
            inner_x, y = ctx.saved_tensors
            with lib.enable_grad():
                return lib.autograd.grad(y, inner_x, g)[0]

    x = leaf(lib)
    y = Outer.apply(x * 2)
    y.sum().backward()
    yield y, x.grad


@scenarios
def backward_that_calls_backward(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with lib.enable_grad():
                again = x.detach().requires_grad_()
                again.sin().backward(g)
            return again.grad

    x = leaf(lib)
    (F.apply(x * 2) * 3).sum().backward()
    yield x.grad


@scenarios
def missing_methods(lib: Any) -> Iterator[Any]:
    class NoForward(lib.autograd.Function):
        @staticmethod
        def backward(ctx, g):
            return g

    class NoBackward(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    class Old(lib.autograd.Function):
        def forward(self, x):
            return x

    yield attempt(NoForward.apply, leaf(lib))
    yield attempt(NoBackward.apply(leaf(lib)).sum().backward)
    yield attempt(lambda: Old()(leaf(lib)))


@scenarios
def a_vjp_method_instead_of_backward(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return 7 * g

    x = leaf(lib)
    F.apply(x).sum().backward()
    yield x.grad


@scenarios
def both_backward_and_vjp(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return 7 * g

    yield attempt(lambda: F.apply(leaf(lib)).sum().backward())


@scenarios
def saving_what_is_not_a_tensor(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    yield attempt(F.apply, leaf(lib))


@scenarios
def returning_what_is_not_a_tensor(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, "text", None

        @staticmethod
        def backward(ctx, g, *rest):
            return 2 * g

    x = leaf(lib)
    y, text, none = F.apply(x)
    yield y, text, none
    y.sum().backward()
    yield x.grad


@scenarios
def returning_nothing(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return None

        @staticmethod
        def backward(ctx, g):
            return g

    yield attempt(F.apply, leaf(lib))


@scenarios
def saved_input_changed_in_place(lib: Any) -> Iterator[Any]:
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = leaf(lib)
    y = x * 1
    z = Square.apply(y)
    y.add_(1)
    yield attempt(z.sum().backward)
    y = x * 1
    z = Square.apply(y)
    z.add_(1)
    z.sum().backward()
    yield x.grad


@scenarios
def saved_output_changed_in_place(lib: Any) -> Iterator[Any]:
    class Exp(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    y = Exp.apply(leaf(lib))
    y.mul_(2)
    yield attempt(y.sum().backward)


@scenarios
def context_attributes_stay_for_a_second_backward(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.factor = 3.0
            return x * 3.0

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor

    x = leaf(lib)
    y = F.apply(x).sum()
    y.backward()
    yield attempt(y.backward), x.grad


@scenarios
def saved_tensors_after_backward(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = leaf(lib)
    y = F.apply(x)
    yield y.grad_fn.saved_tensors
    y.sum().backward()
    yield attempt(lambda: y.grad_fn.saved_tensors)


@scenarios
def hooks_on_a_custom_node(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2, y * 3

        @staticmethod
        def backward(ctx, a, b):
            return 2 * a, 3 * b

    x, y = leaf(lib), leaf(lib)
    a, b = F.apply(x, y)
    seen = []
    a.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    a.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10, outputs[1]))
    (a.sum() + 2 * b.sum()).backward()
    yield x.grad, y.grad, seen


@scenarios
def list_output(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return [x * 2, x * 3]

        @staticmethod
        def backward(ctx, *grads):
            return grads[0] * 2 + grads[1] * 3

    answer = attempt(F.apply, leaf(lib))
    yield type(answer).__name__


@scenarios
def one_output_returned_twice(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, a, b):
            return 2 * (a + 10 * b)

    x = leaf(lib)
    a, b = F.apply(x)
    yield a is b
    b.sum().backward()
    yield x.grad


@scenarios
def a_returned_input_is_not_written_to(lib: Any) -> Iterator[Any]:
    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    y = Same.apply(leaf(lib) * 1)
    yield attempt(y.mul_, 2)


@scenarios
def a_gradient_for_what_is_not_a_tensor(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, other):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g, g

    x, constant = leaf(lib), lib.ones(3)
    yield attempt(F.apply(x, 3).sum().backward)
    yield attempt(F.apply(x, constant).sum().backward), x.grad, constant.grad


@scenarios
def a_dirty_view_and_a_second_output(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x.mul_(2))
            return x, y * 2

        @staticmethod
        def backward(ctx, g, h):
            return g, h

    y = leaf(lib) * 1
    yield attempt(F.apply, y.narrow(0, 0, 2), y)
    yield attempt(F.apply, leaf(lib).narrow(0, 0, 2), y)


@scenarios
def gradient_with_respect_to_one_of_several_saved_outputs(lib: Any) -> Iterator[Any]:
    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y, z = x.exp(), x.sin()
            ctx.save_for_backward(y, z)
            return y, z

        @staticmethod
        def backward(ctx, a, b):
            y, z = ctx.saved_tensors
            return a * y + b * (1 - z * z).sqrt()

    x = leaf(lib, [0.5, 0.25])
    y, z = F.apply(x)
    seen = []
    y.register_hook(seen.append)
    (g,) = lib.autograd.grad((y * z).sum(), x, create_graph=True)
    yield g, lib.autograd.grad(g.sum(), [y, z], retain_graph=True)
    yield lib.autograd.grad((g * y).sum(), x), seen


@scenarios
def gradients_of_results_that_are_not_tensors(lib: Any) -> Iterator[Any]:
    seen = []

    class F(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, "text", None, x > 0

        @staticmethod
        def backward(ctx, *grads):
            seen.append(grads)
            return grads[0] * 2

    F.apply(leaf(lib))[0].sum().backward()
    yield seen


@pytest.mark.parametrize("body", scenarios)
def test_a_custom_function_behaves_as_in_pytorch(body: Body) -> None:
    compare(body)
