"""Datasets read from files of the standard formats, written here."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.vision import datasets, io, transforms, utils

image_module = pytest.importorskip("PIL.Image")


def opened(path: Path) -> np.ndarray:
    with image_module.open(path) as image:
        return np.asarray(image)


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape)
    return head + array.tobytes()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST"])
def test_mnist_is_read(name: str, packed: bool, tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    images, labels = chance.integers(0, 256, (5, 28, 28), np.uint8), np.arange(5, dtype=np.uint8)
    folder = tmp_path / name / "raw"
    folder.mkdir(parents=True)
    for part in ("train", "t10k"):
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            data = idx(array)
            path = folder / f"{part}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(data) if packed else data)
    found = getattr(datasets, name)(tmp_path, train=True, transform=transforms.ToTensor())
    x, y = found[3]
    assert len(found) == 5
    assert y == 3
    assert np.allclose(x.numpy()[0], images[3] / 255)
    assert "Split: Train" in repr(found)
    assert getattr(datasets, name)(tmp_path, train=False)[0][0].size == (28, 28)


def test_missing_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"MNIST: dataset not found.*train-images.*MNIST/raw"):
        datasets.MNIST(tmp_path, download=True)
    with pytest.raises(RuntimeError, match=r"CIFAR10: dataset not found.*cifar-10-batches-py"):
        datasets.CIFAR10(tmp_path)
    with pytest.raises(FileNotFoundError, match="any class folder"):
        datasets.ImageFolder(tmp_path)


def test_a_damaged_idx_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + bytes(20))
    with pytest.raises(RuntimeError, match="train-images-idx3-ubyte"):
        datasets.MNIST(tmp_path)


@pytest.mark.parametrize("protocol", [2, 4])
def test_cifar_is_read_without_running_its_pickles(protocol: int, tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    chance = np.random.default_rng(0)
    for name in [*[f"data_batch_{i}" for i in range(1, 6)], "test_batch"]:
        batch = {"data": chance.integers(0, 256, (4, 3072), np.uint8), "labels": [0, 1, 2, 3]}
        (folder / name).write_bytes(pickle.dumps(batch, protocol))
    names = [f"class{i}" for i in range(10)]
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": names}, protocol))
    found = datasets.CIFAR10(tmp_path, transform=transforms.ToTensor())
    assert len(found) == 20
    assert found[1][0].shape == (3, 32, 32)
    assert found.classes[3] == "class3"
    (folder / "test_batch").write_bytes(pickle.dumps({"data": print}, protocol))
    with pytest.raises(RuntimeError, match="contains code"):
        datasets.CIFAR10(tmp_path, train=False)


def test_image_folders(tmp_path: Path) -> None:
    for name, shade in (("cat", 10), ("dog", 200)):
        (tmp_path / name).mkdir()
        for i in range(2):
            utils.save_image(rl.full((3, 4, 5), shade / 255), tmp_path / name / f"{i}.png")
    found = datasets.ImageFolder(tmp_path, transform=transforms.PILToTensor())
    assert found.classes == ["cat", "dog"]
    assert found.targets == [0, 0, 1, 1]
    x, y = found[2]
    assert y == 1
    assert x.unique().tolist() == [200]
    assert io.read_image(tmp_path / "cat" / "0.png").shape == (3, 4, 5)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="for the classes empty"):
        datasets.ImageFolder(tmp_path)


def test_fake_data_is_the_same_each_time() -> None:
    fake = datasets.FakeData(10, (3, 8, 8), transform=transforms.ToTensor())
    state = rl.get_rng_state()
    assert rl.equal(fake[3][0], fake[3][0])
    assert rl.equal(state, rl.get_rng_state())
    with pytest.raises(IndexError, match="10 out of range"):
        fake[10]


def test_digits_come_with_the_package() -> None:
    train, test = datasets.Digits(), datasets.Digits(train=False)
    assert len(train) + len(test) == 1797
    assert train[0][0].shape == (1, 8, 8)
    assert 0 <= train.data.min() <= train.data.max() == 1
    assert train.targets.bincount().min() > 100


def test_grids_and_saved_images(tmp_path: Path) -> None:
    images = rl.rand(5, 1, 4, 6)
    grid = utils.make_grid(images, nrow=3, padding=1, pad_value=0.5)
    assert grid.shape == (3, 11, 22)
    assert rl.equal(grid[0, 6:10, 8:14], images[4, 0])
    assert grid[0, 0, 0] == 0.5
    assert utils.make_grid(images * 9 - 3, normalize=True).max() <= 1
    for ending in ("png", "jpg"):
        utils.save_image(images, tmp_path / f"x.{ending}", nrow=3)
        assert opened(tmp_path / f"x.{ending}").shape[1::-1] == (3 * 8 + 2, 2 * 6 + 2)
    utils.save_image(images[0], tmp_path / "one.png")
    found = opened(tmp_path / "one.png")[..., 0]
    assert np.abs(found / 255 - images[0, 0].numpy()).max() < 0.003
    with pytest.raises(ValueError, match="expected"):
        utils.make_grid(rl.rand(1, 1, 1, 2, 2))
