"""Recurrent layers: ONNX has the same cells, with gates in another order."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.graph.ir import Node, TensorType
from rushlight.onnx.writer import Writer, exports, operand

# The blocks of rows of a weight, in the order in which ONNX wants them.
ORDERS = {"lstm_layer": (0, 3, 1, 2), "gru_layer": (1, 0, 2)}
KINDS = {"lstm_layer": "LSTM", "gru_layer": "GRU"}


def reordered(w: Writer, node: Any, order: tuple[int, ...]) -> str:
    """A weight or bias for ONNX: blocks in its order, one direction in front."""
    rows = node.type.shape[0] // len(order)
    places = np.concatenate([np.arange(k * rows, (k + 1) * rows) for k in order])
    if node in w.arrays:
        return w.constant(w.arrays[node][places][None], name=w.title(node, "gates"))
    name = w.name(node)
    name = w("Gather", name, w.constant(places), axis=0) if len(order) > 1 else name
    return w("Unsqueeze", name, w.ints(0))


def biases(w: Writer, own: Node | None, other: Node | None, gates: Any, order: Any) -> str:
    """Both biases, one after the other."""
    if own is None and other is None:
        return ""
    shape = gates.type.shape[0]
    zeros = np.zeros((1, shape), gates.type.dtype.numpy)
    parts = [w.constant(zeros) if b is None else reordered(w, b, order) for b in (own, other)]
    return w("Concat", *parts, axis=1)


@exports("lstm_layer", "gru_layer", "rnn_tanh_layer", "rnn_relu_layer")
def layer(w: Writer, node: Node, x: str, *operands: Any) -> Any:
    name, states = node.op.name, node.op.states
    inputs: Any = node.inputs[1 + states :]
    w_ih, w_hh, b_ih, b_hh = inputs[:4]
    if node.attrs["sizes"] is not None:
        raise w.refusal("sequences of several lengths: pad them to one, with a mask")
    if w.uses(node) - set(range(1 + states)):
        raise w.refusal("what it keeps for its gradient cannot be exported")
    steps, batch = node.attrs["steps"], operand(node, 1).type.shape[0]
    sequence = w.reshape(x, steps, batch, operand(node).type.shape[1])
    if len(inputs) > 4 and inputs[4] is not None:
        found = projected(w, node, sequence, *operands)
        return (*found, *[""] * (len(node.type) - len(found)))
    order = ORDERS.get(name, (0,))
    options: dict[str, Any] = {"hidden_size": w_hh.type.shape[1]}
    if name == "gru_layer":
        options["linear_before_reset"] = 1
    if name.startswith("rnn"):
        options["activations"] = ["Relu" if name == "rnn_relu_layer" else "Tanh"]
    if node.attrs["reverse"]:
        options["direction"] = "reverse"
    weights = [reordered(w, matrix, order) for matrix in (w_ih, w_hh)]
    first = [w("Unsqueeze", state, w.ints(0)) for state in operands[:states]]
    bias = biases(w, b_ih, b_hh, w_hh, order)
    kind = KINDS.get(name, "RNN")
    y, *last = w(kind, sequence, *weights, bias, "", *first, outputs=1 + states, **options)
    rows = w.reshape(y, -1, w_hh.type.shape[1])
    found = [rows, *[w("Squeeze", state, w.ints(0)) for state in last]]
    return (*found, *[""] * (len(node.type) - len(found)))


def projected(w: Writer, node: Node, x: str, h: str, c: str, *weights: Any) -> list[str]:
    """An LSTM with a projection, which ONNX lacks: a loop over its steps."""
    w_ih, w_hh, w_hr = [w.transposed(operand(node, i)) for i in (3, 4, 7)]
    gates = w("MatMul", x, w_ih)
    for bias in weights[2:4]:
        gates = w("Add", gates, bias) if bias else gates
    kind, (states, cells) = node.type[0].dtype, [operand(node, i).type for i in (1, 2)]
    row = TensorType((states.shape[0], 4 * cells.shape[1]), kind)
    with w.inside() as body:
        before, memory, given = [w.fresh(name) for name in ("h", "c", "gates")]
        body.inputs = [(before, states), (memory, cells), (given, row)]
        parts = split(w, w("Add", given, w("MatMul", before, w_hh)), cells.shape[1])
        i, f, o = [w("Sigmoid", parts[k]) for k in (0, 1, 3)]
        after = w("Add", w("Mul", f, memory), w("Mul", i, w("Tanh", parts[2])))
        y = w("MatMul", w("Mul", o, w("Tanh", after)), w_hr)
        w.end(body, [(y, states), (after, cells), (y, states)])
    ways = {"scan_input_directions": [1], "scan_output_directions": [1]}
    options = ways if node.attrs["reverse"] else {}
    h, c, all_h = w("Scan", h, c, gates, outputs=3, num_scan_inputs=1, body=body, **options)
    return [w.reshape(all_h, -1, states.shape[1]), h, c]


def split(w: Writer, x: str, width: int) -> list[str]:
    """The four gates of a row."""
    ends = [(w.ints(k * width), w.ints((k + 1) * width), w.ints(1)) for k in range(4)]
    return [w("Slice", x, *end) for end in ends]
