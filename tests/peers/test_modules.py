"""PyTorch's module records as tests: each record must pass in full."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.peers.modules import ours, records, run_record

KNOWN_DIFFERENCES: dict[str, str] = {}
"""Record → why its results differ. Each is run and must still differ."""

MOST_INPUTS = 60  # of each dtype and mode; one record has a thousand

RECORDS = {record.name: record for record in records([])}
PRESENT = {name: record for name, record in RECORDS.items() if ours(record) is not None}


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of its own deprecated names
@pytest.mark.parametrize("name", PRESENT)
def test_record(name: str, record_property: pytest.RecordProperty) -> None:
    record_property("category", "modules")
    outcome = run_record(PRESENT[name], most_inputs=MOST_INPUTS)
    record_property("samples", outcome.inputs)
    record_property("gradients", outcome.gradients)
    record_property("by_double", outcome.by_double)
    if name in KNOWN_DIFFERENCES:
        assert outcome.problems, f"{name} agrees now: take it out of KNOWN_DIFFERENCES"
        return
    assert outcome.inputs
    assert not outcome.problems, "\n".join(outcome.problems)


def test_every_record_has_a_module_here() -> None:
    assert [name for name in RECORDS if name not in PRESENT] == []


def test_known_differences_are_explained() -> None:
    assert all(name in PRESENT and reason for name, reason in KNOWN_DIFFERENCES.items())
