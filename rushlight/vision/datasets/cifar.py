"""CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.io import pickles, torch_files
from rushlight.io.errors import reading
from rushlight.vision.datasets.vision import VisionDataset, missing
from rushlight.vision.pillow import pillow


class CIFAR10(VisionDataset):
    """60,000 colour photographs of 32×32 pixels in 10 classes: PIL images and their labels.

    The folder ``cifar-10-batches-py`` (of pickles, which are read without running them) is looked
    for in ``root``.

    Args:
        root: the folder above it.
        train: the 50,000 images for training, or the 10,000 for testing.
        transform, target_transform: functions of the image and of the label.
        download: accepted; the files have to be there.
    """

    address = "https://www.cs.toronto.edu/~kriz/cifar.html"
    folder = "cifar-10-batches-py"
    train_files: tuple[str, ...] = tuple([f"data_batch_{i}" for i in range(1, 6)])
    test_files: tuple[str, ...] = ("test_batch",)
    names_file, names_key, label_key = "batches.meta", "label_names", "labels"

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
        parts = [self.read(name) for name in (self.train_files if train else self.test_files)]
        pixels = np.concatenate([part["data"] for part in parts]).reshape(-1, 3, 32, 32)
        self.data = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
        self.targets = [label for part in parts for label in part[self.label_key]]
        self.classes: list[str] = self.read(self.names_file)[self.names_key]

    def read(self, name: str) -> dict[str, Any]:
        path = os.path.join(self.root, self.folder, name)
        if not os.path.isfile(path):
            raise missing(type(self).__name__, f"{self.folder} into {self.root}", self.address)
        with open(path, "rb") as file, reading(path):
            return pickles.read(file.read(), 0, torch_files.names())[0]

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.transformed(pillow().fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """60,000 colour photographs of 32×32 pixels in 100 classes."""

    folder = "cifar-100-python"
    train_files, test_files = ("train",), ("test",)
    names_file, names_key, label_key = "meta", "fine_label_names", "fine_labels"
