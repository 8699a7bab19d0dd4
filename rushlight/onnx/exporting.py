"""``rl.onnx.export``: a model and example arguments → graph → ONNX file, checked afterwards."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.errors import warn
from rushlight.export.exported_program import ExportedProgram
from rushlight.graph.multiples import line_of, lines_of
from rushlight.graph.results import leaves
from rushlight.jit.functions import RecursiveScriptModule
from rushlight.jit.originals import original
from rushlight.nn.module import Module
from rushlight.onnx.exporters import EXPORTERS
from rushlight.onnx.loading import required
from rushlight.onnx.module import OnnxModule
from rushlight.onnx.options import OnnxExporterError, OperatorExportTypes, TrainingMode
from rushlight.onnx.saving import ONNXProgram
from rushlight.onnx.sizes import changes_by_argument, changes_by_name
from rushlight.onnx.tracing import Traced, named_tensors, trace
from rushlight.onnx.verifying import verify as verify_program
from rushlight.onnx.writer import Writer
from rushlight.ops.base import registry

OPSET, OLDEST = 18, 13


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool | None = None,
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = True,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: Any = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: Any = False,
    autograd_inlining: bool = True,
) -> ONNXProgram | None:
    """Writes a model to an ONNX file, which other runtimes execute.

    The model is run once on the example arguments to write down its graph. What was written is
    read again by :func:`load` and run, and its results are compared with those of the model.

    Args:
        model: a module or function of tensors, or what ``rl.export.export`` gives, which knows
            examples and the sizes that change.
        args: a tensor, or a tuple of arguments; a dict in the end holds keyword arguments.
        f: a path, or a file to write to; None writes nothing.
        kwargs: keyword arguments.
        verbose: print the graph of the file.
        input_names, output_names: names of inputs and outputs, in order; else inputs are called as
            the parameters of ``forward`` are, and both as in the file of a model that was loaded.
        opset_version: the version of ONNX's operators, 13 or later; 18 if it is None.
        external_data: weights go to a file of their own, ``f`` + ".data"; if it is None, only
            those of a model that is larger than 2 GB, which an ONNX file cannot be.
        dynamic_axes: which sizes may be others: ``{"x": {0: "batch"}}`` or ``{"x": [0]}``.
        dynamic_shapes: the same by arguments: ``({0: "batch"},)`` or ``{"x": {0: "batch"}}``.
        verify: compare the results of the written file with those of the model.
        export_params: False leaves the weights out: they become inputs.
        keep_initializers_as_inputs: weights are inputs too, with themselves as defaults.
        training: the mode of the model while it is traced.
        do_constant_folding: compute what depends on weights alone now; a parameter of which a view
            is taken (a transpose, a slice) stays whole, and has its own name.
        dynamo: False returns None, as PyTorch's older exporter does.
        custom_translation_table, custom_opsets, export_modules_as_functions: must be left empty.
        report, optimize, profile, dump_exported_program, artifacts_dir, operator_export_type,
            autograd_inlining: accepted as PyTorch has them; nothing depends on them.

    Raises:
        OnnxExporterError: for an op that ONNX cannot say, with the user's line; or if the file
            computes something else than the model.

    >>> model = rl.nn.Sequential(rl.nn.Linear(4, 3), rl.nn.ReLU())
    >>> program = rl.onnx.export(model, rl.ones(2, 4), input_names=["x"])
    >>> [node.op_type for node in program.model_proto.graph.node]
    ['Gemm', 'Relu']
    """
    refuse_custom(custom_translation_table, custom_opsets, export_modules_as_functions)
    opset = checked_opset(opset_version)
    if isinstance(model, ExportedProgram):
        training = TrainingMode.TRAINING if model.training else TrainingMode.EVAL
        if args == () and kwargs is None and model.example_inputs is not None:
            args, kwargs = model.example_inputs
        if dynamic_axes is None and dynamic_shapes is None:
            dynamic_shapes = model.dynamic_shapes
        model = model.source or model.module()
    model = original(model)
    if not callable(model):
        raise TypeError(f"onnx.export(): expected a module or a function, got {model!r}")
    if output_names is None and isinstance(model, OnnxModule):
        output_names = model.output_names
    args, given = arguments(args, kwargs)
    parameters = by_parameters(model, args, given)
    for name in [name for name, value in parameters if type(value) is float]:
        warn(
            f"onnx.export(): {name} is a number, and a constant in the file. Pass a tensor to make "
            "it an input."
        )
    named = [pair for name, value in parameters for pair in named_tensors(value, name, inner=True)]
    inputs = chosen_names("input_names", input_names, [name for name, _ in named])
    tensors = list(zip(inputs, [t for _, t in named], strict=True))
    if dynamic_shapes is not None:
        changes = changes_by_argument(dynamic_shapes, arguments_of(model, args, given), tensors)
    else:
        changes = changes_by_name(dynamic_axes or {}, tensors, (*inputs, *(output_names or ())))
    with in_mode(model, training):
        traced = trace(model, args, given, whole_ops(opset), inputs, changes)
        if not traced.outputs:
            raise OnnxExporterError("the model returns no tensor, so a file of it has no result")
        outputs = chosen_names("output_names", output_names, traced.outputs)
        twice = sorted({*inputs} & {*outputs})
        if twice:
            raise ValueError(
                f"onnx.export(): an input and an output are called {twice[0]!r}; names must differ"
            )
        check_writes(traced, training)
        if traced.said:
            warn(
                f"the exported model prints nothing and checks no values, as the model does at "
                f"{', '.join(traced.said)}: ONNX has no operators for that"
            )
        writer = written(traced, inputs, outputs, opset, do_constant_folding)
        program = ONNXProgram(writer, type(model).__name__, traced.symbols)
        if verbose:
            print(program)
        if verify:
            verify_program(program, model, args, given, traced)
    if f is not None:
        program.save(
            f, include_initializers=export_params, external_data=external_data,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
        )  # fmt: skip
        if not dynamo:
            return None
    return program


def refuse_custom(table: Any, opsets: Any, functions: Any) -> None:
    given = {
        "custom_translation_table": table,
        "custom_opsets": opsets,
        "export_modules_as_functions": functions,
    }
    for name, value in given.items():
        if value:
            raise NotImplementedError(f"onnx.export(): {name} is not supported, leave it out")


def checked_opset(version: int | None) -> int:
    newest = required().defs.onnx_opset_version()
    version = OPSET if version is None else version
    if type(version) is not int:
        raise TypeError(f"onnx.export(): opset_version must be an int, not {version!r}")
    if not OLDEST <= version <= newest:
        raise ValueError(
            f"onnx.export(): opset_version={version}, but versions {OLDEST} to {newest} can be "
            "written"
        )
    return version


def arguments(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    """Positional and keyword arguments; each tensor is an object of its own."""
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if kwargs is None and args and isinstance(args[-1], dict):
        *args, kwargs = args
    tensors, rebuild = leaves((tuple(args), dict(kwargs or {})), ())
    return rebuild([t.detach() for t in tensors])


def names_in_file(model: Any) -> list[str] | None:
    """The names of the arguments of a model that has no Python code, but comes from a file."""
    if isinstance(model, OnnxModule):
        return model.input_names
    if isinstance(model, RecursiveScriptModule):
        return [name for name, _ in model._programs.first.border.arguments]
    return None


def by_parameters(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """The arguments, by the names of parameters, or of the inputs of the file."""
    names = names_in_file(model)
    if names is not None:
        return [*zip(names, args, strict=False), *kwargs.items()]
    function = model.forward if isinstance(model, Module) else model
    parameters = list(inspect.signature(function).parameters.values())
    named = []
    for number, value in enumerate(args):
        p = parameters[min(number, len(parameters) - 1)]
        rest = p.kind is inspect.Parameter.VAR_POSITIONAL
        named.append((f"{p.name}_{number - parameters.index(p)}" if rest else p.name, value))
    return [*named, *kwargs.items()]


def arguments_of(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments by the parameters that take them; several for one are a tuple."""
    if names_in_file(model) is not None:
        return dict(by_parameters(model, args, kwargs))
    function = model.forward if isinstance(model, Module) else model
    return inspect.signature(function).bind(*args, **kwargs).arguments


