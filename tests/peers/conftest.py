"""What every comparison starts from."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def seed_of_pytorch() -> None:
    """Its stream too is the same whatever ran before."""
    pytest.importorskip("torch").manual_seed(0)
