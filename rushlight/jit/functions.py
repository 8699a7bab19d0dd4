"""ScriptFunction and ScriptModule: programs with the face of a function or a module."""

from __future__ import annotations

import functools
import io
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rushlight.graph.ir import Graph
from rushlight.jit import files
from rushlight.jit.attributes import restore
from rushlight.jit.code import code_of
from rushlight.jit.parts import Fixed, Part, fix
from rushlight.jit.programs import Programs
from rushlight.jit.state import State
from rushlight.nn.module import Module
from rushlight.tensor import Tensor

CURE = (
    "change the module before it is traced, or put layers behind the program: "
    "nn.Sequential(program, nn.Linear(10, 2))"
)


class ScriptFunction:
    """A function that runs as a program, and that can be saved.

    Tensors that it uses beside its arguments are part of it: :meth:`state_dict` lists them. A
    function that trains changes them at each call, and goes on from there when it is loaded.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        name = getattr(function, "__qualname__", type(function).__name__)
        self.programs = Programs(function, name, State())

    @classmethod
    def of(cls, programs: Programs) -> ScriptFunction:
        """A method, whose programs are known."""
        found = cls.__new__(cls)
        found.programs = programs
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.programs(*args, **kwargs)

    @property
    def name(self) -> str:
        return self.programs.name

    @property
    def graph(self) -> Graph:
        """The graph of what a call computes, without gradients of its results."""
        return self.programs.graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        """The graph as text that reads like Python."""
        return code_of(self.programs.first, "f")

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers that are read at each call, such as a learning rate; they may be changed."""
        return self.programs.state.numbers

    def state_dict(self) -> OrderedDict[str, Tensor]:
        """The tensors of the function by name."""
        state = self.programs.state
        return OrderedDict([(name, state.tensors[i].detach()) for name, i, _ in state.names])

    def parameters(self) -> Iterator[Tensor]:
        """The tensors of the function that want gradients."""
        return iter([t for t in self.programs.state.tensors if t.requires_grad])

    def save(self, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
        """Saves the programs and tensors, without any code."""
        files.save(self.programs, f, _extra_files)

    def save_to_buffer(self) -> bytes:
        """The bytes of the file that :meth:`save` writes."""
        return saved(self.programs)

    def __repr__(self) -> str:
        return f"<rushlight.jit.ScriptFunction {self.name}>"


class ScriptModule(Module):
    """A module that runs as a program; the base of those that ``script`` and ``load`` give."""


class ScriptPart(Part, ScriptModule):
    """A module inside one that ``load`` gives."""


class RecursiveScriptModule(ScriptModule):
    """Programs over the parameters and buffers of a module.

    The module is the one that was given to ``script`` or ``trace``; or, after ``load``, one that
    has no code of its own, but all tensors by their names.
    """

    def __init__(self, module: Module, programs: Programs) -> None:
        super().__init__()
        for name in ("_parameters", "_buffers", "_non_persistent_buffers_set"):
            self.__dict__[name] = vars(module)[name]
        children = Fixed(module._modules, CURE)
        self.__dict__.update(_modules=children, _module=module, _programs=programs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_programs"](*args, **kwargs)

    @property
    def training(self) -> bool:  # type: ignore[override]
        """Whether the module is in training mode, for which it may have another program."""
        return self._module.training

    def train(self, mode: bool = True) -> RecursiveScriptModule:
        self._module.train(mode)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RecursiveScriptModule:
        """As for any module; but what has no code of its own keeps the dtypes that it is for."""
        if self._programs.function is None:
            for name, t in (*self.named_parameters(), *self.named_buffers()):
                new = fn(t.detach()[..., :0] if t.ndim else t.detach()).dtype
                if new is not t.dtype:
                    raise TypeError(
                        f"{name} is {t.dtype}, for which the programs of the file were made; it "
                        f"cannot become {new}: convert the module before it is traced and saved"
                    )
        return super()._apply(fn, recurse)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):  # hooks of its own
            self.__dict__[name] = value
        elif isinstance(value, Module) or name in self._modules:
            self._modules[name] = value  # an error
        else:
            setattr(self._module, name, value)

    def __getattr__(self, name: str) -> Any:
        programs = self.__dict__["_programs"]
        if name in programs.methods:
            return ScriptFunction.of(programs.methods[name])
        if programs.function is None and name in programs.left_out:
            raise AttributeError(
                f"{programs.name} has no {name!r} in its file: it is {programs.left_out[name]}"
            )
        return getattr(self.__dict__["_module"], name)

    def __getitem__(self, index: Any) -> Any:
        return self._module[index]

    def __len__(self) -> int:
        return len(self._module)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(self._module)

    @property
    def original_name(self) -> str:
        return self._programs.name

    @property
    def graph(self) -> Graph:
        """The graph of what a call computes in the present mode, without gradients."""
        return self._programs.graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        """The graph as text that reads like Python."""
        return code_of(self._programs.first, "forward")

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers that are read at each call, such as a learning rate; they may be changed."""
        return self._programs.state.numbers

    def save(self, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
        """Saves the programs of both modes, parameters and buffers, without any code."""
        files.save(self._programs, f, _extra_files)

    def save_to_buffer(self) -> bytes:
        """The bytes of the file that :meth:`save` writes."""
        return saved(self._programs)

    def __reduce__(self) -> Any:
        """A copy has tensors of its own, and no Python code."""
        return restored, (self.save_to_buffer(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> RecursiveScriptModule:
        return restored(self.save_to_buffer())

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


def saved(programs: Programs) -> bytes:
    buffer = io.BytesIO()
    files.save(programs, buffer)
    return buffer.getvalue()


def restored(data: bytes) -> RecursiveScriptModule:
    """The module in the bytes of a file."""
    return loaded(files.load(io.BytesIO(data)))


def loaded(programs: Programs) -> RecursiveScriptModule:
    """A module of the programs of a file, whose tensors have their names in it."""
    module = programs.state.tree(ScriptPart)
    restore(module, programs.attributes)
    fix(module, CURE)
    module.train(programs.starts_training)
    for each in (programs, *programs.methods.values()):
        each.module = module
    return RecursiveScriptModule(module, programs)