def chosen_names(what: str, chosen: Sequence[str] | None, usual: Sequence[str]) -> list[str]:
    """The names that the user has chosen, then the usual ones; none of them twice."""
    if chosen is not None and len(chosen) > len(usual):
        raise ValueError(
            f"onnx.export(): {len(chosen)} {what} for {len(usual)} tensors: {list(chosen)}"
        )
    names = list(chosen or ())
    for name in usual[len(names) :]:
        number, own = 0, name
        while own in names:
            number += 1
            own = f"{name}_{number}"
        names.append(own)
    if len(set(names)) < len(names):
        raise ValueError(f"onnx.export(): {what} must differ, got {names}")
    return names


@contextmanager
def in_mode(model: Any, training: TrainingMode) -> Iterator[None]:
    """The model in the mode that is wanted; then every part of it as before."""
    modules = list(model.modules()) if isinstance(model, Module) else []
    before = [(m, m.training) for m in modules]
    for m in modules:
        if training != TrainingMode.PRESERVE:
            m.training = training == TrainingMode.TRAINING
    try:
        yield
    finally:
        for m, mode in before:
            m.training = mode


def whole_ops(opset: int) -> list[Any]:
    """The ops that ONNX has an operator of: they are not taken apart."""
    exporters = [(registry.get(name), e) for name, e in EXPORTERS.items()]
    return [op for op, e in exporters if op is not None and e.whole and e.since <= opset]


