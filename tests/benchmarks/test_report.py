"""Tables, ratios and pictures, from times that are known."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from benchmarks import causes, picture, report, run, scaling, starts
from benchmarks.picture import Bar, Curve
from benchmarks.race import Times
from benchmarks.sweeps import SWEEPS

TIMES = Times(
    {"Rushlight": 4e-4, "Rushlight compiled": 1e-4, "PyTorch": 5e-4, "JAX": 2.5e-4},
    {"TensorFlow": "ValueError: a | b\nc"},
    [5e-5],
)


def test_ratios_are_to_pytorch_and_to_the_best_peer() -> None:
    assert report.ratios(TIMES) == (pytest.approx(0.8), pytest.approx(0.4))
    assert report.ratios(Times({"PyTorch": 1.0}, {}, [])) == (None, None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (1.234e-6, "1.23 µs"),
        (99.96e-6, "100 µs"),
        (9.996e-4, "1.00 ms"),
        (0.01234, "12.3 ms"),
        (2.0, "2.00 s"),
        (321.0, "321 s"),
    ],
)
def test_durations_have_three_digits(seconds: float | None, words: str) -> None:
    assert report.duration(seconds) == words


def test_a_missing_time_is_a_dash_and_its_reason_stands_below() -> None:
    lines = report.call_table({"two-layer net, training": TIMES})
    row = lines[2]
    assert row.count("–") == 5
    assert "0.80 (≤ 0.7: **missed**) | 0.40 (≤ 0.5: met) | 50.0 µs (0.20) |" in row
    assert "- OpenVINO runs nothing: it was not chosen, or not installed" in lines
    assert "- JAX runs the networks, and the programs that are written for it too" in lines
    assert lines[-1] == "- TensorFlow, two-layer net, training: `ValueError: a | b c`"
    assert report.tally(lines) == "1 of 2 goals are met."


def test_what_failed_is_missed() -> None:
    failed = Times({"PyTorch": 1.0}, {"Rushlight": "its process ended with code -9"}, [])
    lines = report.call_table({"two-layer net, training": failed})
    assert "| – (≤ 0.7: **missed**) | – | – |" in lines[2]
    assert report.tally(lines) == "0 of 1 goals are met."
    row = starts.failed_row("LeNet", "Rushlight", 0.5, None)
    assert row == ["LeNet", "Rushlight", "failed", "–", "–", "– (≤ 0.5 s: **missed**)", "–", "–"]


def test_what_misses_has_a_cause() -> None:
    lines = causes.missed({"two-layer net, training": TIMES, "a + b on 4×4": TIMES})
    assert [line.split(" | ")[0] for line in lines[4:-1]] == [
        "| two-layer net, training, dynamic",
        "| a + b on 4×4, dynamic",
    ]
    assert all([len(line) > 100 for line in lines[4:-1]])
    assert causes.missed({"randn 1M": Times({"Rushlight": 1.0, "PyTorch": 3.0}, {}, [])}) == []


def test_a_bar_for_each_goal() -> None:
    made = run.bars({"two-layer net, training": TIMES, "randn 1M": TIMES})
    assert [(bar.label, bar.goal) for bar in made] == [
        ("two-layer net, training, dynamic", 0.7),
        ("two-layer net, training", 0.5),
        ("randn 1M, dynamic", 0.5),
    ]


def test_bars_are_coloured_by_their_goals() -> None:
    rows = [Bar("quick & small", 0.25, 0.5), Bar("slow", 3.0, 0.5), Bar("free", 1.0, None)]
    root = ElementTree.fromstring(picture.bars("ratios", rows))
    fills = [part.get("fill") for part in root.iter() if part.get("height") == "12"]
    assert fills[-3:] == [picture.MET, picture.MISSED, picture.FREE]


def test_slopes() -> None:
    assert picture.slope({2: 1.0, 4: 1.0, 8: 2.0, 16: 4.0, 32: 8.0}) == pytest.approx(1.0)
    assert math.isnan(picture.slope({2: 1.0}))


def test_the_page_on_scaling_has_each_sweep() -> None:
    curves = [[Curve("Rushlight", {size: 1e-4 * size for size in sweep.sizes})] for sweep in SWEEPS]
    lines, drawing = scaling.sweep_sections(SWEEPS, curves)
    assert sum([line.endswith("| 1.00 |") for line in lines]) == len(SWEEPS)
    assert len(list(ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}g"))) == 5
