"""Saving and loading: what comes back, and that no crash leaves half a file."""

from __future__ import annotations

import argparse
import io
import os
import random
import signal
import stat
import time
from collections import OrderedDict
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.io import CheckpointError


def same(a: Any, b: Any) -> bool:
    if isinstance(a, rl.Tensor):
        return type(a) is type(b) and a.dtype is b.dtype and rl.equal(a, b)
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and (a == b or a != a)


VALUES = {
    "tensor": rl.arange(6.0).reshape(2, 3),
    "scalar": rl.tensor(2.5),
    "empty": rl.empty(0, 3),
    "bfloat16": rl.tensor([1.5, 2.5], dtype=rl.bfloat16),
    "complex": rl.tensor([1 + 2j]),
    "bool": rl.tensor([True, False]),
    "parameter": rl.nn.Parameter(rl.ones(2)),
    "transposed": rl.arange(6).reshape(2, 3).t(),
    "numbers": [1, -(10**30), 2.5, float("inf"), float("nan"), True, None, 1 + 2j],
    "text": {"a": "ü", "b": b"\0\1", 3: "three", (1, 2): "pair", None: 0, 1.5: 1},
    "containers": ([], (), {}, OrderedDict(z=1, a=2), {1, 2}, frozenset({3})),
    "others": [rl.Size([1, 2]), rl.float16, rl.device("cpu"), slice(1, None, 2), range(3)],
    "namespace": argparse.Namespace(lr=0.1, layers=[1, 2]),
    "path": PurePath("a/b"),
    "array": np.arange(4, dtype=np.int16).reshape(2, 2),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back(name: str, tmp_path: Path) -> None:
    rl.save(VALUES[name], tmp_path / "x.pt")
    assert same(rl.load(tmp_path / "x.pt"), VALUES[name])
    buffer = io.BytesIO()
    rl.save(VALUES[name], buffer)
    buffer.seek(0)
    assert same(rl.load(buffer), VALUES[name])


def test_shared_memory_stays_shared_and_a_lone_view_is_small(tmp_path: Path) -> None:
    x = rl.arange(1000.0)
    rl.save({"x": x, "again": x, "part": x[2:4]}, tmp_path / "x.pt")
    loaded = rl.load(tmp_path / "x.pt")
    loaded["x"][2] = -1
    assert loaded["again"][2] == -1
    assert loaded["part"][0] == -1
    rl.save({"part": x[2:4]}, tmp_path / "y.pt")
    assert (tmp_path / "y.pt").stat().st_size < 1500


def test_requires_grad_and_parameters_are_kept(tmp_path: Path) -> None:
    w = rl.ones(2, requires_grad=True)
    rl.save([w, rl.nn.Parameter(rl.ones(1), requires_grad=False)], tmp_path / "x.pt")
    leaf, parameter = rl.load(tmp_path / "x.pt")
    assert leaf.requires_grad
    assert leaf.is_leaf
    assert isinstance(parameter, rl.nn.Parameter)
    assert not parameter.requires_grad


def test_a_state_dict_keeps_its_versions(tmp_path: Path) -> None:
    state = rl.nn.Linear(2, 3).state_dict()
    rl.save(state, tmp_path / "x.pt")
    assert rl.load(tmp_path / "x.pt")._metadata == state._metadata


def test_mapped_elements_are_private(tmp_path: Path) -> None:
    rl.save({"x": rl.arange(4.0)}, tmp_path / "x.pt")
    mapped = rl.load(tmp_path / "x.pt", mmap=True)["x"]
    assert mapped.tolist() == [0, 1, 2, 3]
    mapped += 1
    assert rl.load(tmp_path / "x.pt")["x"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_other_formats_come_back(ending: str, tmp_path: Path) -> None:
    state = {"b": rl.arange(3), "a": rl.randn(2, 2), "c": rl.tensor(1.5, dtype=rl.float64)}
    rl.save(state, tmp_path / f"x.{ending}")
    assert same(rl.load(tmp_path / f"x.{ending}"), state) or ending == "safetensors"
    loaded = rl.load(tmp_path / f"x.{ending}")
    assert set(loaded) == set(state)
    assert all(same(loaded[k], state[k]) for k in state)


def test_numpy_arrays_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)))
    assert rl.load(tmp_path / "x.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(1000), b=np.ones(2, bool))
    assert rl.load(tmp_path / "x.npz")["b"].tolist() == [True, True]


class Net(rl.nn.Module):
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Net(), r"cannot store a Net: .* no code\. Save its state instead: save\(net.state_dict"),
        ({"a": [len]}, r"cannot store a builtin_function_or_method at \['a'\]\[0\]"),
        ({"a": object()}, r"cannot store a object at \['a'\]"),
        (np.array([object()]), "cannot store a ndarray"),
    ],
)
def test_what_is_no_data_is_refused_and_the_old_file_stays(
    value: Any, message: str, tmp_path: Path
) -> None:
    rl.save(1, tmp_path / "x.pt")
    before = (tmp_path / "x.pt").read_bytes()
    with pytest.raises(TypeError, match=message):
        rl.save(value, tmp_path / "x.pt")
    assert (tmp_path / "x.pt").read_bytes() == before
    assert os.listdir(tmp_path) == ["x.pt"]


