"""Branches and loops in a trace: functions become graphs inside a node.

Second derivatives are first ones of other functions: of those that compute gradients of a branch,
or of a step. So they are traced as branches and loops again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import dtypes
from rushlight.autograd.backward import grad_of_leaves
from rushlight.autograd.modes import local
from rushlight.control import Tree, tensor_of
from rushlight.dims import is_zero
from rushlight.errors import user_line
from rushlight.graph.counts import known_steps
from rushlight.graph.flows import Branches, Loop, Made, Rows, While, is_tracked
from rushlight.graph.inner import Argument, Part
from rushlight.graph.surroundings import Surroundings
from rushlight.graph.trace import Trace
from rushlight.ops import ops
from rushlight.tensor import Tensor

Follow = Callable[[list[Tensor]], list[Tensor]]


def choose(
    name: str, index: Tensor, branches: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    """The results of the branch that ``index`` will say."""
    trees: list[Tree] = []

    def follow(branch: Callable[..., Any], _: list[Tensor]) -> list[Tensor]:
        trees.append(Tree(branch(*operands), f"{name}: a branch returns"))
        if repr(trees[-1]) != repr(trees[0]):
            names = ("false_fn", "true_fn") if name == "cond" else ("one", "another")
            raise TypeError(
                f"{name}: branches must return the same types, but {names[0]} returns {trees[0]}, "
                f"and {names[1]} {trees[-1]}  [{user_line()}]"
            )
        return trees[-1].leaves

    selector = index.to(dtypes.int64)
    if name == "switch":
        selector = selector.clamp(0, len(branches) - 1)
    leaves = branched(selector, [functools.partial(follow, branch) for branch in branches])
    return trees[0].build(leaves)


def branched(selector: Tensor, branches: Sequence[Follow]) -> list[Tensor]:
    """The results of one of the branches, whose number ``selector`` is."""
    trace = local.state.trace
    parts: list[Part] = []
    around = Surroundings(branches)
    for branch in branches:
        with Part(trace, branch, around, once=True) as part:
            part.refuse_recorded_writes()
            part.differentiate([i for i, below in enumerate(part.below) if below], part.outsiders)
            parts.append(part)
    made = Branches(trace, selector, parts)

    def gradients(grads: Sequence[Tensor], branch: Follow, _: list[Tensor]) -> list[Tensor]:
        meet(local.state.trace, made.wanted)
        return gradients_of(branch([]), grads, made.wanted)

    made.again = lambda grads: branched(
        selector, [functools.partial(gradients, grads, branch) for branch in branches]
    )
    return made.results()


def gradients_of(
    results: Sequence[Tensor], grads: Sequence[Tensor | None], wanted: Sequence[Tensor]
) -> list[Tensor]:
    """The gradients of all that is wanted, which can be differentiated again."""
    pairs = [(y, g) for y, g in zip(results, grads, strict=True) if g is not None and is_tracked(y)]
    if not pairs:
        return [ops.zeros_like(t) for t in wanted]
    ys, tangents = zip(*pairs, strict=True)
    found = grad_of_leaves(ys, wanted, tangents, create_graph=True)
    return [ops.zeros_like(t) if g is None else g for t, g in zip(wanted, found, strict=True)]


def repeat(
    test: Callable[[Sequence[Tensor]], Any],
    body: Callable[[Sequence[Tensor]], list[Tensor]],
    leaves: Sequence[Tensor],
    names: Sequence[str] = (),
) -> list[Tensor]:
    """What a loop carries when ``test`` does not hold any more; ``names`` are what it is called."""
    trace = local.state.trace
    meet(trace, leaves)

    def follow(given: list[Tensor]) -> list[Tensor]:
        return [tensor_of(test(given)).to(dtypes.int64)]

    around = Surroundings([test, body])
    with Part(trace, follow, around, [Argument(t) for t in leaves]) as asked:
        acts = bool(asked.changed)
    if acts:
        return repeat_with_answer(test, body, leaves, names)
    with body_of(trace, body, around, leaves) as part:
        steps = known_steps(asked, part, [trace.current(trace.symbol(t)) for t in leaves])
        if steps == 0:
            return [t.clone() for t in leaves]
        made: Made
        if steps is None:
            made = While(trace, part, asked, leaves, names)
            made.again = functools.partial(repeat_again, made, test, body)
        else:
            made = Rows(trace, part, leaves, (), steps, False, names)
            made.again = functools.partial(rows_again, made, body)
    return made.results()


def repeat_with_answer(
    test: Callable[[Sequence[Tensor]], Any],
    body: Callable[[Sequence[Tensor]], list[Tensor]],
    leaves: Sequence[Tensor],
    names: Sequence[str],
) -> list[Tensor]:
    """:func:`repeat`, of a test that draws random numbers, or writes to tensors.

    It is asked before the first step and at the end of each, which carries the answer on.
    """

    def answer(given: Sequence[Tensor]) -> Tensor:
        return tensor_of(test(given)).detach().to(dtypes.bool_)

    def step(given: Sequence[Tensor]) -> list[Tensor]:
        after = body(given[1:])
        return [answer(after), *after]

    return repeat(lambda given: given[0], step, [answer(leaves), *leaves], ("", *names))[1:]


def repeat_again(
    made: While,
    test: Callable[[Sequence[Tensor]], Any],
    body: Callable[[Sequence[Tensor]], list[Tensor]],
    grads: Sequence[Tensor],
) -> list[Tensor]:
    """The gradients of a loop of unknown length: what a step was given is computed from the start.

    That takes as many steps as there are pairs of them, but no memory that grows.
    """
    zero = ops.zeros((), dtype=dtypes.int64)
    sums = [ops.zeros_like(t) for t in made.constants]
    step_back = gradient_of_step(made, body)

    def counted(given: Sequence[Tensor]) -> list[Tensor]:
        return [given[0] + 1, *body(given[1:])]

    def back(given: Sequence[Tensor]) -> list[Tensor]:
        left = given[0] - 1
        _, *inputs = repeat(lambda now: now[0] < left, counted, [zero, *made.carried])
        row = [t.unsqueeze(0) for t in inputs]  # a loop of one step takes them for what they are
        return [left, *rows(step_back, given[1:], row, 1, False)]

    count, *_ = repeat(lambda given: test(given[1:]), counted, [zero, *made.carried])
    begin = [count, *[grads[i] for i in made.moving], *sums]
    return repeat(lambda given: given[0] > 0, back, begin)[1:]


def sweep(
    body: Callable[[Sequence[Tensor], Sequence[Tensor]], tuple[list[Tensor], list[Tensor]]],
    leaves: Sequence[Tensor],
    xs: Sequence[Tensor],
    length: int,
    reverse: bool,
    names: Sequence[str] = (),
) -> tuple[list[Tensor], list[Tensor]]:
    """What a loop over rows carries in the end, and the results of the rows, stacked."""
    count = len(leaves)

    def follow(given: list[Tensor]) -> list[Tensor]:
        after, ys = body(given[:count], given[count:])
        return [*after, *ys]

    if is_zero(length):
        return [t.clone() for t in leaves], none_of(follow, leaves, xs)[count:]
    results = rows(follow, leaves, xs, length, reverse, names)
    return results[:count], results[count:]


def none_of(follow: Follow, leaves: Sequence[Tensor], xs: Sequence[Tensor]) -> list[Tensor]:
    """The results of no rows at all: their types are those of a row that is traced."""
    outer = local.state.trace or Trace()
    given = [*[Argument(t) for t in leaves], *[Argument(x, row=True) for x in xs]]
    with Part(outer, follow, Surroundings([follow], strict=False), given) as part:
        types = [(t.shape, t.dtype) for t in part.results]
    return [ops.zeros((0, *shape), dtype=dtype) for shape, dtype in types]


def rows(
    follow: Follow,
    leaves: Sequence[Tensor],
    xs: Sequence[Tensor],
    length: int,
    reverse: bool,
    names: Sequence[str] = (),
) -> list[Tensor]:
    """:func:`sweep`, of a body that takes and gives all in one list."""
    trace = local.state.trace
    meet(trace, [*leaves, *xs])
    with body_of(trace, follow, Surroundings([follow]), leaves, xs) as part:
        made = Rows(trace, part, leaves, xs, length, reverse, names)
    made.again = functools.partial(rows_again, made, follow)
    return made.results()


def rows_again(made: Rows, follow: Follow, grads: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of a loop over rows: what it carries is computed again, then it goes back."""
    carried, xs, count = made.carried, made.xs, len(made.carried)
    results = [i for i in made.tracked if i >= count]

    def forward(given: list[Tensor]) -> list[Tensor]:
        return [*follow(given)[:count], *given[:count]]

    back = gradient_of_step(made, follow, len(xs), made.tracked_xs, results)
    stacks = rows(forward, carried, xs, made.length, made.reverse)[count:]
    begin = [*[grads[i] for i in made.moving], *[ops.zeros_like(t) for t in made.constants]]
    given = [*stacks, *xs, *[grads[i] for i in results]]
    return rows(back, begin, given, made.length, not made.reverse)


