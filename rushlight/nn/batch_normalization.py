"""Layers that normalise by channel, over a batch or for each of its rows."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.nn import functional as F
from rushlight.nn.lazy import LazyModuleMixin
from rushlight.nn.module import Module
from rushlight.nn.normalization import _Affine
from rushlight.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from rushlight.ops import ops
from rushlight.tensor import Tensor

M = TypeVar("M", bound=Module)


class _NormBase(_Affine):
    """What batch and instance normalisation have in common."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    dims: tuple[int, ...] = ()  # the numbers of dimensions that an input may have
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._make_parameters((num_features,), affine, bias, device, dtype)
        mean = variance = count = None
        if track_running_stats:
            mean = ops.zeros(num_features, device=device, dtype=dtype)
            variance = ops.ones(num_features, device=device, dtype=dtype)
            count = ops.zeros((), device=device, dtype=dtypes.int64)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", variance)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forgets the batches seen."""
        start = (self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)
        for t, value in start:
            if t is not None:
                t.fill_(value)

    def reset_parameters(self) -> None:
        """Sets the weight to ones, the bias to zeros, and forgets the batches seen."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.dims:
            expected = " or ".join([f"{n}D" for n in self.dims])
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        *rest: Any,
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        if (local_metadata.get("version") or 0) < 2 and self.track_running_stats:
            count = self.num_batches_tracked
            state_dict.setdefault(
                key, ops.zeros((), dtype=dtypes.int64) if count is None else count
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    """Normalisation by the mean and variance of each channel over a batch."""

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        mean, variance = self.running_mean, self.running_var
        momentum: Any = self.momentum
        if self.training and not self.track_running_stats:
            mean = variance = None
        elif self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:
                count = self.num_batches_tracked
                momentum = 1 / (count.item() if local.state.trace is None else count.double())
        return F.batch_norm(
            input,
            mean,
            variance,
            self.weight,
            self.bias,
            self.training or (mean is None and variance is None),
            0.0 if momentum is None else momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` for each channel of a batch.

    In training the mean and variance are those of the batch, and the running ones move towards
    them; in evaluation they are the running ones.

    Args:
        num_features: the number of channels, the size of dimension 1
        eps: what is added to the variance
        momentum: by which share the running ones move; None for the plain average of all batches
        affine: whether there are a weight and a bias, a number for each channel
        track_running_stats: whether there are running ones; else a batch's own are always used
        bias: whether there is a bias

    Shape:
        (N, num_features, L) or (N, num_features) to the same.

    >>> layer = rl.nn.BatchNorm1d(2)
    >>> layer(rl.tensor([[1.0, 5.0], [3.0, 7.0]])).detach()
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    >>> layer.running_mean
    tensor([0.2000, 0.6000])
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """:class:`BatchNorm1d` for inputs (N, C, H, W).

    >>> rl.nn.BatchNorm2d(3)
    BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    >>> rl.nn.BatchNorm2d(3)(rl.ones(2, 3, 4, 4)).shape
    rushlight.Size([2, 3, 4, 4])
    """

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """:class:`BatchNorm1d` for inputs (N, C, D, H, W).

    >>> rl.nn.BatchNorm3d(3)(rl.ones(2, 3, 2, 2, 2)).shape
    rushlight.Size([2, 3, 2, 2, 2])
    """

    dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes; with one process, over its own.

    Args:
        process_group: accepted for compatibility
        others: see :class:`BatchNorm1d`

    >>> rl.nn.SyncBatchNorm(2)(rl.tensor([[1.0, 5.0], [3.0, 7.0]])).detach()
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Device | str | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")
        if not input.shape[1]:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: M, process_group: Any = None) -> M | SyncBatchNorm:
        """``module`` with every batch normalisation in it replaced by a :class:`SyncBatchNorm`.

        >>> net = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.BatchNorm1d(4))
        >>> rl.nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
        SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        """
        result: Any = module
        if isinstance(module, _BatchNorm):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            result._parameters.update(module._parameters)
            result._buffers.update(module._buffers)
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


class _InstanceNorm(_NormBase):
    """Normalisation by the mean and variance of each channel of each row by itself."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = input.ndim == self.dims[0]
        dim = 0 if unbatched else 1
        if input.shape[dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features "
                    f"({self.num_features}), but got: {input.shape[dim]}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if unbatched:
            return self._normalized(input.unsqueeze(0)).squeeze(0)
        return self._normalized(input)

    def _normalized(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            names = (f"{prefix}running_mean", f"{prefix}running_var")
            found = [key for key in names if key in state_dict]
            if found:
                keys = " and ".join([f'"{key}"' for key in found])
                layer = type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {keys} for {layer} with "
                    "track_running_stats=False. Remove these keys from state_dict, or set "
                    f"track_running_stats=True in {layer} if they are needed."
                )
                for key in found:
                    del state_dict[key]
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )


