"""Event files: whole records with right checksums, and clear errors."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.board import SummaryWriter
from rushlight.board.events import checksum, masked_checksum
from rushlight.vision.png import png


def records(folder: Path) -> list[bytes]:
    """The events of the one file in a folder, their checksums verified."""
    (path,) = folder.glob("events.out.tfevents.*")
    data, found, place = path.read_bytes(), [], 0
    while place < len(data):
        head = data[place : place + 8]
        assert data[place + 8 : place + 12] == masked_checksum(head)
        (length,) = struct.unpack("<Q", head)
        body = data[place + 12 : place + 12 + length]
        assert data[place + 12 + length : place + 16 + length] == masked_checksum(body)
        found.append(body)
        place += 16 + length
    return found


def test_the_checksum_is_crc32c() -> None:
    assert checksum(b"123456789") == 0xE3069283
    assert checksum(b"") == 0


def test_long_content_is_summed_as_short_content_is() -> None:
    content = np.random.default_rng(0).bytes(5000)

    def plain(data: bytes) -> int:
        c = 0xFFFFFFFF
        for byte in data:
            c ^= byte
            for _ in range(8):
                c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
        return c ^ 0xFFFFFFFF

    for length in (0, 1, 255, 256, 1024, 1279, 1280, 1281, 5000):
        assert checksum(content[:length]) == plain(content[:length])


def test_every_call_adds_a_whole_record(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        assert writer.get_logdir() == str(tmp_path)
        for step in range(3):
            writer.add_scalar("loss", rl.tensor(0.5), step)
        writer.add_text("note", "hello")
        writer.add_histogram("weights", rl.randn(100), 1)
        writer.flush()
        assert len(records(tmp_path)) == 6
    assert len(records(tmp_path)) == 6


def test_curves_of_one_picture_have_files_of_their_own(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("loss", {"train": 1.0, "test": 2}, 0)
    assert len(records(tmp_path / "loss_train")) == 2
    assert len(records(tmp_path / "loss_test")) == 2


def test_the_default_folder_is_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SummaryWriter(comment="_trial").close()
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.endswith("_trial")


def test_a_png_holds_the_pixels() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    data = png(pixels)
    start = data.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", data[start - 8 : start - 4])
    rows = np.frombuffer(zlib.decompress(data[start : start + length]), np.uint8).reshape(2, 13)
    assert np.array_equal(rows[:, 1:], pixels.reshape(2, 12))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda w: w.add_scalar("x", "1"), TypeError, "'x': expected a number, got str"),
        (lambda w: w.add_scalar("x", rl.ones(2)), ValueError, r"one number, got shape \(2,\)"),
        (lambda w: w.add_histogram("x", rl.ones(0)), ValueError, "there are no values"),
        (lambda w: w.add_histogram("x", rl.tensor([rl.nan])), ValueError, "NaN or infinite"),
        (lambda w: w.add_image("x", rl.ones(3, 4)), ValueError, "does not name the 2 dimensions"),
        (lambda w: w.add_image("x", rl.ones(5, 4, 4)), ValueError, "1 to 4 channels, got 5"),
        (lambda w: w.add_graph(3), TypeError, "expected a Module, got int"),
        (lambda w: w.add_graph(rl.nn.Linear(2, 2)), ValueError, "pass an example input"),
        (lambda w: w.add_hparams([], {}), TypeError, "should be dictionaries"),
        (lambda w: w.add_hparams({"a": []}, {}), ValueError, "'a' is a list"),
    ],
)
def test_bad_values_are_errors(call, error, message, tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer, pytest.raises(error, match=message):
        call(writer)
    assert len(records(tmp_path)) == 1
