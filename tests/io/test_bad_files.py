"""Files that are damaged, foreign or malicious: an error of ours, and nothing is run."""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.io import CheckpointError, archives
from rushlight.io import safetensors as safetensors_files

STATE = {"weight": rl.arange(12.0).reshape(3, 4), "bias": rl.ones(3), "step": 7, "name": "net"}


def saved(ending: str = "pt") -> bytes:
    value = STATE if ending == "pt" else {k: v for k, v in STATE.items() if k in ("weight", "bias")}
    buffer = io.BytesIO()
    if ending == "pt":
        rl.save(value, buffer)
    elif ending == "npz":
        np.savez(buffer, **{k: v.numpy() for k, v in value.items()})
    else:
        safetensors_files.write(value, buffer)
    return buffer.getvalue()


def load(data: bytes) -> Any:
    return rl.load(io.BytesIO(data))


def unchanged(value: Any) -> bool:
    tensors = [k for k in ("weight", "bias") if k in value]  # a directory may lose an entry
    return bool(tensors) and all(rl.equal(value[k], STATE[k]) for k in tensors)


FORMATS = ("pt", "npz", "safetensors")


@pytest.mark.parametrize("ending", FORMATS)
def test_cut_off_at_every_byte(ending: str) -> None:
    data = saved(ending)
    for length in range(len(data)):
        with pytest.raises(CheckpointError):
            load(data[:length])


@pytest.mark.parametrize("ending", FORMATS)
def test_a_thousand_mutations_raise_ours_or_change_only_data(ending: str) -> None:
    data = saved(ending)
    chance = random.Random(1)
    refused = 0
    for _ in range(1000):
        mutated = bytearray(data)
        for _ in range(chance.choice((1, 1, 1, 2, 8))):
            kind = chance.randrange(4)
            place = chance.randrange(len(mutated))
            if kind == 0:
                mutated[place] ^= 1 << chance.randrange(8)
            elif kind == 1:
                mutated[place] = chance.randrange(256)
            elif kind == 2:
                del mutated[place : place + chance.randrange(1, 9)]
            else:
                mutated[place:place] = chance.randbytes(chance.randrange(1, 9))
        try:
            value = load(bytes(mutated))
        except CheckpointError:
            refused += 1
        else:  # safetensors has no checksum; of a zip, only what nobody reads may have changed
            assert ending == "safetensors" or unchanged(value)
    assert refused > (600 if ending == "safetensors" else 700)


def test_one_flipped_bit_of_an_element_is_found_and_its_tensor_named() -> None:
    data = bytearray(saved())
    data[data.index(np.float32(11).tobytes())] ^= 1
    with pytest.raises(CheckpointError, match=r"tensor at \['weight'\].*checksum"):
        load(bytes(data))


class Evil:
    def __reduce__(self) -> Any:
        return (eval, ("__import__('builtins').EXECUTED.append(1)",))


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_never_runs(protocol: int, monkeypatch: pytest.MonkeyPatch) -> None:
    executed: list[int] = []
    monkeypatch.setattr("builtins.EXECUTED", executed, raising=False)
    plain = pickle.dumps({"a": Evil()}, protocol)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", plain)
        file.writestr("archive/version", "3")
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    legacy = magic + pickle.dumps(1001, 2) + pickle.dumps({}, 2) + plain
    for data in (archive.getvalue(), legacy):
        with pytest.raises(CheckpointError, match="contains code and was not loaded"):
            load(data)
    with pytest.raises(CheckpointError):
        load(plain)
    assert not executed


@pytest.mark.parametrize(
    "call",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"c__builtin__\ngetattr\n(c__builtin__\ndict\nS'get'\ntR.",
        b"ctorch.hub\nload\n(S'x'\ntR.",
        b"\x80\x02c__builtin__\nint\n)\x81}b.",
        b"\x82\x01.",
    ],
)
def test_names_outside_the_table_are_refused(call: bytes) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", call)
    with pytest.raises(CheckpointError, match=r"contains code|damaged"):
        load(archive.getvalue())


def index(**changes: Any) -> bytes:
    """A checkpoint of one tensor of 12 bytes whose index is changed."""
    content = {
        "format": "rushlight checkpoint",
        "version": 1,
        "value": {"tensor": [0, "float32", [3], [1], 0, False]},
        "storages": [12],
    }
    content.update(changes)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("index.json", json.dumps(content))
        file.writestr("data/0", np.arange(3, dtype=np.float32).tobytes())
    return archive.getvalue()


