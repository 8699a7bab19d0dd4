"""Writes the network of a workload as ONNX. ``python -m benchmarks.export NAME TINY PATH``"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from benchmarks.peers.onnx import sample
from benchmarks.workloads import WORKLOADS


def main() -> None:
    name, tiny, path = sys.argv[1:]
    workload, target = WORKLOADS[name], Path(path)
    assert workload.network is not None
    torch.manual_seed(0)
    model = workload.network.build(torch).eval()
    x = torch.from_numpy(sample(workload.network, workload.batch, tiny == "True"))
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_suffix(".part")
    torch.onnx.export(model, (x,), beside, external_data=False)
    beside.rename(target)


if __name__ == "__main__":
    main()
