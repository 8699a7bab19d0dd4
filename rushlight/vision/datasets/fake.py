"""Images of noise, for trying a program out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.ops import ops
from rushlight.random import Generator
from rushlight.vision.datasets.vision import VisionDataset
from rushlight.vision.transforms.functional import to_pil_image


class FakeData(VisionDataset):
    """Random images and labels, the same ones each time.

    Args:
        size: how many.
        image_size: (channels, height, width).
        num_classes: how many different labels.
        random_offset: another one gives other images.
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, ...] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__("", transform=transform, target_transform=target_transform)
        self.size, self.image_size, self.num_classes = size, image_size, num_classes
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not 0 <= index < self.size:
            raise IndexError(f"FakeData index {index} out of range")
        chance = Generator().manual_seed(index + self.random_offset)
        image = ops.randn(*self.image_size, generator=chance)
        target = int(ops.randint(0, self.num_classes, (1,), generator=chance).item())
        return self.transformed(to_pil_image(image), target)

    def __len__(self) -> int:
        return self.size