def check_writes(traced: Traced, training: TrainingMode) -> None:
    """A file cannot change anything: what the model writes to its buffers is left out."""
    targets = [target for target, _ in traced.graph.writes if target not in traced.generators]
    names = [traced.names[target] for target in targets if target in traced.names]
    if len(names) < len(targets):
        raise OnnxExporterError("the model writes to its arguments, which an ONNX file cannot do")
    if names and training != TrainingMode.EVAL:
        raise OnnxExporterError(
            f"the model writes to {', '.join(names)} in training mode, which an ONNX file cannot do"
        )
    if names:
        warn(f"the exported model does not write to {', '.join(names)}, as the model itself does")


def written(
    traced: Traced, inputs: Sequence[str], outputs: Sequence[str], opset: int, fold: bool
) -> Writer:
    """The nodes of the file."""
    graph = traced.graph
    places: dict[str, tuple[str, int, int]] = {}
    for node, name in zip(graph.inputs, inputs, strict=True):
        for axis, line in enumerate(map(line_of, node.type.shape)):
            if line is not None:
                places.setdefault(line.name, (name, axis, line.step))
    w = Writer(opset, fold, places, traced.possible)
    w.taken.update(inputs, outputs)
    for node, name in zip(graph.inputs, inputs, strict=True):
        w.values[node] = name
        w.root.inputs.append((name, node.type))
        if any([line.step > 1 for line in lines_of([node.type.shape])]):
            # Of other sizes, the number of elements is another one: an error.
            zeros = {"allowzero": 1} if opset >= 14 else {}
            w.values[node] = w("Reshape", name, w.measures.vector(node.type.shape), **zeros)
    w.titles.update(traced.names)
    w.parameters.update(traced.parameters)
    for node, array in traced.captured.items():
        if node in traced.numbers:
            w.values[node] = w.measures.number(traced.numbers[node])
        else:
            w.arrays[node] = array
    w.values.update(dict.fromkeys(traced.generators, ""))  # a runtime has its own
    names = w.write(graph)
    wrong = w.measures.refused(traced.conditions)
    if wrong is not None:
        names = [only_if_right(w, name, wrong) for name in names]
    kinds = [node.type for node in graph.outputs]
    w.close(list(zip(names, outputs, kinds, strict=True)))
    return w


def only_if_right(w: Writer, name: str, wrong: str) -> str:
    """A result, or an error for sizes that the graph is ``wrong`` for: then the index is 1.

    The only check of values that all runtimes have; the shape of the result is known beforehand.
    """
    return w("Gather", w("Unsqueeze", name, w.ints(0)), wrong, axis=0)


_export = export  # an older name of PyTorch's
