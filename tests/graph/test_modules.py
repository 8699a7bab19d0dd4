"""Paths of modules in graphs."""

from __future__ import annotations

import rushlight as rl
from rushlight import nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.layers = nn.ModuleList([nn.Linear(3, 2)])
        self.register_buffer("shift", rl.ones(2))

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.layers[0](self.inner(x)) + self.shift


def test_nodes_and_captured_tensors_are_named_after_modules() -> None:
    graph = rl.graph(Block(), rl.ones(4, 3))
    paths = dict.fromkeys([node.source.module for node in graph.nodes() if node.source])
    assert list(paths) == ["Block.inner.0", "Block.inner.1", "Block.layers.0", "Block"]
    names = set(graph.names.values())
    assert {"Block.inner.0.weight", "Block.layers.0.bias", "Block.shift"} <= names


def test_functions_have_no_path() -> None:
    graph = rl.graph(lambda x: x.exp(), rl.ones(2))
    assert [node.source.module for node in graph.nodes() if node.source] == [""]
