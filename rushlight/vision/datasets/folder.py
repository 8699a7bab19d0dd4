"""Datasets that are folders: one for each class."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.vision.datasets.vision import VisionDataset
from rushlight.vision.pillow import pillow

IMG_EXTENSIONS = (
    *(".jpg", ".jpeg", ".png", ".ppm", ".bmp"),
    *(".pgm", ".tif", ".tiff", ".webp"),
)


def default_loader(path: str) -> Any:
    """An image file as an RGB PIL image."""
    with pillow().open(path) as image:
        return image.convert("RGB")


pil_loader = default_loader


def find_classes(directory: str) -> tuple[list[str], dict[str, int]]:
    """The sub-folders of a folder in alphabetical order, and the number of each."""
    classes = sorted([entry.name for entry in os.scandir(directory) if entry.is_dir()])
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: i for i, name in enumerate(classes)}


def make_dataset(
    directory: str,
    class_to_idx: dict[str, int],
    extensions: Sequence[str] | str | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """(path, class) of every file in the folders of the classes."""
    if (extensions is None) == (is_valid_file is None):
        raise ValueError(
            "Both extensions and is_valid_file cannot be None or not None at the same time"
        )
    endings = (extensions,) if isinstance(extensions, str) else tuple(extensions or ())
    fits = is_valid_file or (lambda path: path.lower().endswith(endings))
    found: list[tuple[str, int]] = []
    empty = []
    for name in sorted(class_to_idx):
        before = len(found)
        for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            for file in sorted(files):
                path = os.path.join(folder, file)
                if fits(path):
                    found.append((path, class_to_idx[name]))
        if len(found) == before:
            empty.append(name)
    if empty and not allow_empty:
        told = f" Supported extensions are: {', '.join(endings)}" if endings else ""
        raise FileNotFoundError(f"Found no valid file for the classes {', '.join(empty)}.{told}")
    return found


class DatasetFolder(VisionDataset):
    """Files in ``root/class/…``, loaded by a function.

    Args:
        root: the folder of the classes' folders.
        loader: makes a sample of a path.
        extensions: the endings of the files' names; or else
        is_valid_file: says of a path whether it belongs to the dataset.
        allow_empty: whether a class may have no file.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        loader: Callable[[str], Any],
        extensions: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = make_dataset(
            self.root, self.class_to_idx, extensions, is_valid_file, allow_empty
        )
        self.loader, self.extensions = loader, extensions
        self.targets = [target for _, target in self.samples]

    def find_classes(self, directory: str) -> tuple[list[str], dict[str, int]]:
        """The classes and their numbers; a subclass may choose others."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self.transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """Images in ``root/class/…``: PIL images and the numbers of their classes."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(
            root, loader, extensions, transform, target_transform, is_valid_file, allow_empty
        )
        self.imgs = self.samples
