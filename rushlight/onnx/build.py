"""Messages of an ONNX file made steps: names resolved, attributes decoded, versions chosen."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.jit.parts import Part
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.onnx import importers  # noqa: F401 - registers the ops
from rushlight.onnx.elements import HELD, array_of, dense, element_of
from rushlight.onnx.errors import NodeError, OnnxError
from rushlight.onnx.importers.registry import Importer, find
from rushlight.onnx.program import Body, Call, Slot, Step
from rushlight.tensor import wrap

DEFAULT_DOMAINS = ("", "ai.onnx")
MOST_DEPTH = 50  # of graphs in graphs and functions in functions
MOST_STEPS = 200_000  # with those of functions, once for each call
MOST_BODIES = 5_000  # of functions, one for all calls with the same attributes
MOST_PLAIN = 1 << 16  # elements of a vector of zeros or ones that has several names
RESERVED = frozenset((*dir(Module), *vars(Module()), "input_names", "output_names"))
SHAPE_LIKE = (np.int64, np.int32, np.bool_)  # what shapes and axes are made of

Bound = Mapping[str, Any]  # attributes that a function's body refers to
# domain, op, version → the FunctionProto that defines the op, and defaults of its attributes
Finder = Callable[[str, str, int], tuple[Any, Bound] | None]


DATA, KNOWN, STATISTIC = "data", "known", "statistic"


def roles_of(steps: Sequence[Step]) -> dict[str, set[str]]:
    """What the values of a body are read as.

    What only makes values that must be known is itself read as one; what has a second name is
    read as that is.
    """
    roles: dict[str, set[str]] = defaultdict(set)
    for step in reversed(steps):
        importer = step.importer
        structural = importer.host and all([roles[name] == {KNOWN} for name in step.outputs])
        if is_identity(step):
            roles[step.inputs[0]] |= roles[step.outputs[0]] or {DATA}
            continue
        for name, parameter in zip(step.inputs, step.names, strict=True):
            if parameter in importer.known or structural:
                roles[name].add(KNOWN)
            else:
                roles[name].add(STATISTIC if parameter in importer.statistics else DATA)
        for body in step.bodies.values():
            for name in body.captures:
                roles[name].add(DATA)
    return roles


def is_identity(step: Step) -> bool:
    """Whether a step gives a value a second name, and nothing else."""
    own = isinstance(step.importer.function, Call)
    return step.op == "Identity" and not own and len(step.inputs) == len(step.outputs) == 1


def part_merged(
    steps: Sequence[Step], arrays: dict[str, np.ndarray], given: Collection[str]
) -> list[Step]:
    """Tensors that a file has merged by their values are parted; the steps without their names.

    PyTorch writes equal tensors once, with a second name for each of the others. Statistics are no
    weights, and all zeros or ones are so by chance; what is equal otherwise is tied.
    """
    roles, left = roles_of(steps), []
    for step in steps:
        name = step.inputs[0] if is_identity(step) else ""
        if name in arrays and name not in given and is_merged(arrays[name], roles[step.outputs[0]]):
            arrays[step.outputs[0]] = arrays[name].copy()
        else:
            left.append(step)
    return left


def is_merged(array: np.ndarray, roles: set[str]) -> bool:
    if not is_floating(array) or STATISTIC in roles:
        return is_floating(array)
    return array.ndim == 1 and 1 < array.size <= MOST_PLAIN and bool((array == array[0]).all())


def part_statistics(steps: Sequence[Step], arrays: dict[str, np.ndarray], taken: set[str]) -> None:
    """Statistics that a file has merged with equal weights get tensors and names of their own."""
    roles = roles_of(steps)
    for step in steps:
        given = list(zip(step.inputs, step.names, strict=True))
        for i, (name, parameter) in enumerate(given):
            if parameter in step.importer.statistics and name in arrays and DATA in roles[name]:
                own = f"{name}_{parameter}"
                while own in taken:
                    own += "_"
                taken.add(own)
                arrays[own] = arrays[name].copy()
                step.inputs = (*step.inputs[:i], own, *step.inputs[i + 1 :])


def is_floating(array: np.ndarray) -> bool:
    return array.dtype in HELD and dtypes.from_numpy(array.dtype).category >= dtypes.FLOAT


class Store:
    """Gives the tensors of a file their places in a module, under names that Python allows.

    Dots lead into modules inside, so that ``conv1.weight`` is found where PyTorch has it.
    """

    def __init__(self, module: Module) -> None:
        self.module = module

    def add(self, name: str, array: np.ndarray, trained: bool) -> Slot:
        *path, last = [identifier(part) for part in name.split(".") if part] or ["tensor"]
        module = self.module
        for part in path:
            part = free(module, part, module._modules)
            if part not in module._modules:
                module.add_module(part, Part())
            module = module.get_submodule(part)
        attribute = free(module, last)
        if trained:
            module.register_parameter(attribute, Parameter(wrap(array)))
        else:
            module.register_buffer(attribute, wrap(array))
        return Slot(name, module, attribute)


def identifier(part: str) -> str:
    """A name that Python allows, and that is not one of Rushlight's own."""
    return re.sub(r"\W", "_", part).lstrip("_") or "tensor"


