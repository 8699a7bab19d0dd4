"""The messages in event files that say: a number, a histogram, a picture, a text, a choice."""

from __future__ import annotations

import io
import wave
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.board import protobuf as pb
from rushlight.board.pictures import as_bytes
from rushlight.vision.png import png

FLOAT, DOUBLE, INT32, STRING, INT64, HALF = 1, 2, 3, 7, 9, 19  # TensorFlow's numbers of dtypes
KINDS = {"f4": FLOAT, "f8": DOUBLE, "i4": INT32, "i8": INT64, "f2": HALF}
SUCCESS = 1


def summary(tag: str, *fields: bytes, plugin: str = "", content: bytes = b"") -> bytes:
    """An event's field: a summary of one value."""
    metadata = b""
    if plugin:
        metadata = pb.data(9, pb.data(1, pb.text(1, plugin) + pb.data(2, content)))
    return pb.data(5, pb.data(1, pb.text(1, tag) + b"".join(fields) + metadata))


def scalar(tag: str, value: float) -> bytes:
    return summary(tag, pb.single(2, value))


def scalar_tensor(tag: str, value: float, double: bool) -> bytes:
    array = np.array(value, np.float64 if double else np.float32)
    return summary(tag, pb.data(8, tensor_message(array)), plugin="scalars")


def tensor(tag: str, value: np.ndarray) -> bytes:
    return summary(tag, pb.data(8, tensor_message(value)), plugin="tensor")


def tensor_message(array: np.ndarray) -> bytes:
    kind = KINDS.get(array.dtype.str[1:])
    if kind is None:
        raise TypeError(f"an event file cannot hold a tensor of {array.dtype}")
    raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return pb.integer(1, kind) + pb.data(2, shape_message(array.shape)) + pb.data(4, raw)


def shape_message(shape: tuple[int, ...]) -> bytes:
    return b"".join([pb.data(2, pb.integer(1, n)) for n in shape])


def text(tag: str, content: str) -> bytes:
    words = pb.integer(1, STRING) + pb.data(2, shape_message((1,))) + pb.data(8, content.encode())
    return summary(f"{tag}/text_summary", pb.data(8, words), plugin="text")


def image(tag: str, pixels: np.ndarray) -> bytes:
    """A picture of an (H, W, C) array."""
    height, width, channels = pixels.shape
    size = pb.integer(1, height) + pb.integer(2, width) + pb.integer(3, channels)
    return summary(tag, pb.data(4, size + pb.data(4, png(as_bytes(pixels)))))


