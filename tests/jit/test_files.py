"""Program files: what is wrong with one is said, and nothing crashes."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.io import CheckpointError
from tests.jit.mutations import archive_of, members_of

ROOT = str(Path(rl.__file__).parents[1])


@pytest.fixture(scope="module")
def data():
    """The file of a small network that also sorts."""
    rl.manual_seed(0)
    net = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.Dropout(0.5), rl.nn.Linear(4, 2))

    def f(x, k: float = 1.0):
        return net(x).sort(1).values * k

    return rl.export(f, rl.rand(5, 3)).save_to_buffer()


def load(data):
    return rl.jit.load(io.BytesIO(data))


def with_text(data, name, old, new):
    """The file with another text in one member, and all checksums right."""
    members = members_of(data)
    text = members[name].decode()
    assert old in text, text
    return archive_of({**members, name: text.replace(old, new, 1).encode()})


def with_index(data, change):
    members = members_of(data)
    index = json.loads(members["index.json"])
    change(index)
    return archive_of({**members, "index.json": json.dumps(index).encode()})


class TestDamage:
    def test_truncated_anywhere(self, data):
        for end in (*range(0, len(data), 97), len(data) - 1):
            with pytest.raises(CheckpointError, match="the file"):
                load(data[:end])

    def test_every_kind_of_file_is_named(self, tmp_path):
        path = tmp_path / "x.pt"
        for content in (b"", b"hello", b"PK\3\4 no archive", b"\x80\x04."):
            path.write_bytes(content)
            with pytest.raises(CheckpointError, match=r"x\.pt"):
                rl.jit.load(path)
        with pytest.raises(IsADirectoryError):
            rl.jit.load(tmp_path)
        with pytest.raises(FileNotFoundError):
            rl.jit.load(tmp_path / "missing")
        rl.save({"a": rl.ones(1)}, path)
        with pytest.raises(CheckpointError, match=r"a checkpoint: rl\.load reads it"):
            rl.jit.load(path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda index: index.update(version=2), "version 2; this Rushlight reads"),
            (lambda index: index.update(format="x"), "no program of Rushlight's"),
            (lambda index: index.pop("value"), "damaged"),
            (lambda index: index["value"]["dict"].pop(), "the fields of a program"),
        ],
    )
    def test_index(self, data, change, message):
        with pytest.raises(CheckpointError, match=message):
            load(with_index(data, change))

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("f32[5,4] = mm(", "f32[5,5] = mm(", r"mm: its type is f32\[5,4\], not f32\[5,5\]"),
            ("f32[3,4] = transpose(", "f32[4,3] = transpose(", "transpose: its type"),
            ("dim1=-1", "dim1=7", "transpose:"),
            ("sort(", "os.system(", "there is no op os.system"),
            ("sort(", "nonzero(", "sort|nonzero"),
            ("dim=1, descending", "dim=5, descending", "sort:"),
            ("dim=1, descending=False", "dim=1, up=False", "sort: missing .*descending"),
            ("%0: f32[5,3]", "%0: f32[5,99999999999999]", "is no graph"),
            ("generator=0", "generator=None", "no generator|draws"),
            ("captured('Sequential.0.weight')", "captured('other')", None),
        ],
    )
    def test_graphs(self, data, old, new, message):
        other = with_text(data, "graphs/0.txt", old, new)
        if message is None:  # what a value is called makes no difference
            load(other)
            return
        with pytest.raises(CheckpointError, match=message):
            load(other)

    def test_a_state_of_a_generator_is_no_tensor(self, data):
        text = members_of(data)["graphs/0.txt"].decode()
        state = next(line for line in text.splitlines() if "bernoulli_" in line)
        number = state.split("bernoulli_(")[1].split(",")[0]
        used = f"= sum({number}, dim=None, keepdim=False)"
        other = with_text(data, "graphs/0.txt", "bernoulli_(" + number, "bernoulli_(%0")
        with pytest.raises(CheckpointError, match="no generator"):
            load(other)
        assert used not in text

    def test_texts_in_another_form(self, data):
        with pytest.raises(CheckpointError, match="not written as graphs are"):
            load(with_text(data, "graphs/0.txt", "dim0=-2, dim1=-1", "dim0=-2,  dim1=-1"))

    @pytest.mark.parametrize("option", ["order=None", "dtype=None", "out=None"])
    def test_options_of_numpy_are_none_of_graphs(self, option):
        data = rl.export(lambda x: x.exp(), rl.zeros(3)).save_to_buffer()
        text = members_of(data)["graphs/0.txt"].decode()
        call = re.search(r"exp\((%\d+)\)", text)
        other = f"exp({call[1]}, {option})"
        with pytest.raises(CheckpointError, match="is no graph"):
            load(with_text(data, "graphs/0.txt", call[0], other))

    def test_a_flipped_bit_in_a_tensor(self, data):
        members = members_of(data)
        place = data.index(members["data/0"])
        other = bytearray(data)
        other[place] ^= 1
        with pytest.raises(CheckpointError, match=r"data/0.*checksum"):
            load(bytes(other))

    @pytest.mark.parametrize("name", ["forward", "", "a..b", "weight.x", "a." * 3000 + "x"])
    def test_names_that_no_tensor_can_have(self, name):
        members = members_of(rl.jit.trace(rl.nn.Linear(3, 2), rl.ones(2, 3)).save_to_buffer())
        index = json.loads(members["index.json"])
        (names,) = [value for key, value in index["value"]["dict"] if key == "names"]
        names["list"][1]["tuple"][0] = name
        data = archive_of({**members, "index.json": json.dumps(index).encode()})
        with pytest.raises(CheckpointError, match="is no name of a tensor"):
            rl.jit.load(io.BytesIO(data))

    def test_results_too_large_to_be_tried(self):
        program = rl.export(lambda x: x + rl.arange(3.0)[0], rl.zeros(3))
        members = members_of(program.save_to_buffer())
        text = members["graphs/0.txt"].decode()
        count = 1 << 40
        text = text.replace("count=3", f"count={count}").replace(
            "[3] = arange", f"[{count}] = arange"
        )
        data = archive_of({**members, "graphs/0.txt": text.encode()})
        with pytest.raises(CheckpointError, match="is no graph"):
            rl.jit.load(io.BytesIO(data))

    @pytest.mark.parametrize("field", ["floats", "tensors", "count"])
    def test_counts_are_compared_before_anything_is_counted(self, data, field):
        index = members_of(data)["index.json"].decode()
        old = re.search(rf'\["{field}",\d+\]', index)[0]
        other = with_text(data, "index.json", old, f'["{field}",2000000]')
        tracemalloc.start()
        with pytest.raises(CheckpointError, match=r"is no graph \(\w"):
            load(other)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 24

    def test_a_size_cannot_be_much_longer_than_its_text(self):
        program = rl.export(lambda x, y: (x + 1, y + 1), rl.zeros(3, 4), rl.zeros(5, 6))
        members = members_of(program.save_to_buffer())
        (name,) = [name for name, text in members.items() if b"f32[B" in text]
        text = members[name].decode()
        symbols = sorted({*re.findall(r"[A-Z]", text.split("\n")[0])})
        power = "*".join([f"({'+'.join(symbols)})"] * 60)
        other = re.sub(r"(%\d+: f32\[)[^,\]]+(.*add)", rf"\g<1>{power}\2", text)
        assert other != text
        with pytest.raises(CheckpointError, match="a size is too long"):
            load(archive_of({**members, name: other.encode()}))

    def test_members_that_point_outside(self, data):
        with pytest.raises(CheckpointError, match="points outside"):
            load(archive_of({**members_of(data), "../evil": b""}))


class TestSaving:
    def test_more_files_lie_inside(self):
        program = rl.export(lambda x: x + 1, rl.zeros(3))
        with pytest.raises(ValueError, match="points outside"):
            rl.jit.save(program, io.BytesIO(), _extra_files={"../b": "x"})

    def test_what_was_there_stays_if_saving_fails(self, tmp_path):
        path = tmp_path / "f.pt"
        rl.export(lambda x: x, rl.ones(1)).save(path)
        before = path.read_bytes()
        with pytest.raises(RuntimeError, match="no program yet"):
            rl.jit.script(lambda x: x).save(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["f.pt"]

    def test_the_same_program_is_the_same_file(self):
        f = rl.export(lambda x: x.exp(), rl.ones(3))
        assert f.save_to_buffer() == f.save_to_buffer()


def mutations(begin: int, end: int) -> str:
    """Runs mutated files in a process of their own, which must not die of them."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.jit.mutations", str(begin), str(end)],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"seed {done.stderr.split()[-1:]}"
    return done.stdout


def test_mutated_files():
    outcomes = mutations(0, 120)
    assert "refused" in outcomes
    assert "failed" not in outcomes


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_mutated_files(part):
    assert "failed" not in mutations(1000 * part, 1000 * part + 1000)
