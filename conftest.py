"""Names for the examples in documentation strings, and a mark for the comparisons with PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

import rushlight

PEERS = Path(__file__).parent / "tests" / "peers"


@pytest.fixture(autouse=True, scope="session")
def names_in_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(rl=rushlight, np=numpy)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if PEERS in item.path.parents:
            item.add_marker("peers")