def audio(tag: str, sound: np.ndarray, rate: int) -> bytes:
    """A sound of samples between −1 and 1, (frames,) or (channels, frames)."""
    samples = np.atleast_2d(sound.squeeze()).T
    frames, channels = samples.shape
    memory = io.BytesIO()
    with wave.open(memory, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    fields = pb.single(1, rate) + pb.integer(2, channels) + pb.integer(3, frames)
    fields += pb.data(4, memory.getvalue()) + pb.text(5, "audio/wav")
    return summary(tag, pb.data(6, fields))


def default_limits() -> np.ndarray:
    """The bins of TensorBoard's histograms: growing by a tenth from 1e-12 to 1e20, both ways."""
    limits, value = [], 1e-12
    while value < 1e20:
        limits.append(value)
        value *= 1.1
    return np.array([*[-v for v in reversed(limits)], 0.0, *limits])


def histogram(tag: str, values: np.ndarray, bins: Any, most: int | None = None) -> bytes:
    values = values.reshape(-1).astype(np.float64)
    if not values.size:
        raise ValueError(f"histogram {tag!r}: there are no values")
    if not np.isfinite(values).all():
        raise ValueError(f"histogram {tag!r}: a value is NaN or infinite")
    counts, limits = np.histogram(values, default_limits() if bins == "tensorflow" else bins)
    if most is not None and len(counts) > most:
        step = -(-len(counts) // most)
        padded = np.pad(counts, (0, -len(counts) % step))
        counts = padded.reshape(-1, step).sum(1)
        limits = np.append(limits[:-1][::step], limits[-1])
    used = np.flatnonzero(counts)
    first, last = used[0], used[-1] + 1
    edges = limits[1 + first : 1 + last]
    kept = counts[first:last]
    edges, kept = np.append(limits[first], edges), np.append(0, kept)  # where the first one begins
    return summary(
        tag,
        pb.data(
            5,
            pb.double(1, values.min())
            + pb.double(2, values.max())
            + pb.double(3, values.size)
            + pb.double(4, values.sum())
            + pb.double(5, values.dot(values))
            + pb.doubles(6, edges.tolist())
            + pb.doubles(7, kept.tolist()),
        ),
    )


def curve(tag: str, labels: np.ndarray, predictions: np.ndarray, weights: Any, count: int) -> bytes:
    """Precision and recall over ``count`` thresholds."""
    weight = np.ones(labels.shape) if weights is None else np.asarray(weights, np.float64).ravel()
    buckets = np.int64(np.floor(predictions * (count - 1)))
    bounds = (0, count - 1)
    positive, _ = np.histogram(buckets, count, bounds, weights=labels.astype(np.float64) * weight)
    negative, _ = np.histogram(buckets, count, bounds, weights=(1.0 - labels) * weight)
    true, false = np.cumsum(positive[::-1])[::-1], np.cumsum(negative[::-1])[::-1]
    precision = true / np.maximum(1e-7, true + false)
    recall = true / np.maximum(1e-7, true[0])
    rows = np.stack([true, false, false[0] - false, true[0] - true, precision, recall])
    content = pb.data(8, tensor_message(rows.astype(np.float32)))
    return summary(tag, content, plugin="pr_curves", content=pb.integer(2, count))


def choices(
    hyper_parameters: Mapping[str, Any],
    metrics: Mapping[str, Any],
    domains: Mapping[str, list[Any]] | None = None,
) -> list[bytes]:
    """The three events that tell TensorBoard of one run's hyper-parameters and its metrics."""
    infos, start = b"", b""
    for name, value in hyper_parameters.items():
        plain = value.item() if isinstance(value, np.generic) else value
        kind, content = chosen(name, plain)
        domain = b""
        if domains and name in domains:
            listed = [pb.data(1, chosen(name, v)[1]) for v in domains[name]]
            domain = pb.data(5, b"".join(listed))
        infos += pb.data(4, pb.text(1, name) + pb.integer(4, kind) + domain)
        start += pb.entry(1, name, content)
    for name in metrics:
        infos += pb.data(5, pb.data(1, pb.text(2, name)))
    parts = (
        ("_hparams_/experiment", pb.data(2, infos)),
        ("_hparams_/session_start_info", pb.data(3, start)),
        ("_hparams_/session_end_info", pb.data(4, pb.integer(1, SUCCESS))),
    )
    return [summary(tag, plugin="hparams", content=content) for tag, content in parts]


def chosen(name: str, value: Any) -> tuple[int, bytes]:
    """(kind, message) of one hyper-parameter."""
    if isinstance(value, bool):
        return 2, pb.varint(4 << 3) + pb.varint(value)
    if isinstance(value, (int, float)):
        return 3, pb.double(2, float(value))
    if isinstance(value, str):
        return 1, pb.data(3, value.encode())
    raise ValueError(f"hyper-parameter {name!r} is a {type(value).__name__}: use a number or text")


def layout(categories: Mapping[str, Mapping[str, Any]]) -> bytes:
    """How the page of custom scalars arranges its charts."""
    content = b""
    for title, charts in categories.items():
        inner = pb.text(1, title)
        for name, (kind, tags) in charts.items():
            if kind == "Margin":
                names = [pb.text(i + 1, tag) for i, tag in enumerate(tags)]
                chart = pb.data(3, pb.data(1, b"".join(names)))
            else:
                chart = pb.data(2, b"".join([pb.text(1, tag) for tag in tags]))
            inner += pb.data(2, pb.text(1, name) + chart)
        content += pb.data(2, inner)
    words = pb.integer(1, STRING) + pb.data(2, b"") + pb.data(8, content)
    return summary("custom_scalars__config__", pb.data(8, words), plugin="custom_scalars")
