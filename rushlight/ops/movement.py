"""Views of all elements with their dimensions in another order, repeated, added or dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.modes import local
from rushlight.layouts import shape_of
from rushlight.ops.base import axes, axis, composite, need_tensor, numpy_names, registry
from rushlight.ops.elements import replaced, woven
from rushlight.ops.memory import restrided
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.views import ALWAYS, INSERT, WRONG, View, as_shape, changes_metadata, viewed
from rushlight.symbol import Symbol
from rushlight.tensor import Tensor, install


class Permute(View):
    """The dimensions in another order.

    >>> rl.zeros(2, 3, 5).permute(2, 0, 1).shape
    rushlight.Size([5, 2, 3])
    """

    samples = [S(T(2, 3, 4), (2, 0, 1)), S(T(2, 3), (0, -1)), S(T(), ()), S(T(2, 0, 3), (1, 2, 0))]
    errors = [
        Fails(RuntimeError, "2 dimensions, got 1", T(2, 3), (0,)),
        Fails(RuntimeError, "dim 0 appears multiple times", T(2, 3), (0, 0)),
        Fails(IndexError, "out of range", T(2, 3), (0, 2)),
        Fails(TypeError, "takes ints", T(2, 3), (0.0, 1)),
    ]

    def make(self) -> Callable[..., Any]:
        op, check, apply = self, self.check, self.apply

        def permute(
            input: Tensor, *order: int | Sequence[int], dims: Sequence[int] | None = None
        ) -> Tensor:
            wanted: Any = order
            if len(order) == 1 and type(order[0]) is not int:
                (wanted,) = order
            try:
                array = input._array.transpose(wanted)
            except WRONG:
                array = None
            if array is None or len(wanted) != array.ndim or dims is not None:
                return apply(*check(input, wanted if dims is None else dims))
            return viewed(op, input, array, {"dims": wanted})

        return permute

    def check(self, input: Tensor, *dims: Any) -> Any:
        x = need_tensor("permute", input)
        order = [axis(d, x.ndim) for d in as_shape("permute", dims)]
        if len(order) != x.ndim:
            raise RuntimeError(
                f"permute(): the tensor has {x.ndim} dimensions, got {len(order)} in dims={order}"
            )
        if len(set(order)) != len(order):
            twice = next(d for d in order if order.count(d) > 1)
            raise RuntimeError(f"permute(): dim {twice} appears multiple times in dims={order}")
        return (x,), {"dims": tuple(order)}

    def eager(self, x, *, dims):
        return x.transpose(dims)

    def origin(self, b, i, shape, *, dims):
        return replaced(i, [d % len(i) for d in dims], i)

    def seen(self, b, j, shape, *, dims):
        return ALWAYS, [j[d] for d in dims]

    def vjp(self, g, _y, _x, *, dims):
        count = len(dims)
        back = sorted(range(count), key=[d % count for d in dims].__getitem__)
        return g.permute(tuple(back))


class Transpose(View):
    """Two dimensions swapped.

    >>> rl.zeros(2, 3, 5).transpose(0, 2).shape
    rushlight.Size([5, 3, 2])
    """

    aliases = ("swapdims",)
    samples = [S(T(2, 3, 4), 0, 2), S(T(2, 3), -1, 0), S(T(), 0, -1), S(T(0, 3), 0, 1)]
    errors = [
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(2, 3), 0, 2),
        Fails(IndexError, r"range of \[-1, 0\], but got 1", T(), 0, 1),
        Fails(TypeError, "must be int, not float", T(2, 3), 0, 1.0),
        Fails(TypeError, "must be Tensor, not list", [[1.0]], 0, 1),
    ]

    def make(self) -> Callable[..., Any]:
        op, check, apply = self, self.check, self.apply

        def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
            try:
                array = input._array.swapaxes(dim0, dim1)
            except WRONG:
                return apply(*check(input, dim0, dim1))
            return viewed(op, input, array, {"dim0": dim0, "dim1": dim1})

        return transpose

    def check(self, input: Tensor, dim0: int, dim1: int) -> Any:
        x = need_tensor("transpose", input)
        return (x,), {"dim0": axis(dim0, x.ndim), "dim1": axis(dim1, x.ndim)}

    def eager(self, x, *, dim0, dim1):
        return x.swapaxes(dim0, dim1) if x.ndim else x[...]

    def origin(self, b, i, shape, *, dim0, dim1):
        return replaced(i, (dim0, dim1), (i[dim1], i[dim0])) if i else i

    def seen(self, b, j, shape, *, dim0, dim1):
        return ALWAYS, self.origin(b, j, shape, dim0=dim0, dim1=dim1)

    def vjp(self, g, _y, _x, *, dim0, dim1):
        return g.transpose(dim0, dim1)


@composite(
    samples=[S(T(2, 3, 4), 0, 2), S(T(2, 3), axis0=-1, axis1=0)],
    errors=[Fails(IndexError, r"range of \[-2, 1\], but got 2", T(2, 3), 0, 2)],
)
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """:func:`transpose` with NumPy's name and arguments.

    >>> rl.zeros(2, 3, 5).swapaxes(0, 2).shape
    rushlight.Size([5, 3, 2])
    """
    return input.transpose(axis0, axis1)


@composite(
    samples=[S(T(2, 3)), S(T(3)), S(T())],
    errors=[
        Fails(RuntimeError, "expects a tensor with <= 2 dimensions", T(2, 2, 2)),
        Fails(TypeError, "must be Tensor, not list", [[1.0]]),
    ],
)
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars stay as they are.

    >>> rl.ones(2, 3).t().shape
    rushlight.Size([3, 2])
    """
    ndim = need_tensor("t", input)._array.ndim
    if ndim == 2:
        return viewed(swap, input, input._array.T, MATRIX)
    if ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {ndim}D")
    return input.view(input._array.shape)


