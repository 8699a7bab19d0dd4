"""Recurrent layers and packed sequences: shapes, states, gradients and errors."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import warnings
from typing import Any

import pytest

import rushlight as rl
from rushlight.nn.utils import rnn
from rushlight.nn.utils.stateless import functional_call
from rushlight.symbol import TraceError

LAYERS = (rl.nn.RNN, rl.nn.LSTM, rl.nn.GRU)
CELLS = (rl.nn.RNNCell, rl.nn.LSTMCell, rl.nn.GRUCell)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_is_its_cell_step_by_step(kind: Any) -> None:
    layer = kind(3, 4)
    cell = dict(zip(LAYERS, CELLS, strict=True))[kind](3, 4)
    for name, _ in cell.named_parameters():
        getattr(cell, name).data = getattr(layer, f"{name}_l0").data
    x = rl.randn(5, 2, 3)
    outputs, state = [], None
    for step in x:
        state = cell(step, state)
        outputs.append(state[0] if kind is rl.nn.LSTM else state)
    assert rl.allclose(layer(x)[0], rl.stack(outputs), atol=1e-6)


@pytest.mark.parametrize("kind", LAYERS)
def test_the_backward_direction_reads_the_sequence_from_its_end(kind: Any) -> None:
    both, one = kind(3, 4, bidirectional=True), kind(3, 4)
    for name, _ in one.named_parameters():
        getattr(one, name).data = getattr(both, f"{name}_reverse").data
    x = rl.randn(5, 2, 3)
    assert rl.allclose(both(x)[0][..., 4:], one(x.flip(0))[0].flip(0), atol=1e-6)


@pytest.mark.parametrize("kind", LAYERS)
def test_packed_sequences_are_as_if_each_came_alone(kind: Any) -> None:
    layer = kind(3, 4, num_layers=2, bidirectional=True)
    sequences = [rl.randn(n, 3) for n in (2, 4, 1)]
    packed, last = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    for k, (sequence, y) in enumerate(zip(sequences, rnn.unpack_sequence(packed), strict=True)):
        alone, state = layer(sequence)
        assert rl.allclose(y, alone, atol=1e-6)
        for a, b in zip(_states(last), _states(state), strict=True):
            assert rl.allclose(a[:, k], b, atol=1e-6)


def _states(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("reverse", [False, True])
def test_both_orders_of_derivatives(kind: Any, reverse: bool) -> None:
    layer = kind(1, 2, bidirectional=reverse, dtype=rl.float64)
    names = [name for name, _ in layer.named_parameters()]
    x = rl.randn(4, 1, dtype=rl.float64, requires_grad=True)
    sizes = rl.tensor([2, 1, 1])

    def function(x: Any, *weights: Any) -> tuple[Any, ...]:
        values = dict(zip(names, weights, strict=True))
        packed = rnn.PackedSequence(x, sizes)
        y, last = functional_call(layer, values, (packed,))
        return y.data, *_states(last)

    inputs = (x, *layer.parameters())
    assert rl.autograd.gradcheck(function, inputs)
    assert rl.autograd.gradgradcheck(function, inputs)


def test_one_tensor_for_both_states_gets_both_gradients() -> None:
    cell = rl.nn.LSTMCell(2, 2, dtype=rl.float64)
    x = rl.randn(3, 2, dtype=rl.float64)
    state = rl.randn(3, 2, dtype=rl.float64, requires_grad=True)

    def function(state: Any) -> Any:
        return cell(x, (state, state))

    assert rl.autograd.gradcheck(function, (state,))
    assert rl.autograd.gradgradcheck(function, (state,))


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_are_copied_pickled_and_listed(kind: Any) -> None:
    layer = kind(3, 4, 2)
    x = rl.randn(5, 2, 3)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert rl.equal(twin(x)[0], layer(x)[0])
        assert twin.weight_hh_l1 is twin._flat_weights[5]
    assert [len(group) for group in layer.all_weights] == [4, 4]
    layer.flatten_parameters()


def test_a_frozen_layer_still_passes_gradients_on() -> None:
    layer = rl.nn.GRU(3, 4).requires_grad_(False)
    x = rl.randn(5, 2, 3, requires_grad=True)
    layer(x)[0].sum().backward()
    assert x.grad.shape == x.shape
    assert layer.weight_ih_l0.grad is None


def test_changing_the_output_in_place_is_noticed() -> None:
    layer = rl.nn.RNN(3, 4)
    y = layer(rl.randn(5, 2, 3))[0]
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_empty_batches() -> None:
    y, (h, c) = rl.nn.LSTM(3, 4)(rl.randn(5, 0, 3))
    assert y.shape == (5, 0, 4)
    assert h.shape == c.shape == (1, 0, 4)


BAD_LAYERS = [
    (ValueError, r"dropout should be a number in range \[0, 1\].*got 1.5", {"dropout": 1.5}),
    (ValueError, r"dropout should be a number in range \[0, 1\].*got True", {"dropout": True}),
    (ValueError, "hidden_size must be greater than zero, got 0", {"hidden_size": 0}),
    (ValueError, "input_size must be greater than zero, got -1", {"input_size": -1}),
    (ValueError, "num_layers must be greater than zero, got 0", {"num_layers": 0}),
    (TypeError, "hidden_size should be of type int, got: float", {"hidden_size": 4.0}),
    (TypeError, "bias should be of type bool, got: int", {"bias": 1}),
]


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(("error", "match", "options"), BAD_LAYERS)
def test_wrong_options(kind: Any, error: Any, match: str, options: dict[str, Any]) -> None:
    with pytest.raises(error, match=match):
        kind(**{"input_size": 3, "hidden_size": 4, **options})


def test_options_of_one_layer_only() -> None:
    with pytest.raises(ValueError, match="proj_size argument is only supported for LSTM"):
        rl.nn.GRU(3, 4, proj_size=2)
    with pytest.raises(ValueError, match="proj_size has to be smaller than hidden_size"):
        rl.nn.LSTM(3, 4, proj_size=4)
    with pytest.raises(ValueError, match="Unknown nonlinearity 'sin'"):
        rl.nn.RNN(3, 4, nonlinearity="sin")
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        rl.nn.RNN(3, 4, size=1)
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        rl.nn.RNN(3, 4, dropout=0.5)


def bad_calls() -> list[Any]:
    hx = rl.zeros(1, 2, 4)
    return [
        (RuntimeError, "Expected 3, got 5", (rl.zeros(5, 2, 5),)),
        (ValueError, "to be 2D or 3D, got 1D", (rl.zeros(5),)),
        (ValueError, r"dtype \(rushlight.float64\)", (rl.zeros(5, 2, 3, dtype=rl.float64),)),
        (RuntimeError, r"\(1, 3, 4\), got \[1, 2, 4\]", (rl.zeros(5, 3, 3), hx)),
        (RuntimeError, "For unbatched 2-D input", (rl.zeros(5, 3), hx)),
        (RuntimeError, "For batched 3-D input", (rl.zeros(5, 2, 3), hx[0])),
        (RuntimeError, "length to be larger than 0", (rl.zeros(0, 2, 3),)),
    ]


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("which", range(len(bad_calls())))
def test_wrong_inputs(kind: Any, which: int) -> None:
    error, match, args = bad_calls()[which]
    if kind is rl.nn.LSTM and len(args) == 2:
        args = (args[0], (args[1], args[1]))
    with pytest.raises(error, match=match):
        kind(3, 4)(*args)


@pytest.mark.parametrize("kind", CELLS)
def test_wrong_inputs_of_cells(kind: Any) -> None:
    cell = kind(3, 4)
    with pytest.raises(RuntimeError, match="input_size: got 5 expected 3"):
        cell(rl.zeros(2, 5))
    with pytest.raises(ValueError, match="1D or 2D, got 3D"):
        cell(rl.zeros(1, 2, 3))


PADDED = rl.zeros(4, 3, 2)
BAD_LENGTHS = [
    ([4, 2], "equal to batch_size, but got 2 (batch_size=3)"),
    ([4, 2, 0], "has to be greater than 0"),
    ([2, 4, 1], "sorted in decreasing order"),
    ([5, 4, 1], "lengths [5, 4, 1] exceed the length 4"),
    ([[4, 2, 1]], "should be a 1D tensor"),
]


@pytest.mark.parametrize(("lengths", "message"), BAD_LENGTHS)
def test_wrong_lengths(lengths: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(message)):
        rnn.pack_padded_sequence(PADDED, lengths)


def test_wrong_sequences() -> None:
    with pytest.raises(RuntimeError, match="received an empty list"):
        rnn.pad_sequence([])
    with pytest.raises(RuntimeError, match="Expected iterable"):
        rnn.pad_sequence(3)
    with pytest.raises(RuntimeError, match="one of left or right, but got up"):
        rnn.pad_sequence([PADDED], padding_side="up")
    packed = rnn.pack_padded_sequence(PADDED, [4, 2, 1])
    with pytest.raises(ValueError, match="total_length=3 and max sequence length being 4"):
        rnn.pad_packed_sequence(packed, total_length=3)


def test_dropout_between_layers_needs_training() -> None:
    layer = rl.nn.GRU(3, 4, num_layers=2, dropout=0.5)
    x = rl.randn(5, 2, 3)
    assert not rl.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert rl.equal(layer(x)[0], layer(x)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rl.nn.GRU(3, 4, num_layers=2, dropout=0.5)


def test_states_of_another_kind() -> None:
    x, h = rl.zeros(5, 2, 3), rl.zeros(1, 2, 4)
    packed = rnn.pack_padded_sequence(x, rl.tensor([5, 3]))
    for given in (h, (h,), rl.stack([h, h])):
        for source in (x, packed):
            with pytest.raises(TypeError, match=r"expected hx to be a tuple \(h_0, c_0\), not"):
                rl.nn.LSTM(3, 4)(source, given)
    with pytest.raises(TypeError, match="GRU: expected hx to be a Tensor, not tuple"):
        rl.nn.GRU(3, 4)(x, (h, h))
    with pytest.raises(TypeError, match=r"expected hx to be a tuple \(h_0, c_0\), not Tensor"):
        rl.nn.LSTMCell(3, 4)(x[0], h[0])


@pytest.mark.parametrize("kind", [rl.nn.RNN, rl.nn.GRU])
def test_only_lstm_projects(kind: Any) -> None:
    assert "proj_size" in inspect.signature(kind).parameters
    with pytest.raises(ValueError, match="proj_size argument is only supported for LSTM"):
        kind(3, 4, proj_size=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'bogus'"):
        kind(3, 4, bogus=1)


LENGTHS = {
    "a list": lambda: [4, 2, 1],
    "a tensor made inside": lambda: rl.tensor([4, 2, 1]),
    "in any order": lambda: [1, 4, 2],
}


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("kind", LAYERS)
def test_packed_sequences_in_compiled_functions(kind: Any, name: str) -> None:
    layer = kind(5, 3, bidirectional=True)

    def function(x):
        packed = rnn.pack_padded_sequence(x, LENGTHS[name](), True, enforce_sorted=False)
        y, last = layer(packed)
        padded, lengths = rnn.pad_packed_sequence(y, True, total_length=5)
        return padded, lengths, last[0], *rnn.unpack_sequence(y)

    def results(call: Any) -> list[rl.Tensor]:
        x = rl.linspace(-1, 1, 60).reshape(3, 4, 5).requires_grad_()
        found = call(x)
        found[0].square().sum().backward()
        return [*found, x.grad]

    compiled = rl.compile(function, fullgraph=True)
    for _ in range(2):
        for a, b in zip(results(compiled), results(function), strict=True):
            assert rl.allclose(a, b, atol=1e-5)


def test_lengths_that_a_graph_does_not_know() -> None:
    x, lengths, layer = rl.zeros(3, 4, 5), rl.tensor([4, 2, 1]), rl.nn.GRU(5, 2)
    packed = rnn.pack_padded_sequence(x, lengths, True)
    functions = {
        "pack_padded_sequence": lambda: rl.compile(rnn.pack_padded_sequence, fullgraph=True)(
            x, lengths, True
        ),
        "pad_packed_sequence": lambda: rl.compile(rnn.pad_packed_sequence, fullgraph=True)(packed),
        "unpad_sequence": lambda: rl.compile(rnn.unpad_sequence, fullgraph=True)(x, lengths, True),
        "GRU": lambda: rl.compile(layer, fullgraph=True)(packed),
    }
    for name, call in functions.items():
        with pytest.raises(TraceError, match=rf"{name} at .* give them as a list \(lengths.tolist"):
            call()