class InstanceNorm1d(_InstanceNorm):
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` for each channel of each row.

    Args:
        num_features: the number of channels
        eps: what is added to the variance
        momentum: by which share the running mean and variance move
        affine: whether there are a weight and a bias, a number for each channel
        track_running_stats: whether there are running ones, which evaluation then uses
        bias: whether there is a bias

    Shape:
        (N, C, L) or (C, L) to the same.

    >>> rl.nn.InstanceNorm1d(2)(rl.tensor([[[1.0, 3.0], [5.0, 9.0]]]))
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """:class:`InstanceNorm1d` for inputs (N, C, H, W) or (C, H, W).

    >>> rl.nn.InstanceNorm2d(3)(rl.ones(2, 3, 4, 4)).shape
    rushlight.Size([2, 3, 4, 4])
    """

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """:class:`InstanceNorm1d` for inputs (N, C, D, H, W) or (C, D, H, W).

    >>> rl.nn.InstanceNorm3d(3)(rl.ones(2, 3, 2, 2, 2)).shape
    rushlight.Size([2, 3, 2, 2, 2])
    """

    dims = (4, 5)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A layer that takes ``num_features`` from dimension 1 of its first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = ops.zeros((), device=device, dtype=dtypes.int64)

    def reset_parameters(self) -> None:
        """Sets the parameters once they are there."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Makes the parameters and buffers for inputs such as this one."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        members: tuple[Any, ...] = (self.weight, self.bias, self.running_mean, self.running_var)
        for t in members:
            if is_lazy(t):
                t.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm1d` that takes ``num_features`` from its first input.

    >>> layer = rl.nn.LazyBatchNorm1d()
    >>> layer(rl.ones(2, 3)).shape, layer.num_features
    (rushlight.Size([2, 3]), 3)
    """

    dims = BatchNorm1d.dims
    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm2d` that takes ``num_features`` from its first input.

    >>> rl.nn.LazyBatchNorm2d()(rl.ones(2, 3, 4, 4)).shape
    rushlight.Size([2, 3, 4, 4])
    """

    dims = BatchNorm2d.dims
    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm3d` that takes ``num_features`` from its first input.

    >>> rl.nn.LazyBatchNorm3d()(rl.ones(2, 3, 2, 2, 2)).shape
    rushlight.Size([2, 3, 2, 2, 2])
    """

    dims = BatchNorm3d.dims
    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An :class:`InstanceNorm1d` that takes ``num_features`` from its first input.

    >>> rl.nn.LazyInstanceNorm1d()(rl.ones(2, 3, 4)).shape
    rushlight.Size([2, 3, 4])
    """

    dims = InstanceNorm1d.dims
    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An :class:`InstanceNorm2d` that takes ``num_features`` from its first input.

    >>> rl.nn.LazyInstanceNorm2d()(rl.ones(2, 3, 4, 4)).shape
    rushlight.Size([2, 3, 4, 4])
    """

    dims = InstanceNorm2d.dims
    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An :class:`InstanceNorm3d` that takes ``num_features`` from its first input.

    >>> rl.nn.LazyInstanceNorm3d()(rl.ones(2, 3, 2, 2, 2)).shape
    rushlight.Size([2, 3, 2, 2, 2])
    """

    dims = InstanceNorm3d.dims
    cls_to_become = InstanceNorm3d