swap = registry["transpose"]
MATRIX = {"dim0": 0, "dim1": 1}


@composite(
    samples=[S(T(2, 3, 4)), S(T(2, 3))],
    errors=[Fails(RuntimeError, "only supported on matrices or batches", T(3))],
)
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of matrices: the last two dimensions swapped, conjugated if complex.

    >>> rl.tensor([[1 + 2j, 3j]]).adjoint()
    tensor([[1.-2.j],
            [0.-3.j]])
    """
    y = matrices("tensor.adjoint()", need_tensor("adjoint", input))
    return y.conj() if y._array.dtype.kind == "c" else y


def matrices(name: str, x: Tensor) -> Tensor:
    """The last two dimensions swapped; scalars stay as they are."""
    if x._array.ndim == 1:
        raise RuntimeError(
            f"{name} is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return x.transpose(-2, -1) if x._array.ndim else x.view(())


@composite(name="T", method=False, function=False, samples=[S(T(2, 3)), S(T(2, 3, 4)), S(T(3))])
def reversed_dimensions(input: Tensor) -> Tensor:
    """All dimensions in reverse order: the transpose of a matrix.

    >>> rl.ones(2, 3).T.shape
    rushlight.Size([3, 2])
    """
    array = input._array
    if array.ndim == 2:
        return viewed(swap, input, array.T, MATRIX)
    return input.permute(tuple(range(array.ndim))[::-1])


@composite(
    name="mT",
    method=False,
    function=False,
    samples=[S(T(2, 3)), S(T(2, 3, 4)), S(T())],
    errors=[Fails(RuntimeError, "only supported on matrices or batches", T(3))],
)
def matrix_transpose(input: Tensor) -> Tensor:
    """The last two dimensions swapped.

    >>> rl.ones(5, 2, 3).mT.shape
    rushlight.Size([5, 3, 2])
    """
    return matrices("tensor.mT", input)


@composite(
    name="mH",
    method=False,
    function=False,
    samples=[S(T(2, 3)), S(T(2, 3, 4)), S(T())],
    errors=[Fails(RuntimeError, "only supported on matrices or batches", T(3))],
)
def matrix_adjoint(input: Tensor) -> Tensor:
    """The last two dimensions swapped, conjugated if complex.

    >>> rl.ones(5, 2, 3).mH.shape
    rushlight.Size([5, 3, 2])
    """
    return input.adjoint()


@composite(
    name="H",
    method=False,
    function=False,
    samples=[S(T(2, 3)), S(T())],
    errors=[Fails(RuntimeError, r"matrices \(2-D tensors\). Got 3-D", T(2, 2, 2))],
)
def hermitian(input: Tensor) -> Tensor:
    """The transpose of a matrix, conjugated if complex.

    >>> rl.ones(2, 3).H.shape
    rushlight.Size([3, 2])
    """
    if input._array.ndim not in (0, 2):
        raise RuntimeError(
            "tensor.H is only supported on matrices (2-D tensors). "
            f"Got {input._array.ndim}-D tensor. For batches of matrices, consider using tensor.mH"
        )
    return input.adjoint()


install(
    T=property(reversed_dimensions),
    mT=property(matrix_transpose),
    mH=property(matrix_adjoint),
    H=property(hermitian),
)


class Expand(View):
    """Dimensions of size 1 repeated without copying; -1 keeps a size.

    >>> rl.tensor([[1.0], [2.0]]).expand(2, 3)
    tensor([[1., 1., 1.],
            [2., 2., 2.]])
    """

    function = False
    samples = [
        S(T(3, 1), (3, 4)),
        S(T(3), (2, 3)),
        S(T(2, 1), (-1, 3)),
        S(T(), (2,)),
        S(T(1, 3), (0, 3)),
        S(T(2, 3), (2, 3)),
    ]
    errors = [
        Fails(RuntimeError, r"must match the existing size \(3\)", T(3), (4,)),
        Fails(RuntimeError, "number of sizes provided", T(2, 3), (3,)),
        Fails(RuntimeError, "isn't allowed in a leading", T(3), (-1, 3)),
        Fails(RuntimeError, "Storage size calculation overflowed", T(1), (2**40, 2**40)),
        Fails(TypeError, "takes ints", T(1), (2.5,)),
    ]

    def make(self) -> Callable[..., Any]:
        op, check, apply, eager = self, self.check, self.apply, self.eager

        def expand(
            input: Tensor,
            *new: int | Sequence[int],
            size: Sequence[int] | None = None,
            implicit: bool = False,
        ) -> Tensor:
            wanted: Any = new
            if len(new) == 1 and type(new[0]) is not int:
                (wanted,) = new
            try:
                array = input._array
                if type(array) is Symbol or local.state.trace is not None:
                    raise TypeError
                array = eager(array, size=wanted)
            except WRONG:
                return apply(*check(input, wanted if size is None else size))
            return viewed(op, input, array, {"size": array.shape})

        return expand

    def check(
        self,
        input: Tensor,
        *new: int | Sequence[int],
        size: Sequence[int] | None = None,
        implicit: bool = False,
    ) -> Any:
        x = need_tensor("expand", input)
        shape = list(as_shape("expand", new if size is None else (size,)))
        old = x._array.shape
        lead = len(shape) - len(old)
        if lead < 0:
            raise RuntimeError(
                f"expand(): the number of sizes provided ({len(shape)}) must be greater or equal "
                f"to the number of dimensions in the tensor ({len(old)})"
            )
        for i, have in enumerate(old, lead):
            n = shape[i]
            if type(n) is int and n == -1:
                shape[i] = have
            elif not (type(have) is int and have == 1) and have != n and have != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) must match the existing size ({have}) "
                    f"at non-singleton dimension {i}. Target sizes: {shape}. "
                    f"Tensor sizes: {list(old)}"
                )
        if -1 in shape[:lead]:
            raise RuntimeError(
                f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
                f"dimension {shape.index(-1)}: sizes {shape} of a tensor of shape {list(old)}"
            )
        shape_of("expand", shape, x._array.dtype)
        return (x,), {"size": tuple(shape)}

    def eager(self, x, *, size):
        lead = len(size) - x.ndim
        if x.shape == size[lead:]:
            if not lead:
                return x[...]
            strides = (0,) * lead + x.strides
        else:
            strides = [0] * lead
            for have, n, stride in zip(x.shape, size[lead:], x.strides, strict=True):
                if have != n and have != 1:
                    raise ValueError
                strides.append(stride if have == n else 0)
        y = restrided(x, size, strides)
        y.setflags(write=False)
        return y

    def origin(self, b, i, shape, *, size):
        own = i[len(i) - len(shape) :]
        return [0 if n == 1 else j for n, j in zip(shape, own, strict=True)]

    def vjp(self, g, _y, _x, *, size):
        return g.sum_to_size(_x.shape)


@composite(
    samples=[S(T(3, 1), (3, 4)), S(T(3), (2, 3)), S(T(), (2,))],
    errors=[Fails(RuntimeError, r"must match the existing size \(3\)", T(3), (4,))],
)
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """``input`` repeated to the shape ``size`` by the rules of broadcasting, without copying.

    >>> rl.tensor([1, 2]).broadcast_to((2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return input.expand(size)


@composite(
    function=False,
    samples=[S(T(3, 1), T(3, 4)), S(T(), T(2))],
    errors=[Fails(RuntimeError, r"must match the existing size \(3\)", T(3), T(4))],
)
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """``input`` expanded to the shape of ``other``.

    >>> rl.tensor([[1], [2]]).expand_as(rl.ones(2, 3)).shape
    rushlight.Size([2, 3])
    """
    return input.expand(need_tensor("expand_as", other, "other")._array.shape)


class Squeeze(View):
    """Without its dimensions of size 1: all of them, or those of ``dim`` that have size 1.

    >>> rl.zeros(1, 3, 1).squeeze().shape, rl.zeros(1, 3, 1).squeeze(0).shape
    (rushlight.Size([3]), rushlight.Size([3, 1]))
    """

    samples = [
        S(T(1, 3, 1)),
        S(T(1, 3, 1), 0),
        S(T(1, 3, 1), 1),
        S(T(1, 3, 1), (0, -1)),
        S(T(), 0),
    ]
    errors = [
        Fails(IndexError, r"range of \[-2, 1\], but got 5", T(2, 3), 5),
        Fails(RuntimeError, "dim 0 appears multiple times", T(1, 3), (0, 0)),
    ]

    def make(self) -> Callable[..., Any]:
        op, check, apply = self, self.check, self.apply

        def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
            dropped: Any = dim
            try:
                array = input._array
                if dim is not None and array.shape[dropped] != 1:
                    dropped = ()
                array = array.squeeze(dropped)
            except WRONG:
                return apply(*check(input, dim))
            return viewed(op, input, array, {"dim": dropped})

        return numpy_names(squeeze)

    def check(self, input: Tensor, dim: int | Sequence[int] | None = None) -> Any:
        x = need_tensor("squeeze", input)
        shape = x._array.shape
        if dim is not None:
            wanted = axes(as_shape("squeeze", (dim,)), len(shape))
            dim = tuple([d for d in wanted if shape and shape[d] == 1])
        return (x,), {"dim": dim}

    def eager(self, x, *, dim):
        return x.squeeze(dim)

    def origin(self, b, i, shape, *, dim):
        dropped = dropped_dims(shape, dim)
        return woven(i, dropped, [0] * len(dropped))

    def seen(self, b, j, shape, *, dim):
        dropped = dropped_dims(shape, dim)
        return ALWAYS, [part for d, part in enumerate(j) if d not in dropped]

    def vjp(self, g, _y, _x, *, dim):
        return g.reshape(_x.shape)


def dropped_dims(shape: Sequence[int], dim: Any) -> list[int]:
    """The dimensions that ``squeeze`` drops, counted from the front."""
    if dim is None:
        return [d for d, n in enumerate(shape) if n == 1]
    return [d % len(shape) for d in ((dim,) if isinstance(dim, int) else dim)]


class Unsqueeze(View):
    """With a new dimension of size 1 at position ``dim``.

    >>> rl.zeros(2, 3).unsqueeze(1).shape
    rushlight.Size([2, 1, 3])
    """

    samples = [S(T(2, 3), 1), S(T(2, 3), -1), S(T(), 0), S(T(2, 0), 2), S(T(2, 3), -3)]
    errors = [
        Fails(IndexError, r"range of \[-3, 2\], but got 3", T(2, 3), 3),
        Fails(IndexError, r"range of \[-3, 2\], but got -4", T(2, 3), -4),
        Fails(TypeError, "must be int, not float", T(2, 3), 1.0),
    ]

    def make(self) -> Callable[..., Any]:
        op, check, apply = self, self.check, self.apply

        def unsqueeze(input: Tensor, dim: int) -> Tensor:
            try:
                if type(dim) is not int:
                    raise TypeError
                array = input._array[INSERT[dim]]
            except WRONG:
                return apply(*check(input, dim))
            return viewed(op, input, array, {"dim": dim})

        return numpy_names(unsqueeze)

    def check(self, input: Tensor, dim: int) -> Any:
        x = need_tensor("unsqueeze", input)
        shape_of("unsqueeze", (*x._array.shape, 1), x._array.dtype)
        return (x,), {"dim": axis(dim, x._array.ndim + 1)}

    def eager(self, x, *, dim):
        return x[INSERT[dim]]

    def origin(self, b, i, shape, *, dim):
        place = dim % len(i)
        return (*i[:place], *i[place + 1 :])

    def seen(self, b, j, shape, *, dim):
        return ALWAYS, woven(j, (dim % (len(j) + 1),), (0,))

    def vjp(self, g, _y, _x, *, dim):
        return g.squeeze(dim)


@composite(
    aliases=("moveaxis",),
    samples=[
        S(T(2, 3, 4), 0, 2),
        S(T(2, 3, 4), (0, 1), (-1, 0)),
        S(T(), 0, 0),
        S(T(2, 3), (), ()),
    ],
    errors=[
        Fails(RuntimeError, "same number of dims as destination", T(2, 3), (0, 1), (1,)),
        Fails(RuntimeError, r"repeated dim in `source` \(\[0, 0\]\)", T(2, 3), (0, 0), (0, 1)),
        Fails(IndexError, "out of range", T(2, 3), 0, 2),
    ],
)
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """The dimensions ``source`` at the positions ``destination``, the others in order around them.

    >>> rl.zeros(2, 3, 5).movedim(0, -1).shape
    rushlight.Size([3, 5, 2])
    """
    x = need_tensor("movedim", input)
    ndim = x._array.ndim
    start, end = (list(as_shape("movedim", (d,))) for d in (source, destination))
    if len(start) != len(end):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({start} dims) should contain "
            f"the same number of dims as destination ({end} dims)"
        )
    places = dict(
        zip(move_axes(end, ndim, "destination"), move_axes(start, ndim, "source"), strict=True)
    )
    rest = iter([d for d in range(ndim) if d not in places.values()])
    return x.permute([places[i] if i in places else next(rest) for i in range(ndim)])


def move_axes(dims: list[int], ndim: int, which: str) -> list[int]:
    found = [axis(d, ndim) for d in dims]
    if len(set(found)) != len(found):
        raise RuntimeError(f"movedim: repeated dim in `{which}` ({dims})")
    return found


for _name in ("transpose", "swapaxes", "swapdims", "t", "squeeze", "unsqueeze"):
    changes_metadata(_name)
