"""MNIST and what comes in its format."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.interop import from_numpy
from rushlight.vision.datasets.vision import VisionDataset, missing
from rushlight.vision.pillow import pillow


class MNIST(VisionDataset):
    """70,000 handwritten digits of 28×28 pixels: PIL images and their labels.

    The files are looked for in ``root/MNIST/raw`` and in ``root``, packed or not.

    Args:
        root: the folder of the files.
        train: the 60,000 images for training, or the 10,000 for testing.
        transform, target_transform: functions of the image and of the label.
        download: accepted; the files have to be there.
    """

    address = "https://ossci-datasets.s3.amazonaws.com/mnist/"
    classes = [
        *("0 - zero", "1 - one", "2 - two", "3 - three", "4 - four"),
        *("5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine"),
    ]

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        self.data, self.targets = from_numpy(self.images()), from_numpy(self.labels())
        if len(self.data) != len(self.targets):
            raise RuntimeError(f"{len(self.data)} images but {len(self.targets)} labels")

    def images(self) -> np.ndarray:
        return read_idx(self.file(f"{self.part}-images-idx3-ubyte"), 3)

    def labels(self) -> np.ndarray:
        return read_idx(self.file(f"{self.part}-labels-idx1-ubyte"), 1).astype(np.int64)

    @property
    def part(self) -> str:
        return "train" if self.train else "t10k"

    @property
    def raw_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "raw")

    def file(self, name: str) -> str:
        """Where a file is, packed or not."""
        for folder in (self.raw_folder, self.root):
            for ending in ("", ".gz"):
                path = os.path.join(folder, name + ending)
                if os.path.isfile(path):
                    return path
        raise missing(type(self).__name__, f"{name}.gz into {self.raw_folder}", self.address)

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = pillow().fromarray(self.data[index].numpy())
        return self.transformed(image, int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


def read_idx(path: str, rank: int) -> np.ndarray:
    """An array of bytes in the IDX format: its sizes, then its elements."""
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        data = file.read()
    head = 4 + 4 * rank
    if len(data) < head or data[:4] != bytes([0, 0, 8, rank]):
        raise RuntimeError(f"{path} is no IDX file of bytes with {rank} dimensions")
    shape = np.frombuffer(data, ">i4", rank, 4).tolist()
    if len(data) - head != np.prod(shape, dtype=object):
        raise RuntimeError(f"{path}: {len(data) - head} elements do not make up {shape}")
    return np.frombuffer(bytearray(data[head:]), np.uint8).reshape(shape)


class FashionMNIST(MNIST):
    """70,000 pictures of clothes of 28×28 pixels, in MNIST's format."""

    address = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
    classes = [
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ]


class KMNIST(MNIST):
    """70,000 Japanese characters of 28×28 pixels, in MNIST's format."""

    address = "http://codh.rois.ac.jp/kmnist/"
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
