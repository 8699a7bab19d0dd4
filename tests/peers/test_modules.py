"""PyTorch's module records as tests: each record must pass in full."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.peers.modules import ours, records, run_record

KNOWN_DIFFERENCES: dict[str, str] = {}
"""Record → why its results differ. Each is run and must still differ."""

RECORDS = {record.name: record for record in records([])}
PRESENT = {name: record for name, record in RECORDS.items() if ours(record) is not None}


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of its own deprecated names
@pytest.mark.parametrize("name", PRESENT)
def test_record(name: str) -> None:
    outcome = run_record(PRESENT[name])
    if name in KNOWN_DIFFERENCES:
        assert outcome.problems, f"{name} agrees now: take it out of KNOWN_DIFFERENCES"
        return
    assert outcome.inputs
    assert not outcome.problems, "\n".join(outcome.problems)


def test_known_differences_are_explained() -> None:
    assert all(name in PRESENT and reason for name, reason in KNOWN_DIFFERENCES.items())
