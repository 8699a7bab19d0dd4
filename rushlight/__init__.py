"""Rushlight: tensors and automatic differentiation as PyTorch users know them."""

import importlib
import sys as _sys
import types as _types
from math import e, inf, nan, pi
from typing import Any

from rushlight import (
    accelerator,
    amp,
    autograd,
    backends,
    cuda,
    fft,
    func,
    linalg,
    masked,
    random,
    return_types,
    signal,
    special,
    testing,
    version,
    xpu,
)
from rushlight.amp import GradScaler, autocast, get_autocast_dtype, is_autocast_enabled
from rushlight.autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight.autograd.modes import is_anomaly_enabled, is_inference_mode_enabled
from rushlight.config import config
from rushlight.control import Graphs as _Graphs
from rushlight.control import cond, foldl, fori_loop, map_fn, scan, switch, while_loop
from rushlight.device import device
from rushlight.dtypes import (
    bfloat16,
    bool_,
    can_cast,
    complex64,
    complex128,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.func import vmap
from rushlight.generator import native as _native
from rushlight.interop import (
    from_dlpack,
    from_numpy,
    frombuffer,
    get_device,
    is_complex,
    is_distributed,
    is_floating_point,
    is_nonzero,
    is_same_size,
    is_signed,
    is_tensor,
    numel,
    to_dlpack,
)
from rushlight.kernels.engine import Engine as _Engine
from rushlight.layouts import (
    OutOfMemoryError,
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    sparse_coo,
    sparse_csr,
    strided,
)
from rushlight.literals import as_tensor, asarray, tensor
from rushlight.memory import keep_freed_memory as _keep_freed_memory
from rushlight.ops import ops as _ops
from rushlight.ops.programs import Compiler as _Compiler
from rushlight.ops.recurrent_layers import Loops as _Loops
from rushlight.printing import set_printoptions
from rushlight.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from rushlight.settings import (
    are_deterministic_algorithms_enabled,
    get_default_device,
    get_deterministic_debug_mode,
    get_float32_matmul_precision,
    get_num_interop_threads,
    get_num_threads,
    is_deterministic_algorithms_warn_only_enabled,
    set_default_device,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_flush_denormal,
    set_num_interop_threads,
    set_num_threads,
    typename,
    use_deterministic_algorithms,
)
from rushlight.storage import TypedStorage, UntypedStorage, is_storage
from rushlight.tensor import Size, Tensor
from rushlight.typed import CPU_TYPES, set_default_tensor_type
from rushlight.version import __version__

bool, int, short, long = bool_, int32, int16, int64
half, float, double, cfloat, cdouble = float16, float32, float64, complex64, complex128
fill_, zero_, resize_as_ = Tensor.fill_, Tensor.zero_, Tensor.resize_as_
detach, detach_ = Tensor.detach, Tensor.detach_
newaxis = None

# What is loaded when first asked for: a program that only calculates starts sooner.
_PACKAGES = (
    *("_dynamo", "_inductor", "compiler", "distributed", "distributions", "export", "io", "jit"),
    *("multiprocessing", "nn", "onnx", "optim", "profiler", "serialization", "types", "utils"),
    *("vision",),
)
_COMPILER_FUNCTIONS = ("compile", "graph")
_FUNCTIONS = {
    "draw": "drawing",
    "export_c": "c.export",
    "load": "io",
    "mark_dynamic": "runtime.shapes",
    "profile": "profiler",
    "save": "io",
}
_NETWORK_FUNCTIONS = (
    *("_native_batch_norm_legit", "adaptive_avg_pool1d", "adaptive_max_pool1d", "alpha_dropout"),
    *("alpha_dropout_", "avg_pool1d", "batch_norm", "bilinear", "binary_cross_entropy_with_logits"),
    *("channel_shuffle",),
    *("conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d"),
    *("conv_transpose3d", "convolution", "cosine_embedding_loss", "cosine_similarity"),
    *("ctc_loss", "dropout", "dropout_", "embedding_bag", "embedding_renorm_"),
    *("feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout", "feature_dropout_"),
    *("affine_grid_generator", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "group_norm"),
    *("gru", "gru_cell", "hinge_embedding_loss", "instance_norm", "kl_div"),
    *("layer_norm", "lstm", "lstm_cell", "margin_ranking_loss", "max_pool1d"),
    *("max_pool1d_with_indices", "max_pool2d", "max_pool3d", "native_batch_norm"),
    *("native_channel_shuffle", "native_group_norm", "native_layer_norm", "pairwise_distance"),
    *("pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "rms_norm", "rnn_relu"),
    *("rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell", "triplet_margin_loss"),
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _FUNCTIONS:
        found = getattr(importlib.import_module(f"{__name__}.{_FUNCTIONS[name]}"), name)
    elif name in _NETWORK_FUNCTIONS:
        functional = importlib.import_module(f"{__name__}.nn.functional")
        found = vars(_ops).get(name) or getattr(functional, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


class _Package(_types.ModuleType):
    """This package: ``compile`` and ``graph`` are functions, though modules have the same names."""

    @property
    def compile(self) -> Any:
        return vars(importlib.import_module(f"{__name__}.compile"))["compile"]

    @property
    def graph(self) -> Any:
        return vars(importlib.import_module(f"{__name__}.compile"))["graph"]

    @compile.setter
    def compile(self, module: _types.ModuleType) -> None:
        """What the import system does with a module."""

    @graph.setter
    def graph(self, module: _types.ModuleType) -> None:
        """What the import system does with a module."""


_sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_COMPILER_FUNCTIONS, *_FUNCTIONS, *_NETWORK_FUNCTIONS})


globals().update({cls.__name__: cls for cls in CPU_TYPES.values()})
globals().update({name: op for name, op in vars(_ops).items() if callable(op)})
_keep_freed_memory()
_Compiler.load = lambda: vars(importlib.import_module(f"{__name__}.compile"))["Compiled"]
_Graphs.load = lambda: importlib.import_module(f"{__name__}.graph.loops")
_Loops.load = lambda: importlib.import_module(f"{__name__}.runtime.recurrent")
_Engine.load = lambda: importlib.import_module(f"{__name__}.runtime.products").product
_native.load = lambda: importlib.import_module(f"{__name__}.runtime.random").functions()
