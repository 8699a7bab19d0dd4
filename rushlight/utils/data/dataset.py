"""The datasets, under PyTorch's module name."""

from rushlight.data.datasets import ChainDataset as ChainDataset
from rushlight.data.datasets import ConcatDataset as ConcatDataset
from rushlight.data.datasets import Dataset as Dataset
from rushlight.data.datasets import IterableDataset as IterableDataset
from rushlight.data.datasets import StackDataset as StackDataset
from rushlight.data.datasets import Subset as Subset
from rushlight.data.datasets import TensorDataset as TensorDataset
from rushlight.data.datasets import random_split as random_split
