"""Ops of onnxruntime's own, which its optimizer writes into files (``com.microsoft``)."""

from __future__ import annotations

from typing import Any

from rushlight import dtypes
from rushlight.nn import functional as F
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.contraction import conv
from rushlight.onnx.importers.quantization import shifted
from rushlight.onnx.importers.recurrent import LSTM_DEFAULTS, Layer, Step, biases, cell_step
from rushlight.onnx.importers.registry import op
from rushlight.ops import ops
from rushlight.tensor import Tensor

DOMAIN = "com.microsoft"
ACTIVATIONS = {"Relu": ops.relu, "Tanh": ops.tanh, "Sigmoid": ops.sigmoid}


@op("Gelu", domain=DOMAIN)
def gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


@op("BiasGelu", domain=DOMAIN)
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


@op("FastGelu", domain=DOMAIN)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@op("QuickGelu", domain=DOMAIN)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    return x * ops.sigmoid(alpha * x)


@op("FusedMatMul", domain=DOMAIN)
def fused_matmul(
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    y = ops.matmul(a.transpose(-1, -2) if transA else a, b.transpose(-1, -2) if transB else b)
    return y if alpha == 1 else alpha * y


@op("FusedConv", domain=DOMAIN)
def fused_conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    z: Tensor | None = None,
    *,
    activation: str = "",
    activation_params: Any = (),
    **options: Any,
) -> Tensor:
    y = conv(x, w, b, **options)
    y = y if z is None else y + z
    match activation:
        case "":
            return y
        case "LeakyRelu":
            return F.leaky_relu(y, *activation_params)
        case "Clip":
            return ops.clamp(y, *activation_params)
        case "HardSigmoid":
            alpha, beta = activation_params
            return ops.clamp(alpha * y + beta, 0, 1)
    if activation not in ACTIVATIONS:
        raise OnnxError(f"the activation {activation!r} is not supported")
    return ACTIVATIONS[activation](y)


@op("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> Any:
    total = x + skip if bias is None else x + skip + bias
    y = F.layer_norm(total, gamma.shape, gamma, beta, epsilon)
    return y, None, None, total


@op("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_integer_to_float(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero_point: Tensor | None = None,
    b_zero_point: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    product = ops.matmul(shifted(a, a_zero_point), shifted(b, b_zero_point))
    y = product.to(dtypes.float32) * (a_scale * b_scale)
    return y if bias is None else y + bias


@op("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(
    a: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    y = coarse(a, shifted(b, b_zero_point), b_scale)
    return y if bias is None else y + bias


def coarse(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """``x @ weight`` with x in 256 steps between its extremes, of which zero is one."""
    low, high = ops.clamp(x.min(), max=0.0), ops.clamp(x.max(), min=0.0)
    step = (high - low) / 255
    step = ops.where(step == 0, 1.0, step)
    zero = ops.clamp(ops.round(-low / step), 0, 255)
    steps = ops.clamp(ops.round(x / step) + zero, 0, 255) - zero
    return ops.matmul(steps.to(dtypes.float64), weight).to(dtypes.float32) * (step * scale)


@op("DynamicQuantizeLSTM", domain=DOMAIN)
def dynamic_quantize_lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    sequence_lens: Tensor | None,
    initial_h: Tensor | None,
    initial_c: Tensor | None,
    p: Tensor | None,
    w_scale: Tensor,
    w_zero_point: Tensor,
    r_scale: Tensor,
    r_zero_point: Tensor,
    *,
    input_forget: int = 0,
    **options: Any,
) -> Any:
    """Both products are of small integers; weights are transposed to those of an LSTM."""
    layer = Layer(x, sequence_lens, LSTM_DEFAULTS, **options)

    def product(x: Tensor, i: int, weight: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        one = (scale[i], zero[i]) if zero.numel() > 1 else (scale, zero)
        return coarse(x, shifted(weight[i], one[1]), one[0])

    def direction(i: int) -> tuple[Tensor, Step]:
        gates = product(layer.x, i, w, w_scale, w_zero_point) + sum(biases(b, i))
        peep = None if p is None else p[i]
        recur = lambda h: product(h, i, r, r_scale, r_zero_point)  # noqa: E731
        return gates, cell_step(layer, i, recur, peep, bool(input_forget))

    return layer.sweep(direction, initial_h, initial_c)
