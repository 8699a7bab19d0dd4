"""Data: datasets, the orders of their samples, and loading them in batches.

dataset ──► sampler ──► indices of a batch ──► fetcher ──► collate ──► batch
                           (worker threads or processes load ahead)
"""

from rushlight.data.collate import default_collate, default_convert
from rushlight.data.datasets import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from rushlight.data.distributed import DistributedSampler
from rushlight.data.loader import DataLoader
from rushlight.data.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from rushlight.data.worker import get_worker_info
