"""The handwritten digits of UCI, which come with Rushlight."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from rushlight import dtypes
from rushlight.io import load
from rushlight.vision.datasets.vision import VisionDataset


class Digits(VisionDataset):
    """1,797 handwritten digits of 8×8 pixels in 17 shades: tensors (1, 8, 8) in [0, 1] and labels.

    "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, UCI Machine Learning
    Repository, 1998, https://doi.org/10.24432/C50P49, licence CC BY 4.0. Every fifth image is for
    testing, the others are for training.

    >>> rl.vision.datasets.Digits(train=False)[0][0].shape
    rushlight.Size([1, 8, 8])
    """

    classes = [str(i) for i in range(10)]

    def __init__(
        self,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__("", transform=transform, target_transform=target_transform)
        with files("rushlight.vision.datasets").joinpath("digits.npz").open("rb") as file:
            stored = load(file)
        images, labels = stored["images"], stored["labels"]
        chosen = [i for i in range(len(labels)) if (i % 5 != 0) == train]
        self.train = train
        self.data = images[chosen].unsqueeze(1).to(dtypes.float32) / 16
        self.targets = labels[chosen].to(dtypes.int64)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.transformed(self.data[index], int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.targets)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"
