"""What TensorBoard's own reader finds in our event files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.board import SummaryWriter

reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
hparams = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")


def read(folder: Path) -> Any:
    events = reader.EventAccumulator(str(folder), size_guidance={"tensors": 0, "images": 0})
    events.Reload()
    return events


def test_numbers_histograms_and_texts(tmp_path: Path) -> None:
    values = rl.randn(1000)
    with SummaryWriter(tmp_path) as writer:
        for step in range(5):
            writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_scalar("precise", 1 / 3, 7, new_style=True, double_precision=True)
        writer.add_histogram("weights", values, 2)
        writer.add_histogram("few", values, 2, bins="auto", max_bins=10)
        writer.add_text("note", "**ü**", 3)
        writer.add_tensor("matrix", rl.arange(6.0).reshape(2, 3), 1)
    events = read(tmp_path)
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [
        (i, np.float32(1 / (i + 1))) for i in range(5)
    ]
    found = events.Histograms("weights")[0].histogram_value
    assert (found.num, sum(found.bucket)) == (1000, 1000)
    assert found.min == values.min().item()
    assert len(found.bucket) == len(found.bucket_limit)
    assert sum(events.Histograms("few")[0].histogram_value.bucket) == 1000
    util = pytest.importorskip("tensorboard.util.tensor_util")
    assert util.make_ndarray(events.Tensors("note/text_summary")[0].tensor_proto)[0] == (
        "**ü**".encode()
    )
    assert util.make_ndarray(events.Tensors("precise")[0].tensor_proto) == 1 / 3
    matrix = util.make_ndarray(events.Tensors("matrix")[0].tensor_proto)
    assert matrix.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = rl.randint(0, 256, (3, 20, 30), dtype=rl.uint8)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("one", pixels, 4)
        writer.add_image("grey", rl.rand(20, 30), dataformats="HW")
        writer.add_images("many", rl.rand(11, 1, 8, 9))
    events = read(tmp_path)
    (one,) = events.Images("one")
    assert (one.step, one.width, one.height) == (4, 30, 20)
    decoded = np.asarray(image.open(io.BytesIO(one.encoded_image_string)))
    assert np.array_equal(decoded, pixels.numpy().transpose(1, 2, 0))
    assert (events.Images("many")[0].width, events.Images("many")[0].height) == (72, 16)


def test_a_graph_is_nested_by_modules(tmp_path: Path) -> None:
    model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.Sequential(rl.nn.ReLU(), rl.nn.Linear(4, 2)))
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, rl.randn(1, 3))
    nodes = {node.name: node for node in read(tmp_path).Graph().node}
    assert nodes["Sequential/0/weight"].op == "Parameter"
    assert any(name.startswith("Sequential/1/0/") for name in nodes)
    (last,) = nodes["output/0"].input
    assert last.startswith("Sequential/1/1/")
    assert "Sequential/1/1/weight" in nodes[last].input
    assert all(i in nodes for node in nodes.values() for i in node.input)
    assert nodes["output/0"].attr["_output_shapes"].list.shape[0].dim[1].size == 2


def test_hyper_parameters(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        choice = {"lr": 0.1, "optimizer": "adam", "nesterov": True, "width": rl.tensor(3)}
        writer.add_hparams(choice, {"accuracy": 0.9}, run_name="first")
    events = read(tmp_path / "first")
    assert events.Scalars("accuracy")[0].value == np.float32(0.9)
    metadata = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    start = hparams.HParamsPluginData.FromString(metadata).session_start_info.hparams
    assert start["lr"].number_value == 0.1
    assert start["optimizer"].string_value == "adam"
    assert start["nesterov"].bool_value is True
    metadata = events.summary_metadata["_hparams_/experiment"].plugin_data.content
    experiment = hparams.HParamsPluginData.FromString(metadata).experiment
    assert [m.name.tag for m in experiment.metric_infos] == ["accuracy"]


def test_sounds_and_curves(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("tone", rl.sin(rl.arange(1000.0) / 10), sample_rate=8000)
        writer.add_pr_curve("curve", rl.tensor([0, 1, 1]), rl.tensor([0.1, 0.8, 0.4]))
        writer.add_custom_scalars({"page": {"chart": ["Multiline", ["loss", "accuracy"]]}})
    events = read(tmp_path)
    assert events.Audio("tone")[0].length_frames == 1000
    assert events.Audio("tone")[0].encoded_audio_string.startswith(b"RIFF")
    assert {"curve", "custom_scalars__config__"} <= set(events.Tags()["tensors"])
