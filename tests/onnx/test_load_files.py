"""Files that are damaged, or want what lies elsewhere: refused with their names, nothing run."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.testing import assert_close

onnx = pytest.importorskip("onnx")

from tests.onnx.models import model, perceptron  # noqa: E402


def refused(f: Any, match: str) -> None:
    with pytest.raises(rl.onnx.OnnxError, match=match):
        rl.onnx.load(f)


def external(tmp_path: Path, **entries: str) -> Any:
    """A path to the perceptron whose first weight lies in another file, as ``entries`` say."""
    found = perceptron()
    tensor = found.graph.initializer[0]
    (tmp_path / "weights.bin").write_bytes(b"\0" * 16 + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    for key, value in {"location": "weights.bin", "offset": "16", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return write_proto(tmp_path / "net.onnx", found)


def write_proto(path: Path, found: Any) -> Path:
    path.write_bytes(found.SerializeToString())
    return path


def test_external_data_are_read_beside_the_file(tmp_path: Path) -> None:
    x = rl.randn(3, 4)
    assert_close(rl.onnx.load(external(tmp_path))(x), rl.onnx.load(perceptron())(x))
    inner = tmp_path / "inner"
    inner.mkdir()
    os.rename(tmp_path / "weights.bin", inner / "weights.bin")
    path = external(tmp_path, location="inner/weights.bin", length="128")
    assert_close(rl.onnx.load(path)(x), rl.onnx.load(perceptron())(x))


def test_external_data_of_another_writer(tmp_path: Path) -> None:
    path = str(tmp_path / "net.onnx")
    onnx.save(
        perceptron(),
        path,
        save_as_external_data=True,
        location="net.data",
        size_threshold=0,
    )
    x = rl.randn(3, 4)
    assert_close(rl.onnx.load(path)(x), rl.onnx.load(perceptron())(x))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../weights.bin"}, "outside the model's folder"),
        ({"location": "inner/../../weights.bin"}, "outside the model's folder"),
        ({"location": "..\\weights.bin"}, "outside the model's folder"),
        ({"location": "/etc/passwd"}, "must be a relative one"),
        ({"location": "C:\\weights.bin"}, "must be a relative one"),
        ({"location": ""}, "must be a relative one"),
        ({"location": "weights\0.bin"}, "must be a relative one"),
        ({"location": "none.bin"}, "No such file"),
        ({"location": "."}, "no regular file"),
        ({"offset": "17"}, "bytes 17 to 145 of 'weights.bin' are needed, which has 144"),
        ({"offset": "-1"}, "offset '-1': a number of bytes is needed"),
        ({"offset": "9" * 30}, "a number of bytes is needed"),
        ({"length": "64"}, "its length is 64 bytes where its shape needs 128"),
        ({"length": "1e2"}, "length '1e2': a number of bytes is needed"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value.values())[:20],
)
def test_external_data_that_are_refused(
    tmp_path: Path, entries: dict[str, str], message: str
) -> None:
    refused(external(tmp_path, **entries), f"net.onnx: initializer 'first.weight': .*{message}")


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = external(folder)
    os.rename(folder / "weights.bin", tmp_path / "secret.bin")
    os.symlink(tmp_path / "secret.bin", folder / "weights.bin")
    refused(path, "a link out of the model's folder")
    os.remove(folder / "weights.bin")
    os.symlink(tmp_path, folder / "up")
    refused(external(folder, location="up/secret.bin"), "a link out of the model's folder")


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    path = external(tmp_path)
    os.remove(tmp_path / "weights.bin")
    os.mkfifo(tmp_path / "weights.bin")
    refused(path, "no regular file")
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(OSError, match="not a regular file"):
        rl.onnx.load(tmp_path / "pipe.onnx")


def test_external_data_without_a_place(tmp_path: Path) -> None:
    data = external(tmp_path).read_bytes()
    refused(io.BytesIO(data), "external data need the path of the model")


def test_paths(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rl.onnx.load(tmp_path / "none.onnx")
    with pytest.raises(IsADirectoryError):
        rl.onnx.load(tmp_path)
    with pytest.raises(TypeError, match="expected a path or a file"):
        rl.onnx.load(3)
    (tmp_path / "empty.onnx").touch()
    refused(tmp_path / "empty.onnx", "empty.onnx: the file is empty")
    (tmp_path / "text.onnx").write_text("hello, world")
    refused(tmp_path / "text.onnx", r"text.onnx: it is no ONNX file")
    refused(io.StringIO("text"), "opened as text")


def test_every_truncation_is_refused() -> None:
    data = perceptron().SerializeToString()
    for length in range(0, len(data), 7):
        refused(io.BytesIO(data[:length]), "empty|no ONNX file|needs|not computed|missing|exist")


def damaged(change: Any) -> Any:
    found = perceptron()
    change(found.graph)
    return found


DAMAGES: list[tuple[str, Any, str]] = [
    ("shape", lambda g: g.initializer[0].dims.append(3), "needs 384 bytes, the file has 128"),
    ("huge", lambda g: g.initializer[0].dims.extend([1 << 40]), "is too large"),
    ("overflow", lambda g: g.initializer[0].dims.extend([1 << 62] * 4), "is too large"),
    ("negative", lambda g: g.initializer[0].dims.append(-1), "has a negative size"),
    ("type", lambda g: setattr(g.initializer[0], "data_type", 99), "elements of type 99"),
    ("strings", lambda g: setattr(g.initializer[0], "data_type", 8), "strings are not supported"),
    ("twice", lambda g: g.initializer.append(g.initializer[0]), "two initializers are called"),
    ("unknown", lambda g: setattr(g.node[1], "op_type", "Relo"), r"node 'r' \(Relo\): this op"),
    ("domain", lambda g: setattr(g.node[1], "domain", "mine"), "no version of the operator set"),
    ("missing", lambda g: setattr(g.node[1], "op_type", "Add"), r"\(Add\): 'b' is missing"),
    ("inputs", lambda g: g.node[1].input.append("x"), r"\(Relu\): it has 2 inputs"),
    ("absent", lambda g: g.node[1].input.__setitem__(0, "z"), "input 'z' does not exist"),
    ("cycle", lambda g: g.node[0].input.__setitem__(0, "y"), "part of a cycle"),
    ("again", lambda g: g.node.append(g.node[1]), "'r' is computed twice"),
    ("output", lambda g: setattr(g.output[0], "name", "z"), "output 'z' is not computed"),
    ("attribute", lambda g: g.node[1].attribute.add(name="z", type=2), "attribute 'z' is not"),
    ("kind", lambda g: setattr(g.node[0].attribute[0], "type", 10), "attribute of type 10"),
    ("text", lambda g: setattr(g.node[0].attribute[0], "type", 3), "transB"),
]


@pytest.mark.parametrize(
    ("change", "message"), [pytest.param(*case[1:], id=case[0]) for case in DAMAGES]
)
def test_damages_are_named(change: Any, message: str) -> None:
    refused(damaged(change), f"the model: .*{message}")


def test_nothing_of_a_refused_file_is_left(tmp_path: Path) -> None:
    before = perceptron()
    text = before.SerializeToString()
    rl.onnx.load(before)
    assert before.SerializeToString() == text  # the checker saw a copy


def test_sparse_tensors() -> None:
    found = model("g (float[2, 3] x) => (float[2, 3] y) { y = Add(x, w) }")
    sparse = found.graph.sparse_initializer.add()
    sparse.values.CopyFrom(onnx.numpy_helper.from_array(np.float32([5, 7]), "w"))
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.int64([1, 3]), "i"))
    sparse.dims.extend([2, 3])
    expect = rl.tensor([[0.0, 5.0, 0.0], [7.0, 0.0, 0.0]])
    assert_close(rl.onnx.load(found)(rl.zeros(2, 3)).detach(), expect)
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.int64([[0, 1], [1, 0]]), "i"))
    assert_close(rl.onnx.load(found)(rl.zeros(2, 3)).detach(), expect)
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.int64([1, 6]), "i"))
    refused(found, "do not fit its values or its shape")


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A file with some bits turned, bytes replaced, or a piece cut out or put in."""
    found = bytearray(data)
    match rng.randrange(4):
        case 0:
            for _ in range(rng.randrange(1, 4)):
                found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
        case 1:
            for _ in range(rng.randrange(1, 8)):
                found[rng.randrange(len(found))] = rng.randrange(256)
        case 2:
            del found[rng.randrange(len(found)) :]
        case _:
            start = rng.randrange(len(found))
            found[start : start + rng.randrange(1, 30)] = rng.randbytes(rng.randrange(30))
    return bytes(found)


def attack(count: int, seed: int) -> None:
    """Loads mutated files: each is a module or is refused with an error of ours."""
    rng = random.Random(seed)
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    paths = sorted(folder.glob("*/test_*/model.onnx"))
    seeds = [data for path in paths if len(data := path.read_bytes()) < 20_000]
    seeds.append(perceptron().SerializeToString())
    loaded = 0
    for _ in range(count):
        try:
            rl.onnx.load(io.BytesIO(mutated(rng.choice(seeds), rng)))
            loaded += 1
        except rl.onnx.OnnxError:
            pass
    assert 0 < loaded < count


def test_mutated_files() -> None:
    attack(400, seed=0)


@pytest.mark.slow
def test_ten_thousand_mutated_files() -> None:
    attack(10_000, seed=1)
