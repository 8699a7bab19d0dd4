"""Datasets of images, read from the files that are on the disk."""

from rushlight.vision.datasets.cifar import CIFAR10, CIFAR100
from rushlight.vision.datasets.digits import Digits
from rushlight.vision.datasets.fake import FakeData
from rushlight.vision.datasets.folder import DatasetFolder, ImageFolder
from rushlight.vision.datasets.mnist import KMNIST, MNIST, FashionMNIST
from rushlight.vision.datasets.vision import VisionDataset

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "KMNIST",
    "MNIST",
    "DatasetFolder",
    "Digits",
    "FakeData",
    "FashionMNIST",
    "ImageFolder",
    "VisionDataset",
]
