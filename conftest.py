"""What pytest collects, what every test starts from, the counts of comparisons with PyTorch."""

from __future__ import annotations

import gc
import os
import random
import signal
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The tests are many and stay: no collection of garbage need look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/peers/"):
            item.add_marker("peers")


@pytest.fixture(autouse=True, scope="session")
def names_in_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(rl=rushlight, np=numpy)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Native code that other runs, other workers or the user have kept decides no test."""
    folder = str(tmp_path_factory.mktemp("cache"))
    rushlight.config.cache_dir = os.environ["RUSHLIGHT_CACHE_DIR"] = folder


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> None:
    """Programs that a shell starts in the background ignore Ctrl-C; tests of it must not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def seeds() -> None:
    """A test draws the same numbers whatever ran before it."""
    random.seed(0)
    numpy.random.seed(0)
    rushlight.manual_seed(0)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many of PyTorch's OpInfo records pass, by category; here, so that xdist finds it."""
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    samples: Counter[str] = Counter()
    gradients: Counter[str] = Counter()
    by_double: Counter[str] = Counter()
    for state, counts in (("passed", passed), ("failed", failed)):
        for report in terminalreporter.stats.get(state, []):
            properties = dict(getattr(report, "user_properties", ()))
            if "category" in properties:
                counts[properties["category"]] += 1
                samples[properties["category"]] += properties.get("samples", 0)
                gradients[properties["category"]] += properties.get("gradients", 0)
                by_double[properties["category"]] += properties.get("by_double", 0)
    if not passed and not failed:
        return
    terminalreporter.section("OpInfo records that exist here")
    for name in sorted(set(passed) | set(failed)):
        terminalreporter.write_line(
            f"{name:28} {passed[name]:4} pass, {failed[name]:3} fail, "
            f"{samples[name]:6} samples, {gradients[name]:6} gradients, "
            f"{by_double[name]:4} settled by float64"
        )
    terminalreporter.write_line(
        f"{'all':28} {sum(passed.values()):4} pass, {sum(failed.values()):3} fail"
    )
