"""Every tensor name and keyword that public PyTorch programs use is here.

``data/torch_usage.csv`` has one symbol a line, ``torch.name`` or ``Tensor.name``, with the keyword
arguments that programs pass to it.
"""

from __future__ import annotations

import csv
import inspect
import pickle
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.ops import registry

with (Path(__file__).parent / "data" / "torch_usage.csv").open() as file:
    USED = {row["symbol"]: row["keywords"].split() for row in csv.DictReader(file)}

NUMPY_NAMES: dict[str, Any] = {"axis": 0, "keepdims": True}


def named(symbol: str) -> Any:
    """The function, method or attribute here that a symbol stands for."""
    package, _, path = symbol.partition(".")
    return attrgetter(path)(rl if package == "torch" else rl.Tensor)


@pytest.mark.parametrize("symbol", USED)
def test_a_name_that_programs_use_exists(symbol: str) -> None:
    named(symbol)


@pytest.mark.parametrize(
    ("symbol", "keyword"), [(symbol, keyword) for symbol in USED for keyword in USED[symbol]]
)
def test_a_keyword_that_programs_use_is_taken(symbol: str, keyword: str) -> None:
    function = named(symbol)
    if keyword in NUMPY_NAMES:
        function(rl.ones(2, 3), **{"axis": 0} | {keyword: NUMPY_NAMES[keyword]})
    else:
        assert keyword in inspect.signature(function).parameters


def test_public_ops_survive_pickling() -> None:
    for name, op in registry.items():
        if op.function and not op.namespace.startswith("nn"):
            assert pickle.loads(pickle.dumps(op.call)) is op.call, name
