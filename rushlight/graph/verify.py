"""Verification: a graph that comes from a file is as a trace would have made it, or it is refused.

Types say how far native code reads and writes. So the type of every node is worked out again, by
the rule of its op, and must be the one that is written there.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.modes import local
from rushlight.generator import Generator
from rushlight.graph.attributes import nested
from rushlight.graph.control import Control
from rushlight.graph.ir import (
    CAPTURED,
    CONSTANT,
    INPUT,
    ITEM,
    Graph,
    Node,
    TensorType,
    show,
    type_of,
)
from rushlight.graph.replay import REDRAW, original
from rushlight.graph.streams import STATE
from rushlight.graph.templates import room
from rushlight.kernels.pooling import Window
from rushlight.ops.base import Composite, Op
from rushlight.ops.families import Elementwise, Pointwise
from rushlight.ops.views import View

TRIED = 1 << 22  # bytes of operands up to which a kernel is also run, on zeros
MOST = 1 << 44  # bytes of a value
LARGE = 1 << 30  # bytes of operands, times elements by an attribute, that no kernel is run on
MUCH = 1 << 25  # such bytes, if there is a rule
DEPTH = 50  # of graphs inside graphs


def verify(graph: Graph, states: Collection[Node] = (), depth: int = 0) -> set[Node]:
    """An error unless all types are right, and operands and attributes what ops take.

    Args:
        states: the inputs and captured values that are states of random generators. They may go
            to random nodes only, since they are no tensors when a program runs.

    The result is the set of all nodes that are such states.
    """
    if depth > DEPTH:
        raise TypeError(f"graphs are nested deeper than {DEPTH}")
    found = set(states)
    for node in graph.nodes():
        try:
            check_node(node, found, depth)
        except RecursionError:
            raise
        except Exception as error:
            raise TypeError(f"{node.op.full_name}: {error}") from None
    leaves = {*graph.inputs, *graph.captured}
    targets = [target for target, _ in graph.writes]
    if len({*targets}) != len(targets):
        raise TypeError("a value is written to twice")
    for target, value in graph.writes:
        if target not in leaves or target.type != value.type:
            raise TypeError(f"a value {value.type} is written to {target}")
        if (target in found) != (value in found):
            raise TypeError("a state of a generator and a tensor take each other's places")
    if depth and (graph.writes or not found.issuperset(states)):
        raise TypeError("a graph inside a graph writes to outside")
    for node in graph.outputs:
        if not isinstance(node.type, TensorType) or (node in found and not depth):
            raise TypeError(f"{node} is returned")
    return found


def check_node(node: Node, states: set[Node], depth: int) -> None:
    """An error unless one node is right; a state of a generator is added to ``states``."""
    for kind in node.type if isinstance(node.type, tuple) else (node.type,):
        if not isinstance(kind, TensorType) or len(kind.shape) > 64 or kind.nbytes > MOST:
            raise TypeError(f"{show(node.type)} is no type of a value")
    if node.op in (INPUT, CAPTURED):
        if node in states and node.type != STATE:
            raise TypeError("a generator's state has another type")
        return
    if node.op is CONSTANT:
        expect(node, type_of(node.attrs["value"]))
        return
    if node.op is ITEM:
        (whole,) = node.inputs
        index = node.attrs["index"]
        if whole is None or not isinstance(whole.type, tuple) or type(index) is not int:
            raise TypeError("it is no item of several results")
        expect(node, whole.type[index] if index >= 0 else None)
        if index in state_results(whole):
            states.add(node)
        return
    for n in node.inputs:
        if n is not None and not isinstance(n.type, TensorType):
            raise TypeError("an operand is a tuple of values")
    check_parameters(node)
    if isinstance(node.op, Control):
        check_control(node, states, depth)
        return
    if any(nested(node.attrs)):
        raise TypeError("it holds a graph")
    if node.op is REDRAW:
        check_redraw(node, states)
        return
    draws = "generator" in node.attrs
    operands = node.inputs[1:] if draws else node.inputs
    if any([n in states for n in operands]):
        raise TypeError("the state of a generator is used as a tensor")
    if draws and (type(node.attrs["generator"]) is not int or node.inputs[0] not in states):
        raise TypeError("it draws from what is no generator")
    attrs = {**node.attrs, "generator": Generator()} if draws else node.attrs
    types = [None if n is None else n.type for n in operands]
    check_attributes(node.op, attrs, types[0] if types else None, node.type)
    try:
        kinds = result_types(node.op, types, attrs)
    except Exception:
        if not node.op.library or node.op.infer is not None:
            raise
        return  # programs call its kernel, which may refuse zeros, and copy what it gives
    if draws:
        kinds = (*(kinds if isinstance(kinds, tuple) else (kinds,)), STATE)
    expect(node, kinds)


def check_redraw(node: Node, states: set[Node]) -> None:
    """An error unless a node repeats a draw: its bytes are those of a state, and a tensor."""
    state, op = node.inputs[0], node.attrs["op"]
    if state is None or state.type != STATE or state in states:
        raise TypeError("it draws from what is no state of a generator")
    if not isinstance(op, Op) or op is REDRAW or isinstance(op, Control):
        raise TypeError("what it repeats is no random op")
    check_node(original(node), {*states, state}, 0)


def expect(node: Node, kinds: Any) -> None:
    if node.type != kinds:
        raise TypeError(f"its type is {show(kinds) if kinds else 'another'}, not {show(node.type)}")


def state_results(node: Node) -> list[int]:
    """Which results of a node are states of generators."""
    if "generator" in node.attrs:
        return [len(node.type) - 1]
    return [i for i, _ in node.attrs["states"]] if isinstance(node.op, Control) else []


def check_parameters(node: Node) -> None:
    """An error unless a node has the operands and attributes that the kernel of its op takes."""
    op = node.op
    if not isinstance(op, Op) or isinstance(op, Composite) or op.dynamic:
        raise TypeError("it is no op of graphs")
    operands = [None] * (len(node.inputs) - ("generator" in node.attrs))
    if type(op).compute is Op.compute or isinstance(op.eager, np.ufunc):
        signature_of(op).bind(*operands, **node.attrs)
    elif len(operands) != len(op.operands):
        raise TypeError(f"it takes {len(op.operands)} operands, not {len(operands)}")


def check_attributes(
    op: Op, attrs: Mapping[str, Any], first: TensorType | None, result: Any
) -> None:
    """An error for sizes and dimensions that NumPy takes for others, but native code does not."""
    kinds = [kind for kind in (first, result) if isinstance(kind, TensorType)]
    most = max([len(kind.shape) for kind in kinds], default=64) or 1  # a number has one, too
    for name, value in attrs.items():
        parts = value if isinstance(value, (tuple, list)) else (value,)
        least = -most if op.name in FROM_BOTH_ENDS else 0
        if name in DIMS and not all([x is None or in_range(x, least, most) for x in parts]):
            raise TypeError(f"{name}={value!r:.40} is no dimension of {most}")
        if name in SIZES and not all([x is None or in_range(x, 0, 1 << 62) for x in parts]):
            raise TypeError(f"{name}={value!r:.40} is no size")
        for part in parts:
            if isinstance(part, Window) and not is_window(part):
                raise TypeError(f"{part} is no window")
        if name == "chain":
            check_chain(value, first)


LEAST = (0, 0, 1, 1, 0, 1)  # of the numbers of a window
DIMS = ("dim", "dims", "dim0", "dim1", "axis", "dimension")
SIZES = ("shape", "size", "sizes")
BOUNDED = {*DIMS, "shifts", "diagonal", "k", "rank", "classes", "ignore_index", "padding", "blank"}
"""Numbers that choose among elements: no result is larger for them."""
FROM_BOTH_ENDS = {
    *("permute", "transpose", "squeeze", "unsqueeze", "spread_largest", "spread_average"),
    *[f"{how}_pool{rank}d" for how in ("max", "avg") for rank in (1, 2, 3)],
}
"""Ops whose dimensions may be negative in a graph; others have them from 0 on."""


def is_window(w: Window) -> bool:
    """Whether all windows begin in front of the end, and reach beyond the beginning."""
    if not all(map(in_range, w, LEAST, [1 << 40] * len(LEAST))):
        return False
    last = (w.outputs - 1) * w.stride - w.padding
    return w.padding <= (w.size - 1) * w.dilation and last <= w.length


def in_range(x: Any, least: int, most: int) -> bool:
    return type(x) is int and least <= x < most


def check_chain(chain: Any, kind: Any) -> Any:
    """The type that views of a value have, which are taken one after the other."""
    if chain is None:
        return kind
    before, op, attrs = chain
    kind = check_chain(before, kind)
    found = result_types(op, [kind], attrs)
    check_attributes(op, attrs, kind, found)
    return found


@functools.cache
def signature_of(op: Op) -> inspect.Signature:
    """What a kernel takes; options of NumPy's functions (``out``, ``order``) are none of graphs."""
    if not isinstance(op.eager, np.ufunc):
        return inspect.signature(op.eager)
    alone = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(f"x{n}", alone) for n in range(op.eager.nin)])


