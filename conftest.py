"""What pytest collects, the mark of the comparisons with PyTorch, the names in examples."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

import rushlight

TESTS = Path(__file__).parent / "tests"
PACKAGE = Path(__file__).parent / "rushlight"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Only our own modules, not the helpers of tests, are searched for examples."""
    if collection_path == PACKAGE / "__init__.py":
        return True  # its functions are the ops', whose examples are found in their own modules
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper and TESTS in collection_path.parents else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if TESTS / "peers" in item.path.parents:
            item.add_marker("peers")


@pytest.fixture(autouse=True, scope="session")
def names_in_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(rl=rushlight, np=numpy)