def free(module: Module, name: str, allowed: Iterable[str] = ()) -> str:
    """``name``, or one like it that the module does not have yet, other than as ``allowed``."""
    taken = {*RESERVED, *module._parameters, *module._buffers, *module._modules}.difference(allowed)
    number, result = 0, name
    while result in taken:
        number += 1
        result = f"{name}_{number}"
    return result


class Builder:
    """Makes bodies of graphs and functions.

    Args:
        store: where initializers go.
        versions: the version of each operator set that the file (or function) imports.
        functions: the functions that the file defines, by domain, name and overload.
        standard: the functions that define ops of the standard in terms of others.
        external: reads external data.
    """

    def __init__(
        self,
        store: Store,
        versions: Mapping[str, int],
        functions: Mapping[tuple[str, str, str], Any],
        standard: Finder,
        external: Any,
    ) -> None:
        self.store, self.versions, self.functions = store, versions, functions
        self.standard, self.external = standard, external
        self.depth, self.in_function = 0, False
        self.counter = count()
        self.made: dict[Any, tuple[Importer, int]] = {}  # functions by attributes, with heights

    def inside(self, imports: Iterable[Any] | None = None) -> Builder:
        """A builder for what lies inside a node: a graph, or a function with its own imports."""
        if self.depth >= MOST_DEPTH:
            raise too_deep()
        inner = copy(self)
        inner.depth += 1
        if imports is not None:
            inner.versions, inner.in_function = versions_of(imports), True
        return inner

    def graph(self, proto: Any, outer: Iterable[str] = (), bound: Bound | None = None) -> Body:
        """The body of a GraphProto, in which the names ``outer`` are known."""
        arrays: dict[str, np.ndarray] = {}
        for message, read in [
            *((m, array_of) for m in proto.initializer),
            *((m, dense) for m in proto.sparse_initializer),
        ]:
            name = message.name if read is array_of else message.values.name
            if not name or name in arrays:
                raise OnnxError(f"two initializers are called {name!r}")
            try:
                arrays[name] = read(message, self.external)
            except OnnxError as error:
                raise OnnxError(f"initializer {name!r}: {error}") from None
        inputs = [value.name for value in proto.input]
        if not self.depth:  # initializers that may be given as inputs are given last, by name
            inputs = sorted(inputs, key=lambda name: name in arrays)
        outputs = [value.name for value in proto.output]
        made = self.body(inputs, outputs, proto.node, arrays, set(outer), bound or {})
        made.stated = [stated_type(value.type) for value in proto.output]
        return made

    def function(self, proto: Any, attributes: Bound) -> Importer:
        """A FunctionProto as a node with these attributes calls it.

        All calls with equal attributes share one body: functions that call others twice, and so
        on, would take time that grows exponentially with the size of the file.
        """
        bound = {default.name: default for default in proto.attribute_proto} | dict(attributes)
        texts = [(name, a.SerializeToString(deterministic=True)) for name, a in bound.items()]
        version = self.versions.get(proto.domain)
        key = (proto.domain, proto.name, getattr(proto, "overload", ""), version, *sorted(texts))
        if key not in self.made:
            if len(self.made) >= MOST_BODIES:
                raise OnnxError(f"functions have more than {MOST_BODIES} different calls")
            inner = self.inside(proto.opset_import)
            body = inner.body(proto.input, proto.output, proto.node, {}, set(), bound)
            self.made[key] = Importer(Call(body), raw=True), body.height
        importer, height = self.made[key]
        if self.depth + height > MOST_DEPTH:
            raise too_deep()
        return importer

    def body(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        nodes: Iterable[Any],
        arrays: dict[str, np.ndarray],
        outer: set[str],
        bound: Bound,
    ) -> Body:
        """A body of nodes; ``arrays`` are its initializers."""
        if len(set(inputs)) < len(inputs):
            raise OnnxError(f"two inputs have the same name: {list(inputs)}")
        constants: dict[str, np.ndarray] = {}
        own = {*inputs, *arrays}
        names = own | outer
        steps: list[Step] = []
        for node in in_order(nodes, names):
            try:
                step = self.step(node, names, bound)
                for name in filter(None, node.output):
                    if name in own:
                        raise OnnxError(f"{name!r} is computed twice")
                    own.add(name)
                    names.add(name)
                if node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS:
                    constants[node.output[0]] = step.importer.function(**step.attributes)
                else:
                    steps.append(step)
            except NodeError:
                raise
            except OnnxError as error:
                raise NodeError(f"{label_of(node)}: {error}") from None
        for name in outputs:
            if name not in names:
                raise OnnxError(f"the output {name!r} is not computed")
        steps = part_merged(steps, arrays, inputs)
        part_statistics(steps, arrays, names)
        own |= arrays.keys()
        reads = set(outputs).union(*[step.reads() for step in steps])
        slots = self.place(arrays, constants, steps)
        made = Body(inputs, outputs, steps, constants, slots, sorted(reads - own))
        if made.count > MOST_STEPS:
            raise too_many()
        return made

    def place(
        self,
        arrays: Mapping[str, np.ndarray],
        constants: dict[str, np.ndarray],
        steps: Sequence[Step],
    ) -> list[Slot]:
        """Decides what each tensor of the file is: a parameter, a buffer, or a constant."""
        roles = roles_of(steps)
        slots = []
        for name, array in arrays.items():
            structure = array.dtype in SHAPE_LIKE and array.ndim < 2
            if array.dtype not in HELD or structure or roles[name] == {KNOWN}:
                constants[name] = array
            else:
                trained = is_floating(array) and array.ndim > 0 and STATISTIC not in roles[name]
                slots.append(self.store.add(name, array, trained))
        if self.in_function:
            return slots
        for name, array in list(constants.items()):  # weights that the file has as nodes
            if is_floating(array) and array.size > 1 and roles[name] - {KNOWN}:
                slots.append(self.store.add(name, array, STATISTIC not in roles[name]))
                del constants[name]
        return slots

    def step(self, node: Any, names: set[str], bound: Bound) -> Step:
        """The step of one node, all of whose inputs are among ``names``."""
        if next(self.counter) >= MOST_STEPS:
            raise too_many()
        raw = {a.name: self.resolve(a, bound) for a in node.attribute}
        raw = {name: a for name, a in raw.items() if a is not None}
        inputs, outputs = trimmed(node.input), trimmed(node.output)
        for name in inputs:
            if name and name not in names:
                raise OnnxError(f"its input {name!r} does not exist, or is part of a cycle")
        importer = self.importer(node, raw)
        attributes: dict[str, Any] = {}
        if not isinstance(importer.function, Call):
            attributes = {name: self.decode(a, names, bound) for name, a in raw.items()}
        parameters = importer.parameters
        if "outputs" in parameters:
            attributes["outputs"] = len(outputs)
        variadic = any([p.kind is p.VAR_KEYWORD for p in parameters.values()])
        for name in attributes:
            if name not in parameters and not variadic:
                raise OnnxError(f"the attribute {name!r} is not supported")
        check_required(importer, len(inputs), attributes)
        return Step(node.op_type, label_of(node), importer, inputs, outputs, attributes)

    def importer(self, node: Any, attributes: Bound) -> Importer:
        """Who serves the node: a function of the file, an importer, or the standard's formula."""
        domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
        own = self.functions.get((node.domain, node.op_type, getattr(node, "overload", "")))
        if own is None:
            if domain not in self.versions:
                raise OnnxError(f"the file imports no version of the operator set {domain!r}")
            version = self.versions[domain]
            found = find(domain, node.op_type, version)
            if found is not None:
                return found
            formula = self.standard(domain, node.op_type, version)
            if formula is None:
                where = f" of {domain!r}" if domain else ""
                raise OnnxError(f"this op{where} is not supported")
            own, defaults = formula
            attributes = {**defaults, **attributes}
        return self.function(own, attributes)

    def resolve(self, attribute: Any, bound: Bound) -> Any:
        """The attribute, or what a reference to a function's attribute stands for."""
        if attribute.ref_attr_name:
            return bound.get(attribute.ref_attr_name)
        return attribute

    def decode(self, attribute: Any, names: set[str], bound: Bound) -> Any:
        """The Python value of an AttributeProto."""
        match attribute.type:
            case 1:
                return attribute.f
            case 2:
                return attribute.i
            case 3:
                return text_of(attribute.s)
            case 4:
                return array_of(attribute.t, self.external)
            case 5:
                return self.inside().graph(attribute.g, names, bound)
            case 6:
                return list(attribute.floats)
            case 7:
                return list(attribute.ints)
            case 8:
                return [text_of(s) for s in attribute.strings]
            case 9:
                return [array_of(t, self.external) for t in attribute.tensors]
            case 11:
                return dense(attribute.sparse_tensor, self.external)
            case 13:
                return attribute.tp
            case kind:
                raise OnnxError(f"{attribute.name!r} is an attribute of type {kind}")