def tensor(*content: Any) -> dict[str, Any]:
    return {"tensor": list(content)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "of version 2; this Rushlight reads up to version 1"),
        ({"version": 0}, "of version 0; this Rushlight reads up to version 1"),
        ({"format": "other"}, "no checkpoint of Rushlight's"),
        ({"storages": [-1]}, "lists no storages"),
        ({"storages": [16]}, "12 of the 16 bytes"),
        ({"value": tensor(0, "float32", [4], [1], 0, False)}, "beyond the 3 stored elements"),
        ({"value": tensor(0, "float32", [3], [1], 1, False)}, "beyond the 3 stored elements"),
        ({"value": tensor(0, "float32", [3], [1], -1, False)}, "begins at -1"),
        ({"value": tensor(0, "float32", [3], [-1], 0, False)}, "holds -1, which is no size"),
        ({"value": tensor(0, "float32", [2.5], [1], 0, False)}, "holds 2.5, which is no size"),
        ({"value": tensor(0, "float33", [3], [1], 0, False)}, "dtype 'float33' is unknown"),
        ({"value": tensor(7, "float32", [3], [1], 0, False)}, "storage 7 that is none"),
        ({"value": tensor(0, "float32", [2**40] * 3, [0] * 3, 0, False)}, "too many elements"),
        ({"value": tensor(0, "float32", [1] * 65, [1] * 65, 0, False)}, "at most 64 sizes"),
        ({"value": {"module": "os"}}, "the index holds a 'module'"),
        ({"value": [1]}, "the index holds"),
    ],
)
def test_an_index_that_lies(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(index(**changes))


def test_an_honest_index_is_read() -> None:
    assert load(index()).tolist() == [0, 1, 2]


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes], compressed: bool = False) -> bytes:
    archive = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(archive, "w", method) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # two members of one name
        for name, data in members:
            file.writestr(name, data)
    return archive.getvalue()


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (zipped(("../x", b"")), "points outside"),
        (zipped(("/etc/x", b"")), "points outside"),
        (zipped(("C:/x", b"")), "points outside"),
        (zipped(("a\\..\\..\\x", b"")), "points outside"),
        (zipped((link("x"), b"/etc/passwd")), "is a link"),
        (zipped(("x", b""), ("x", b"")), "two members"),
        (zipped(("readme", b"")), "holds no checkpoint"),
        (zipped(), "holds no checkpoint"),
        (b"", "the file is empty"),
        (b"hello world, this is text", "begins with b'hello world"),
    ],
)
def test_archives_that_are_not_ours(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(data)


def test_an_archive_that_would_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "HARMLESS", 1 << 20)
    with pytest.raises(CheckpointError, match="claims to grow"):
        load(zipped(("x.npy", bytes(2 << 20)), compressed=True))


def safetensors(header: Any, body: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def entry(dtype: Any = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (safetensors({}, length=1 << 40), "longer than the file"),
        (safetensors({"a": entry()}), "ends beyond the file"),
        (safetensors({"a": entry(shape=[2])}, bytes(4)), "takes 8 bytes, but 4 are stored"),
        (safetensors({"a": entry("F31")}, bytes(4)), "no dtype that is known"),
        (safetensors({"a": entry(offsets=[0, 4]), "b": entry(offsets=[2, 6])}, bytes(6)), "lies"),
        (safetensors({"a": entry(offsets=[4, 8])}, bytes(8)), "where 0 was to follow"),
        (safetensors({"a": entry()}, bytes(5)), "1 bytes after the last tensor"),
        (safetensors({"a": entry(shape=[-1])}, bytes(4)), "holds -1"),
        (safetensors(b'{"a":1,"a":2}'), "two entries are called 'a'"),
        (safetensors(b"{not json}"), "damaged"),
        (safetensors({"a": [1]}), "no dtype that is known"),
    ],
)
def test_safetensors_that_lie(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(data)


def test_object_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(CheckpointError, match="Python objects"):
        rl.load(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", a=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(CheckpointError, match=r"'a\.npy'.*Python objects"):
        rl.load(tmp_path / "x.npz")


def test_mutated_npy_files_raise_ours() -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.ones(5))
    chance = random.Random(3)
    for _ in range(1000):
        mutated = bytearray(buffer.getvalue())
        mutated[chance.randrange(len(mutated))] ^= 1 << chance.randrange(8)
        try:
            load(bytes(mutated))
        except CheckpointError:
            continue


def test_every_flipped_bit_of_our_safetensors_is_found() -> None:
    data = saved("safetensors")
    body = data.index(b"}}") + 2
    for place in range(body, len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 4
        if data[place : place + 1] != b" ":
            with pytest.raises(CheckpointError, match="checksum"):
                load(bytes(flipped))


def test_unknown_keywords_and_devices_are_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        rl.load(io.BytesIO(saved()), foo=1)
    with pytest.raises(RuntimeError, match="'cuda' is not available"):
        rl.load(io.BytesIO(saved()), map_location="cuda")
