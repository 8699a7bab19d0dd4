"""Functions in plain Python whose branches and loops depend on tensors: the table of test_script.

Each takes a vector ``x`` of four elements and a matrix ``w``; the points lead them different ways.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import rushlight as rl
from rushlight import nn

POINTS = (
    [0.5, -0.25, 1.5, 2.0],
    [-1.0, 0.75, -2.5, 0.3],
    [3.0, 2.0, -1.0, 0.1],
    [-0.2, -0.4, -0.1, -0.9],
)
TABLE: dict[str, Callable[[Any, Any], Any]] = {}


def row(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    TABLE[function.__name__] = function
    return function


# Branches.


@row
def if_else(x, w):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x.sin()
    return y


@row
def if_alone(x, w):
    y = x
    if x[0] > 0:
        y = y @ w
    return y * 2


@row
def elif_chain(x, w):
    total = x.sum()
    if total > 3:
        y = x.exp()
    elif total > 1:
        y = x.tanh()
    elif total > -1:
        y = x @ w
    else:
        y = -x
    return y


@row
def nested_ifs(x, w):
    if x[0] > 0:
        if x[1] > 0:
            y = x + 1
        else:
            y = x - 1
        y = y * 3
    else:
        y = x
        if x[2] < -2:
            y = y.abs()
    return y


@row
def several_variables(x, w):
    a, b, c = x, w, 0
    if x.max() > 1.8:
        a, b = a @ b, b.t()
        c = 1
    else:
        c = -1
    return a @ b * c, c


@row
def temporaries_of_other_types(x, w):
    if x.sum() > 0:
        t = x * 2
        y = t.sum()
    else:
        t = (x @ w).reshape(2, 2)
        y = t[0, 0]
    return y


@row
def swap(x, w):
    a, b = x.sum(), x.prod()
    if a < b:
        a, b = b, a
    return a - b * 2


@row
def early_return(x, w):
    if x.sum() > 2:
        return x * 3
    y = x @ w
    if y[0] > 0:
        return y
    return y - x


@row
def return_in_elif(x, w):
    if x[0] > 1:
        y, kind = x * 2, "moved"
    elif x[1] > 0:
        return x @ w
    else:
        y, kind = x - 1, "moved"
    return y * len(kind)


@row
def return_in_elif_of_a_loop(x, w):
    for row in w:
        if row[0] > x[0]:
            y = row * x
        elif row[1] > x[1]:
            return row + x
        else:
            y = row - x
        x = x + y / 2
    return x * 3


@row
def return_in_try(x, w):
    try:
        if x.sum() > 0:
            return x @ w
        y = x.relu()
    finally:
        w = w + 1
    return y @ w


@row
def return_in_else(x, w):
    if x.min() > -0.5:
        y = x
    else:
        return (x @ w).relu()
    y = y + 1
    return y * y


@row
def returns_of_numbers(x, w):
    if x.sum() > 2:
        return 1
    if x.sum() > 0:
        return 2
    return 3


@row
def returns_of_truths(x, w):
    if x[0] > 0:
        return True
    return bool(x[1] > 0 and x[3] > 0)


@row
def returns_of_tuples(x, w):
    if x.mean() > 0:
        return x, {"loss": x.sum(), "parts": [w]}
    return x * 2, {"loss": x.max(), "parts": [w @ w]}


@row
def falls_through_to_the_end(x, w):
    if x[2] > 0:
        if x[1] > 0:
            return x
        x = x * 2
    else:
        if x[1] < 0:
            return -x
        x = x * 4
    return x + 1


@row
def conditional_expression(x, w):
    y = x if x.sum() > 0 else x @ w
    return y * (2 if x[0] > 0 else 3)


@row
def nested_conditional_expressions(x, w):
    return x.sin() if x[0] > 1 else (x.cos() if x[0] > 0 else (x @ w))


@row
def boolean_operators(x, w):
    if x[0] > 0 and x[1] > 0:
        return x * 2
    if x[0] > 0 or not x[3] > 0:
        return x * 3
    return x * 4


@row
def short_circuit(x, w):
    n = 0
    while n < 4 and x[n] > 0:
        n += 1
    return x * n, n


@row
def chained_comparison(x, w):
    y = x
    if -1 < x.sum() <= 2.5:
        y = y * 2
    if 0 < x[0] < x[2]:
        y = y + 1
    return y


@row
def negation(x, w):
    empty = not x.sum() > 0
    if not empty:
        x = x @ w
    return x, empty


@row
def truth_of_a_number(x, w):
    count = (x > 0).sum()
    if count:
        return x * count
    return x - 1


@row
def several_conditions_at_once(x, w):
    ok = (x > -3).all() and (x < 3).all()
    bad = x.isnan().any() or not ok
    return x + 1 if bad else x - 1


@row
def python_decides_too(x, w):
    scale = 2
    if len(x) == 4 and x.sum() > 0:
        scale = 5
    if len(x) > 10:
        scale = "never"
    return x * scale


@row
def values_of_and_and_or(x, w):
    small = x[0] > 0.4 and x[0] < 2
    either = x.relu().sum() or x.min()
    last = x[1:].relu().sum() and x.prod()
    old = (x.sum() > 0 and x.max()) or x.min()
    if x[0].relu() and (x.sum() > 1 or x[2].int()):  # of which only the truth matters
        old = old * 2
    return x * either + last, old, small


@row
def two_names_of_one_tensor(x, w):
    y = x * 1
    z = y
    h = x * 2
    if x.sum() > 0:
        z.add_(1)
        y.mul_(3)
        z -= 2
        h = h + 1
    z += 1
    h += 1  # nobody else has it
    return y, z, h


@row
def one_true_and_one_false(x, w):
    flag, n = bool(x.sum() > 0), int(x[0] > 0)
    y = x * 2 if flag is True else x * 3
    if (x[0] > 0.6) is True:  # a tensor is never that
        y = y * 100
    if isinstance(n, int) and type(flag) is bool and not isinstance(n, (float, str)):
        y = y + 1
    return y if flag is not False else y - 1


@row
def exceptions_that_no_tensor_decides(x, w):
    with rl.no_grad():
        shift = x.sum()
    if x[0] > 0:
        try:
            raise ValueError("always")
        except ValueError as error:
            shift = shift + len(str(error))
    try:
        x = x + {}["missing"]
    except KeyError:
        x = x + 1
    return x + shift


@row
def jumps_in_the_else_of_a_loop(x, w):
    for _ in range(2):
        if x.max() > 1:
            for _ in range(2):
                x = x + 1
            else:
                break
        x = x * 2
    if x[0] > 0:
        while x.sum() < 10:
            x = x + 1
        else:
            return x @ w
    return x * 2


@row
def jumps_in_a_try_with_else(x, w):
    for _ in range(3):
        try:
            if x.sum() > 3:
                break
            x = x + 1
        except ValueError:
            pass
        else:
            x = x * 1.5
    try:
        if x[0] > 2:
            return x
    except ValueError:
        pass
    else:
        x = x @ w
    return x


@row
def returned_before_it_is_written(x, w):
    y = x * 1
    for _ in range(3):
        if y.sum() > 3:
            return y
        y += 1
    with rl.no_grad():
        if x[0] > 0:
            return y
        y.mul_(2)
    return y * 2


@row
def jumps_in_a_with_that_catches(x, w):
    with contextlib.suppress(KeyError):
        y = {}["missing"]
        return x * y
    return x if x.sum() > 0 else x @ w


@row
def named_in_a_chain(x, w):
    y = x.min()
    if -100 < (y := x.max()) < 1.75:
        x = x + 1
    return x * y


# Loops with a condition.


@row
def named_in_a_condition(x, w):
    n = 0
    while (size := (x * x).sum()) > 0.5:
        x = x / 2
        n += 1
    return x * size, n


@row
def named_in_conditions_with_jumps(x, w):
    n, last = 0, x.sum()
    while (last := x.abs().max()) > 0.3:
        n += 1
        if n == 2:
            continue
        x = x / 2
        if x.sum() > 1:
            break
        while (n := n + 1) % 3:
            x = x * 0.9
    else:
        x = x - 5
    return x * last, n


@row
def doubling(x, w):
    while x.abs().sum() < 20:
        x = x * 2
    return x


@row
def counting(x, w):
    n = 0
    while x.abs().max() > 0.1:
        x = x / 3
        n += 1
    return x, n


@row
def newton(x, w):
    a = x.abs() + 0.5
    y = a
    while (y * y - a).abs().max() > 1e-4:
        y = (y + a / y) / 2
    return y


@row
def newton_with_a_limit(x, w):
    a = x.abs() + 0.5
    y = a
    for _ in range(20):
        step = (y * y - a) / (2 * y)
        y = y - step
        if step.abs().max() < 1e-3:
            break
    return y


@row
def power_iteration(x, w):
    v = x / x.norm()
    old = v * 0
    steps = 0
    while (v - old).norm() > 0.05 and steps < 30:
        old = v
        v = w @ v
        v = v / v.norm()
        steps += 1
    return v @ w @ v


@row
def bisection(x, w):
    low, high = -4.0, 4.0
    target = x.sum().detach()
    while high - low > 0.01:
        middle = (low + high) / 2
        if middle + middle**3 < target:
            low = middle
        else:
            high = middle
    return x * low


@row
def collatz(x, w):
    n = (x.abs().sum() * 3).long() + 1
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return x * steps, n


@row
def euclid(x, w):
    a, b = int(x.abs().sum() * 20 + 0.25), 36
    while b != 0:
        a, b = b, a % b
    return x * a, a


@row
def loop_in_a_loop(x, w):
    total = x.sum() * 0
    i = 0
    while i < x.abs().sum():
        j = 0
        while j < i:
            total = total + x[0] * j
            j += 1
        i += 1
    return total


@row
def branch_in_a_loop(x, w):
    n = 0
    while n < 6:
        if x.sum() > 1:
            x = x / 2
        elif x.sum() < -1:
            x = -x / 3
        else:
            x = x + 0.3
        n += 1
    return x


@row
def loop_in_a_branch(x, w):
    if x[0] > 0:
        while x.sum() < 10:
            x = x + 1
    else:
        x = x @ w
    return x


@row
def break_in_while_in_if(x, w):
    if x.sum() > -2:
        i = 0
        while True:
            x = x * 1.5
            i += 1
            if x.abs().max() > 5:
                break
            if i > 3:
                x = -x
                break
    return x


@row
def continue_in_while(x, w):
    n, total = 0, x[0] * 0
    while n < 4:
        n += 1
        if x[n - 1] < 0:
            continue
        total = total + x[n - 1] ** 2
    return total


@row
def return_from_a_while(x, w):
    y = x
    while y.abs().sum() < 30:
        y = y * 2
        if y.sum() < -4:
            return y - 100
    return y


@row
def return_from_an_endless_loop(x, w):
    while True:
        x = x * 2
        if x.abs().sum() > 9:
            return x


@row
def else_of_a_loop(x, w):
    n, y = 0, x
    while n < 3:
        if x[n] < 0:
            y = x * n
            break
        n += 1
    else:
        y = x * 10
    return y if n < 3 else x


@row
def recurrence_of_unknown_length(x, w):
    length = int(x.abs().sum() * 2 + 0.05)
    h = x * 0
    for _ in range(length):
        h = (h @ w + x).tanh()
    return h


@row
def recurrence_with_an_index(x, w):
    total = x[0]
    for i in range(1, (x > 0).sum() + 1):
        total = total + x.sum() / i
    return total


@row
def range_with_a_step(x, w):
    total = x.sum() * 0
    for i in range(int(x.abs().max() * 5), 0, -2):
        total = total + i * x[0]
    return total


# Loops over rows and ranges.


@row
def rows_of_a_matrix(x, w):
    y = x
    for r in w:
        if r.sum() > 0:
            y = y * 0.5 + r
        else:
            y = y - r
    return y


@row
def rows_until(x, w):
    h = x
    for r in w:
        h = (h + r).tanh()
        if h[0] > 0.5:
            break
    return h


@row
def rows_with_continue(x, w):
    total = x.sum() * 0
    for element in x:
        if element < 0:
            continue
        total = total + element.sqrt()
    return total


@row
def first_that_fits(x, w):
    for r in w:
        if r @ x > 0:
            return r * x
    return x


@row
def enumerated_rows(x, w):
    best, place = x[0] * 1, 0
    for i, r in enumerate(w):
        score = r @ x
        if score > best:
            best, place = score, i
    return best, place


@row
def zipped_rows(x, w):
    y = x * 0
    for r, column, element in zip(w, w.t(), x, strict=True):
        y = y + (r if element > 0 else column) * element
    return y


@row
def a_list_of_rows(x, w):
    found = []
    for r in w:
        found.append(r * x if x[0] > 0 else r)
    return rl.stack(found)


@row
def layers_in_a_list(x, w):
    for scale in [1.0, 0.5, 0.25]:
        x = x @ w * scale
        if x.sum() < 0:
            x = -x
            break
    return x


@row
def range_of_ints_with_a_break(x, w):
    for i in range(50):
        x = x * 1.1 + i * 0.01
        if x.abs().max() > 4:
            break
    return x, i


@row
def nested_ranges_with_breaks(x, w):
    count = 0
    for i in range(3):
        for j in range(3):
            if x[0] * i > j:
                break
            count += 1
        if count > 4:
            break
    return x * count, count


@row
def insertion_sort(x, w):
    y = x.clone()
    for i in range(1, 4):
        j = i
        while j > 0 and y[j - 1] > y[j]:
            a, b = y[j - 1].clone(), y[j].clone()
            y[j - 1] = b
            y[j] = a
            j = j - 1
    return y


@row
def beam(x, w):
    score, state = x[0] * 0, 0
    path = rl.zeros(3, dtype=rl.long)
    for step in range(3):
        options = w[state] + x
        best = options.argmax()
        if options[best] < 0.2:
            break
        score = score + options[best]
        path[step] = best
        state = best
    return score, path


@row
def two_beams(x, w):
    scores, last = x[:2], rl.tensor([0, 1])
    n = 0
    while n < 3 and scores.max() < 4:
        options = (scores[:, None] + w[last]).flatten()
        scores, place = options.topk(2)
        last = place % 4
        n += 1
    return scores, last


@row
def viterbi(x, w):
    score = x
    back = rl.zeros(4, dtype=rl.long)
    for emission in w:
        options = score[:, None] + w
        score, back = options.max(0)
        if emission.sum() > 0:
            score = score + emission
    return score, back


# In place.


@row
def accumulation_in_place(x, w):
    total = rl.zeros(4)
    n = 0
    while n < x.abs().sum():
        total += x * n
        n += 1
    return total


@row
def elements_written(x, w):
    y = x * 1
    for i in range(4):
        if y[i] < 0:
            y[i] = y[i].clone() * w[i, 0]
    return y


@row
def written_in_a_branch(x, w):
    y = x * 2
    z = y
    if x[0] > 0:
        y += 1
        y[1] = 7.0
    return y + z


@row
def written_by_a_method(x, w):
    y = x @ w
    if y.sum() > 0:
        y.mul_(2)
    else:
        y.clamp_(min=0.1)
    return y


@row
def copied_then_written(x, w):
    i = x.argmax()
    if x[i] > 1:
        x = x.clone()
        x[i] = 0.5
    return x


@row
def written_and_assigned_in_a_loop(x, w):
    h, n = x * 0, 0
    while n < x.abs().sum():
        h += x @ w
        h = h.sin()
        n += 1
    return h


@row
def aliases_written(x, w):
    y = x * 2
    z, u = y, y + 1
    if x[0] > 0:
        y += 1
        u = z * 3
    return y, z, u


@row
def an_error_on_a_way_not_taken(x, w):
    y = x
    while y.abs().max() < 1:
        y = y * 2
    if y.sum() > 1000:
        raise ValueError("too large")
    elif y.sum() > 500:
        assert False  # noqa: B011, PT015
    return y


@row
def weights_in_a_list(x, w):
    parts = [w, w.t(), w @ w]
    for i in range(len(parts)):
        x = x @ parts[i]
        if x.norm() > 2:
            break
    return x


@row
def any_and_all(x, w):
    if any(t > 1 for t in x) and not all([t > 0 for t in x]):
        return x * 2
    return x / 2


# Functions, methods, closures.


def clipped(y):
    if y.abs().max() > 2:
        return y / y.abs().max()
    return y


def until(y, test, step):
    while test(y):
        y = step(y)
    return y


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.limit = 1.0
        self.__secret = 0.5

    def forward(self, x):
        if x.sum() > self.limit:
            return self.opened(x)
        return x * self.__secret

    def opened(self, x):
        return x + 1 if x[0] > 0 else x - 1


class Wide(Gate):
    def forward(self, x):
        y = x * 2
        if x[0] > 0.2:
            y = super().forward(y)
        return y


GATES = nn.Sequential(Gate(), nn.Tanh(), Wide())
LIMIT = 0.5


@row
def functions_called(x, w):
    return clipped(x) + clipped(x @ w * 3)


@row
def functions_passed(x, w):
    return until(x, lambda y: y.abs().sum() < 10, lambda y: y * 3 if y[0] > 0 else y * 2 - 1)


class Shape:
    """Methods of all kinds."""

    factor = 3

    @property
    def scale(self):
        return self.factor

    @staticmethod
    def upright(x):
        return x if x.sum() > 0 else -x

    @classmethod
    def doubled(cls, x):
        return cls.upright(x) * 2

    def __call__(self, x, *rest, limit=0.0, **more):
        return self.doubled(x) * self.scale if x[0] > limit else x


@row
def methods_called(x, w):
    shape = Shape()
    return shape(x) + functools.partial(shape, limit=1.0)(x @ w)


@row
def assigned_in_a_condition(x, w):
    if (total := x.sum()) > 0:
        return x * total
    return x - total


@row
def try_and_finally(x, w):
    try:
        if x.sum() > 0:
            y = x * 2
        else:
            y = x * 3
    except ValueError:
        y = x
    finally:
        z = 1
    return y + z


@row
def modules_called(x, w):
    return Gate()(x) * Wide()(x)


@row
def modules_in_a_container(x, w):
    y = GATES(x)
    return y if y.sum() > 0 else -y


@row
def closures(x, w):
    limit, seen = x.mean(), 0

    def step(y):
        nonlocal seen
        if y.sum() > limit:
            seen = seen + 1
            return y - 1
        return y + LIMIT

    for _ in range(3):
        x = step(x)
    return x, seen


@row
def lambda_with_a_branch(x, w):
    relu = lambda t: t if t > 0 else t * 0.1  # noqa: E731
    return rl.stack([relu(t) for t in x])


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


@row
def recursion_of_python(x, w):
    return x * factorial(4) if x.sum() > 0 else x * factorial(3)


class Point(NamedTuple):
    place: Any
    speed: Any


@row
def records(x, w):
    p = Point(x, x @ w)
    while p.place.abs().max() < 6:
        p = Point(p.place + p.speed * 0.1 + 0.5, p.speed * 0.9)
    return p


@row
def dicts(x, w):
    state = {"h": x, "n": 0}
    while state["h"].abs().sum() < 15:
        state = {"h": state["h"] * 1.5, "n": state["n"] + 1}
    return state


@row
def numbers_of_items(x, w):
    largest = x.max().item()
    if largest > 1:
        rate = 1 / largest
    else:
        rate = 1.0
    return x * rate, rate


@row
def mathematics(x, w):
    size = float(x.abs().sum())
    return x * math.exp(-size) + max(size, 2.0) - min(abs(size), 3)


@row
def gradients_inside(x, w):
    y = x.detach().clone().requires_grad_()
    for _ in range(30):
        loss = ((y - x.detach()) ** 2).sum() + (y @ w.detach()).square().sum()
        (g,) = rl.autograd.grad(loss, y)
        y = (y - 0.05 * g).detach().requires_grad_()
        if g.norm() < 0.5:
            break
    return y.detach() * x


@row
def line_search(x, w):
    def f(y):
        return (y @ w).square().sum() + (y - 1).square().sum()

    rate = 1.0
    direction = -(x - 1)
    while f(x + rate * direction) > f(x) - 0.1 * rate * direction.square().sum():
        rate *= 0.5
        if rate < 1e-3:
            break
    return x + rate * direction, rate


@row
def no_gradients_inside(x, w):
    with rl.no_grad():
        n = 0
        y = x
        while y.abs().sum() > 0.5:
            y = y / 2
            n += 1
    return x * n


@row
def matched_with_python(x, w):
    match len(x):
        case 4:
            if x[0] > 0:
                y = x
            else:
                y = w[0]
        case _:
            y = x
    return y


@row
def match_of_a_number(x, w):
    match x.relu().sum().long().item():
        case 4:
            y = x @ w
        case 5 | 1 if x[0] < 0:
            return x
        case n:
            y = x * n
    return y + 1


@row
def match_of_a_truth(x, w):
    match (x[0] > 0).item(), (x.sum() > 1).item():
        case found:
            positive, large = found
    match positive:
        case False:
            y = -x
        case _:
            y = x
    match large:
        case float():
            return y
        case True | None:
            return y @ w
    return y * 2


@row
def match_in_a_loop(x, w):
    for i in range(6):
        match (x.sum() * i > 3).item():
            case True:
                break
            case _:
                x = x + i
    return x


@row
def checked(x, w):
    assert x.abs().max() < 100, "too large"
    if x.sum() > 50:
        raise ValueError("never")
    return x * 2


def telling(x):
    print(x)
    assert (x > 0).all(), "must be positive"
    if x.sum() > 100:
        raise ValueError(f"too large: {x.sum().item():.1f}")
    return x.log()


def speaking(x):
    n = 0
    while x.sum() < 10:
        x = x * 2
        n += 1
        print(f"{n:>2d}: {x.sum():.1f}", [x, n], sep=" | ")
    if x[0] > 4:
        raise ValueError(f"{x[0]} after {n}")
    else:
        print("small")
    assert n < 3, f"{n} steps"
    assert len(x) == 2
    return x