def stated_type(message: Any) -> tuple[dtypes.dtype, list[int]]:
    """The elements and sizes of a TypeProto; a size that varies is 0, and elements are floats."""
    tensor = message.tensor_type
    try:
        kind = dtypes.from_numpy(element_of(tensor.elem_type).numpy)
    except (OnnxError, KeyError, TypeError):  # strings, and what is computed as other elements
        kind = dtypes.float32
    return kind, [max(0, d.dim_value) for d in tensor.shape.dim]


def too_many() -> OnnxError:
    return OnnxError(f"there are more than {MOST_STEPS} nodes, those of functions included")


def too_deep() -> OnnxError:
    return OnnxError(f"graphs or functions are nested more than {MOST_DEPTH} deep")


def check_required(importer: Importer, count: int, attributes: Mapping[str, Any]) -> None:
    """An error that names the inputs and attributes that are missing."""
    given = {*importer.names(count), *attributes, "training"}
    for p in importer.parameters.values():
        variadic = p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if p.default is inspect.Parameter.empty and not variadic and p.name not in given:
            raise OnnxError(f"{p.name!r} is missing")


def in_order(nodes: Iterable[Any], known: set[str]) -> list[Any]:
    """The nodes, each after those that it reads from; those of a cycle last."""
    waiting, result = list(nodes), []
    makers = {name: i for i, node in enumerate(waiting) for name in node.output if name}
    users: dict[int, list[int]] = defaultdict(list)
    missing = []
    for i, node in enumerate(waiting):
        sources = {makers[name] for name in reads_of(node) - known if name in makers}
        missing.append(len(sources))
        for source in sources:
            users[source].append(i)
    ready = [i for i, count in enumerate(missing) if not count]  # a heap: the file's order, if any
    while ready:
        i = heappop(ready)
        result.append(waiting[i])
        for user in users[i]:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, user)
    return result + [node for i, node in enumerate(waiting) if missing[i]]


def reads_of(node: Any) -> set[str]:
    """The names that a node reads, those of its graphs' surroundings among them."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.type == 5 else attribute.graphs:
            inner = {v.name for v in graph.input} | {t.name for t in graph.initializer}
            for child in graph.node:
                names |= reads_of(child) - inner
                inner |= set(child.output)
            names |= {value.name for value in graph.output} - inner
    return names


def versions_of(imports: Iterable[Any]) -> dict[str, int]:
    """The version of each operator set, with one name for the standard one."""
    return {"" if i.domain in DEFAULT_DOMAINS else i.domain: i.version for i in imports}


def label_of(node: Any) -> str:
    """How messages call a node."""
    name = node.name or next((name for name in node.output if name), "")
    return f"node {name!r} ({node.op_type})"


def text_of(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def trimmed(names: Iterable[str]) -> list[str]:
    """The names without the empty ones at the end, which stand for what is not there."""
    result = list(names)
    while result and not result[-1]:
        result.pop()
    return result
