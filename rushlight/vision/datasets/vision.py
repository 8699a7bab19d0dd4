"""What image datasets have in common."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from rushlight.data import Dataset


class VisionDataset(Dataset):
    """A dataset of (image, target) pairs with a transform for each.

    Args:
        root: the folder of the files.
        transforms: a function of image and target.
        transform: a function of the image alone.
        target_transform: a function of the target alone.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transforms: Callable[..., Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError(
                "Only transforms or transform/target_transform can be passed as argument"
            )
        self.root = os.path.expanduser(os.fspath(root))
        self.transforms = transforms
        self.transform, self.target_transform = transform, target_transform

    def transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """The pair as the user sees it."""
        if self.transforms is not None:
            return self.transforms(image, target)
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __len__(self) -> int:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Further lines of the text that describes the dataset."""
        return ""

    def __repr__(self) -> str:
        lines = [f"Dataset {type(self).__name__}", f"    Number of datapoints: {len(self)}"]
        if self.root:
            lines.append(f"    Root location: {self.root}")
        lines += [f"    {line}" for line in self.extra_repr().splitlines()]
        if self.transform is not None:
            lines.append(f"    Transform: {self.transform}")
        return "\n".join(lines)


def missing(name: str, wanted: str, address: str) -> RuntimeError:
    """The error for files that are not on the disk."""
    return RuntimeError(
        f"{name}: dataset not found. Rushlight reads the files but does not download them; get "
        f"them from {address} and put {wanted}"
    )