def test_a_value_that_contains_itself_is_refused(tmp_path: Path) -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueError, match="contains itself"):
        rl.save(value, tmp_path / "x.pt")


def test_places_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="cannot save over a folder"):
        rl.save(1, tmp_path)
    with pytest.raises(FileNotFoundError, match="folder to save into does not exist"):
        rl.save(1, tmp_path / "none" / "x.pt")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        rl.save(1, tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        rl.load(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError, match="cannot load a folder"):
        rl.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        rl.load(tmp_path / "none.pt")
    with pytest.raises(TypeError, match="expected a path or a file to write to, got int"):
        rl.save(1, 3)
    with pytest.raises(TypeError, match="expected a path or a file to read from, got list"):
        rl.load([])


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "x.pt", tmp_path / "link.pt"
    rl.save(1, path)
    path.chmod(0o640)
    link.symlink_to(path)
    rl.save(2, link)
    assert link.is_symlink()
    assert rl.load(path) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    rl.save({"old": rl.ones(3)}, path)
    child = os.fork()
    if child == 0:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            rl.save({"new": rl.ones(100_000)}, path)
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert rl.load(path)["old"].tolist() == [1, 1, 1]
    assert os.listdir(tmp_path) == ["x.pt"]


def test_killed_at_any_moment_a_complete_file_remains(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    rl.save({"x": rl.zeros(50_000)}, path)
    chance = random.Random(0)
    for _ in range(100):
        child = os.fork()
        if child == 0:
            number = 0
            while True:
                number += 1
                rl.save({"x": rl.full((50_000,), float(number))}, path)
        time.sleep(chance.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        x = rl.load(path)["x"]
        assert x.shape == (50_000,)
        assert (x == x[0]).all()


def test_a_model_that_does_not_fit_lists_all_differences_and_stays(tmp_path: Path) -> None:
    rl.save(rl.nn.Linear(4, 2).state_dict(), tmp_path / "x.pt")
    model = rl.nn.Sequential(OrderedDict(a=rl.nn.Linear(4, 3)))
    before = model.a.weight.clone()
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(rl.load(tmp_path / "x.pt"))
    for word in ("a.weight", "a.bias", '"weight"', '"bias"'):
        assert word in str(caught.value)
    assert rl.equal(before, model.a.weight)


def test_text_files_and_mapping_a_stream_are_errors(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="opened as text"):
        rl.load(io.StringIO("x"))
    with pytest.raises(ValueError, match="needs the path"):
        rl.load(io.BytesIO(b"x"), mmap=True)