def result_types(op: Op, types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> Any:
    """The type of the results: by the op's rule, and by running its kernel if that is quick."""
    templates = [None if t is None else template(t) for t in types]
    found: Any = NotImplemented
    if isinstance(op, Elementwise) and len({t.dtype for t in types if t is not None}) > 1:
        raise TypeError(f"its operands are {', '.join(map(str, types))}")
    if op.infer is not None:
        found = op.infer(templates, attrs)
    size = sum([t.nbytes for t in types if t is not None])
    product = op.subscripts is not None and found is not NotImplemented
    if product:
        check_product(
            op.subscripts(attrs, *[t.shape for t in types if t is not None]), types, found
        )
    quick = op.tried and size <= TRIED and not product and not isinstance(op, Pointwise)
    full = all([t.size for t in types if t is not None])  # else zero may be no position in it
    most = 0 if isinstance(op, View) else max(1, size) * largest(attrs)
    if found is NotImplemented and most > LARGE:
        raise TypeError("its results are too large to be checked")
    if found is NotImplemented or (quick and full and most <= MUCH):
        zeros = [None if t is None else np.zeros(t.shape, t.dtype.numpy) for t in types]
        tried = local.state.run(op.compute, zeros, attrs)
        kinds = type_of(arrays(tried))
        if found is not NotImplemented and type_of(arrays(found)) != kinds:
            raise TypeError("its rule and its kernel disagree")
        return kinds
    return type_of(arrays(found))


def largest(attrs: Mapping[str, Any]) -> int:
    """The most elements that an attribute may stand for: a number, or the product of a shape."""
    found = [1]
    for name, value in attrs.items():
        if name in BOUNDED:
            continue
        numbers = value if type(value) is tuple else (value,)
        found.append(math.prod([n for n in numbers if type(n) is int and n > 1]))
    return max(found)


def check_product(letters: Sequence[str], types: Sequence[Any], found: Any) -> None:
    """An error unless each letter of a product is one size, in operands and result.

    A size of the result may be 1 in an operand, which is then the same for all.
    """
    *operands, result = letters
    if len({kind.dtype for kind in types}) > 1:
        raise TypeError(f"its operands are {', '.join(map(str, types))}")
    sizes = dict(zip(result, found.shape, strict=True))
    for names, kind in zip(operands, types, strict=True):
        for name, n in zip(names, kind.shape, strict=True):
            if sizes.setdefault(name, n) != n and not (n == 1 and name in result):
                raise TypeError(f"the size {name} of {letters} is {sizes[name]} and {n}")


def arrays(y: Any) -> Any:
    return tuple([np.asarray(part) for part in y]) if isinstance(y, tuple) else np.asarray(y)


def template(kind: TensorType) -> np.ndarray:
    """An array of this type without elements of its own."""
    return np.ndarray(kind.shape, kind.dtype.numpy, room(max(12, kind.nbytes.bit_length())))


def check_control(node: Node, states: set[Node], depth: int) -> None:
    """Branches and loops: the graphs inside take what the node is given, and give its results."""
    attrs, kinds = node.attrs, [n.type for n in node.inputs]  # type: ignore[union-attr]
    name = node.op.name
    graphs: list[tuple[Graph, Sequence[Any], Any]]
    pairs = [] if attrs["states"] == () else list(attrs["states"])
    for i, j in pairs:
        if node.inputs[j] not in states or node.type[i] != STATE:
            raise TypeError("what it says of generators is not so")
    if name == "cond":
        selector = node.inputs[0]
        if not attrs["branches"] or selector is None or selector.type.shape or selector in states:
            raise TypeError("it has no branches, or nothing that selects one")
        graphs = [(branch, node.inputs[1:], node.type) for branch in attrs["branches"]]
    elif name == "while_loop":
        carried = tuple(kinds[: len(attrs["body"].inputs)])
        graphs = [(attrs["body"], node.inputs, carried), (attrs["condition"], node.inputs, None)]
        expect(node, carried)
    elif name == "scan":
        graphs = [scan_body(node, kinds)]
    else:
        count, whole = len(attrs["body"].inputs), len(attrs["backward"].inputs)
        body = [*node.inputs[:count], *node.inputs[whole:]]
        gradients = tuple(kinds[count:whole])
        graphs = [(attrs["body"], body, tuple(kinds[:count]))]
        graphs += [(attrs["condition"], body, None), (attrs["backward"], node.inputs, gradients)]
        expect(node, gradients)
    for graph, operands, results in graphs:
        check_inside(graph, operands, results, states, depth)
    if any([n in states for n in node.inputs]) and not pairs:
        raise TypeError("the state of a generator is used as a tensor")


def scan_body(node: Node, kinds: Sequence[TensorType]) -> tuple[Graph, Any, Any]:
    """The body of a scan, its operands (rows where there are rows) and its results."""
    body, carried, length = (node.attrs[name] for name in ("body", "carried", "length"))
    count = len(body.inputs)
    if type(carried) is not int or type(length) is not int or not 0 <= carried <= count:
        raise TypeError("the numbers of what it carries and of its steps are none")
    rows = kinds[carried:count]
    if length < 0 or any([kind.shape[:1] != (length,) for kind in rows]):
        raise TypeError(f"it has {length} steps, which is not the number of rows")
    inner = [TensorType(kind.shape[1:], kind.dtype) for kind in rows]
    operands = [*node.inputs[:carried], *inner, *node.inputs[count:]]
    own = tuple(kinds[:carried])
    stacks = [TensorType((length, *n.type.shape), n.type.dtype) for n in body.outputs[carried:]]
    expect(node, (*own, *stacks))
    return body, operands, (*own, *[n.type for n in body.outputs[carried:]])


def check_inside(
    graph: Graph, operands: Sequence[Any], results: Any, states: set[Node], depth: int
) -> None:
    """A graph inside: what it takes are the operands, what it gives has the types ``results``."""
    leaves = (*graph.inputs, *graph.captured)
    if len(leaves) != len(operands):
        raise TypeError(f"a graph inside takes {len(leaves)} values of {len(operands)}")
    own = set()
    for leaf, operand in zip(leaves, operands, strict=True):
        kind = operand if isinstance(operand, TensorType) else operand.type
        if leaf.type != kind:
            raise TypeError(f"a graph inside takes {leaf.type} for {kind}")
        if operand in states:
            own.add(leaf)
    verify(graph, own, depth + 1)
    found = tuple([n.type for n in graph.outputs])
    if results is None:
        if len(found) != 1 or found[0].shape:
            raise TypeError("a condition is no single value")
    elif found != tuple(results):
        raise TypeError(f"a graph inside gives {show(found)}, not {show(tuple(results))}")
