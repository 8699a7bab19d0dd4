"""Networks over vectors, tokens and trees: perceptrons, transformers, LSTMs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any


def perceptron(lib: Any, widths: Sequence[int]) -> Any:
    """Linear layers with ReLU in between."""
    nn = lib.nn
    layers: list[Any] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def parallel_blocks(lib: Any) -> Any:
    """Two layers that multiply two linear maps of their input, and a linear one."""

    class ParallelBlock(lib.nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.first = lib.nn.Linear(inputs, outputs)
            self.second = lib.nn.Linear(inputs, outputs)

        def forward(self, x: Any) -> Any:
            return lib.nn.functional.relu(self.first(x) * self.second(x))

    return lib.nn.Sequential(
        ParallelBlock(1000, 100), ParallelBlock(100, 100), lib.nn.Linear(100, 10)
    )


def block(lib: Any, width: int, heads: int, causal: bool) -> Any:
    """A transformer block with its norms first."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.together = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.feed_forward = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def attention(self, x: Any) -> Any:
            batch, length, _ = x.shape
            split = (batch, length, heads, width // heads)
            q, k, v = [
                lib.transpose(lib.reshape(part, split), 1, 2)
                for part in lib.chunk(self.together(x), 3, -1)
            ]
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return self.out(lib.reshape(lib.transpose(seen, 1, 2), (batch, length, width)))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.feed_forward(self.norm2(x))

    return Block()


def blocks(lib: Any, layers: int, width: int, heads: int, causal: bool = False) -> Any:
    """Transformer blocks one after the other, and a norm."""
    made = [block(lib, width, heads, causal) for _ in range(layers)]
    return lib.nn.Sequential(*made, lib.nn.LayerNorm(width))


def gpt(lib: Any, layers: int, width: int, heads: int, tokens: int, context: int) -> Any:
    """A GPT, whose output layer is its table of tokens (Radford et al., 2019)."""
    nn = lib.nn

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(tokens, width)
            self.places = nn.Embedding(context, width)
            self.blocks = blocks(lib, layers, width, heads, causal=True)

        def forward(self, x: Any) -> Any:
            h = self.tokens(x) + self.places(lib.arange(x.shape[1]))
            return nn.functional.linear(self.blocks(h), self.tokens.weight)

    return Gpt()


def vit(lib: Any, layers: int, width: int, heads: int, patches: int) -> Any:
    """A transformer over patches of 16×16, averaged at the end (Dosovitskiy et al., 2020)."""
    nn = lib.nn

    class VisionTransformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.flatten = nn.Flatten(2)
            self.places = nn.Embedding(patches, width)
            self.blocks = blocks(lib, layers, width, heads)
            self.head = nn.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            h = lib.transpose(self.flatten(self.patches(x)), 1, 2)
            h = self.blocks(h + self.places(lib.arange(h.shape[1])))
            return self.head(lib.mean(h, 1))

    return VisionTransformer()


def char_lstm(lib: Any, characters: int, width: int, layers: int) -> Any:
    """An LSTM that reads characters and tells the next one of each."""
    nn = lib.nn

    class CharLstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(characters, width)
            self.lstm = nn.LSTM(width, width, layers, batch_first=True)
            self.head = nn.Linear(width, characters)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.table(x))[0])

    return CharLstm()


def lstm(lib: Any, inputs: int, units: int) -> Any:
    """An LSTM over sequences of vectors: its outputs."""
    nn = lib.nn

    class Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(inputs, units, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    return Lstm()


Tree = int | tuple["Tree", "Tree"]
"""A word, or two trees."""


def tree_lstm(lib: Any, words: int, width: int) -> Any:
    """A binary tree-LSTM: each node's state is made of its children's (Tai et al., 2015)."""
    nn = lib.nn

    class TreeLstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.gates = nn.Linear(2 * width, 5 * width)

        def forward(self, tree: Tree) -> tuple[Any, Any]:
            """The hidden state and the cell of a tree."""
            if isinstance(tree, int):
                cell = self.words(lib.tensor([tree]))
                return lib.tanh(cell), cell
            (h1, c1), (h2, c2) = self(tree[0]), self(tree[1])
            gates = lib.chunk(self.gates(lib.cat([h1, h2], 1)), 5, 1)
            i, f1, f2, o = [lib.sigmoid(gate) for gate in gates[:4]]
            cell = i * lib.tanh(gates[4]) + f1 * c1 + f2 * c2
            return o * lib.tanh(cell), cell

    return TreeLstm()