def gradient_of_step(
    made: Loop,
    follow: Follow,
    width: int = 0,
    tracked_xs: Sequence[int] = (),
    results: Sequence[int] = (),
) -> Follow:
    """The way back over one step.

    It takes gradients of what is carried, sums of those of constants, what the step was given (with
    ``width`` rows), and the gradients of its ``results``.
    """
    moving, count = made.moving, len(made.carried)

    def back(given: list[Tensor]) -> list[Tensor]:
        rest = iter(given)
        after: dict[int, Tensor] = {i: next(rest) for i in moving}
        totals = [next(rest) for _ in made.constants]
        inputs = [next(rest) for _ in range(count + width)]
        after |= {i: next(rest) for i in results}
        meet(local.state.trace, made.constants)
        asked = [*moving, *[count + i for i in tracked_xs]]
        for i in asked:
            if inputs[i]._history is None:
                inputs[i] = inputs[i].detach().requires_grad_()
        found = follow(inputs)
        tangents = [after.get(i) for i in range(len(found))]
        wanted = [*[inputs[i] for i in asked], *made.constants]
        gradients = gradients_of(found, tangents, wanted)
        own, others = gradients[: len(moving)], gradients[len(asked) :]
        totals = [total + g for total, g in zip(totals, others, strict=True)]
        return [*own, *totals, *gradients[len(moving) : len(asked)]]

    return back


