"""Every workload runs here, at a tiny size where it has one."""

from __future__ import annotations

import pytest

import rushlight as rl
from benchmarks.networks import NETWORKS
from benchmarks.peers.pytorch import open_peer
from benchmarks.sweeps import POINTS
from benchmarks.workloads import STARTS, WORKLOADS

LARGE = ("AlexNet", "VGG", "ResNet-50", "Inception", "GPT-2", "60,000", "DataLoader")
SIZES = {  # numbers of parameters, as published; Inception's without its auxiliary head
    "AlexNet": 61_100_840,
    "VGG-16": 138_357_544,
    "ResNet-18": 11_689_512,
    "ResNet-50": 25_557_032,
    "SqueezeNet": 1_248_424,
    "Inception-v3": 23_834_568,
    "GPT-2 small": 124_439_808,
}


def marked(names: list[str]) -> list[object]:
    """Parameters of a test, those that take long marked."""
    return [
        pytest.param(name, marks=pytest.mark.slow if name.startswith(LARGE) else ())
        for name in names
    ]


@pytest.mark.parametrize("name", marked(list(WORKLOADS)))
def test_a_workload_runs_in_dynamic_mode(name: str) -> None:
    _, make = open_peer("rushlight", "dynamic", threads=rl.get_num_threads())
    make(name, WORKLOADS[name], tiny=True)()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, w in WORKLOADS.items() if w.compiles])
def test_a_workload_runs_compiled(name: str) -> None:
    _, make = open_peer("rushlight", "compiled", threads=rl.get_num_threads())
    step = make(name, WORKLOADS[name], tiny=True)
    step()
    step()


@pytest.mark.parametrize("name", marked(list(SIZES)))
def test_a_network_has_as_many_parameters_as_the_published_one(name: str) -> None:
    found = sum([p.numel() for p in NETWORKS[name].build(rl).parameters()])
    assert found == SIZES[name]


def test_points_and_starts_are_made() -> None:
    assert all([workload.network for workload in POINTS.values()])
    assert all([start.workload for start in STARTS.values()])
