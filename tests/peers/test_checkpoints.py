"""Files that PyTorch writes are read here, of both of its formats."""

from __future__ import annotations

import argparse
import io
import random
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"),
    *("float64", "complex64", "complex128"),
)


def written(value: Any, legacy: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=not legacy)
    return buffer.getvalue()


def loaded(value: Any, legacy: bool) -> Any:
    return rl.load(io.BytesIO(written(value, legacy)))


def array(t: Any) -> np.ndarray:
    return t.detach().double().numpy() if str(t.dtype).endswith("bfloat16") else t.detach().numpy()


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_read(dtype: str, legacy: bool) -> None:
    t = torch.randn(3, 4).mul(3).to(getattr(torch, dtype))
    for theirs in (t, t.t(), t[1:, ::2], t[0, 0], t[:0]):
        ours = loaded(theirs, legacy)
        assert ours.dtype.name == dtype
        assert ours.stride() == theirs.stride()
        assert np.array_equal(array(ours), array(theirs))


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_training_checkpoint_is_read(legacy: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    ours = loaded(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, legacy
    )
    assert ours["epoch"] == 3
    assert isinstance(ours["model"], OrderedDict)
    for name, theirs in model.state_dict().items():
        assert np.array_equal(ours["model"][name].numpy(), theirs.numpy())
    assert ours["optimizer"]["param_groups"] == optimizer.state_dict()["param_groups"]
    for key, state in optimizer.state_dict()["state"].items():
        for name, theirs in state.items():
            assert np.array_equal(ours["optimizer"]["state"][key][name].numpy(), theirs.numpy())
    twin = rl.nn.Sequential(rl.nn.Linear(4, 3), rl.nn.BatchNorm1d(3))
    twin.load_state_dict(ours["model"])
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    expected = model.eval()(torch.from_numpy(x)).detach().numpy()
    assert np.allclose(twin.eval()(rl.from_numpy(x)).detach().numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_other_values_are_read(legacy: bool) -> None:
    w = torch.randn(6)
    value = {
        "args": argparse.Namespace(lr=0.1, name="x"),
        "shared": (w, w[2:4]),
        "numpy": np.arange(6.0).reshape(2, 3),
        "number": np.float64(3),
        "parameter": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "leaf": torch.ones(2, requires_grad=True),
        "size": torch.Size([1, 2]),
        "device": torch.device("cpu"),
        "dtype": torch.float16,
        "plain": [1, 2.5, "ü", b"\0\xff", 1 + 2j, None, True, 10**30, {1, 2}, (), {}],
        "default": defaultdict(list, a=[1]),
    }
    ours = loaded(value, legacy)
    assert ours["args"] == value["args"]
    ours["shared"][0][2] = 7
    assert ours["shared"][1][0] == 7
    assert np.array_equal(ours["numpy"], value["numpy"])
    assert ours["number"] == 3
    assert type(ours["parameter"]) is rl.nn.Parameter
    assert not ours["parameter"].requires_grad
    assert ours["leaf"].requires_grad
    assert ours["size"] == (1, 2)
    assert ours["device"] == rl.device("cpu")
    assert ours["dtype"] is rl.float16
    assert ours["plain"] == value["plain"]
    assert ours["default"] == {"a": [1]}


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_whole_model_is_code_and_refused(legacy: bool) -> None:
    with pytest.raises(rl.io.CheckpointError, match=r"contains code.*Linear"):
        loaded(torch.nn.Linear(2, 2), legacy)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_mutated_files_raise_ours(legacy: bool) -> None:
    data = written({"w": torch.arange(12.0).reshape(3, 4), "step": 7}, legacy)
    chance = random.Random(2)
    for _ in range(1000):
        mutated = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 6))):
            place = chance.randrange(len(mutated))
            if chance.random() < 0.7:
                mutated[place] = chance.randrange(256)
            else:
                del mutated[place : place + chance.randrange(1, 9)]
        try:
            rl.load(io.BytesIO(bytes(mutated)))
        except rl.io.CheckpointError:
            continue
    for length in range(0, len(data), 7):
        with pytest.raises(rl.io.CheckpointError):
            rl.load(io.BytesIO(data[:length]))


def test_safetensors_are_the_ones_others_write_and_read(tmp_path: Path) -> None:
    others = pytest.importorskip("safetensors.numpy")
    state = {"b": rl.randn(2, 3), "a": rl.arange(5), "c": rl.tensor(2.5, dtype=rl.float16)}
    rl.save(state, tmp_path / "ours.safetensors")
    theirs = others.load_file(tmp_path / "ours.safetensors")
    assert all(np.array_equal(theirs[k], state[k].numpy()) for k in state)
    others.save_file(theirs, tmp_path / "theirs.safetensors")
    again = rl.load(tmp_path / "theirs.safetensors")
    assert all(rl.equal(again[k], state[k]) for k in state)