def meet(trace: Trace, tensors: Sequence[Tensor]) -> None:
    """Lets a trace know tensors of outside before anybody asks for their histories."""
    for t in tensors:
        trace.symbol(t)


def body_of(
    trace: Trace,
    follow: Callable[[list[Tensor]], list[Tensor]],
    around: Surroundings,
    leaves: Sequence[Tensor],
    xs: Sequence[Tensor] = (),
) -> Part:
    """The body of a loop, traced as if all it carries had a history: a step may give it one.

    If that is why it writes such values to tensors of outside, it is traced with what has one.
    """
    rows = [Argument(x, is_tracked(x), row=True) for x in xs]
    part = Part(trace, follow, around, [*[Argument(t, may_be_wanted(t)) for t in leaves], *rows])
    if part.records_writes:
        part.inner.restore()
        known = [*map(is_tracked, leaves)]
        carried = [Argument(t, wanted) for t, wanted in zip(leaves, known, strict=True)]
        part = Part(trace, follow, around, [*carried, *rows])
        more = [bool(below) and not old for below, old in zip(part.below, known, strict=False)]
        part.records_writes |= any(more)
    part.refuse_recorded_writes()
    return part


def may_be_wanted(t: Tensor) -> bool:
    """Whether a carried value could have a history after a step, or has one."""
    return local.state.grad and t.dtype.category >= dtypes.FLOAT
