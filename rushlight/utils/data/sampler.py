"""The samplers, under PyTorch's module name."""

from rushlight.data.samplers import BatchSampler as BatchSampler
from rushlight.data.samplers import RandomSampler as RandomSampler
from rushlight.data.samplers import Sampler as Sampler
from rushlight.data.samplers import SequentialSampler as SequentialSampler
from rushlight.data.samplers import SubsetRandomSampler as SubsetRandomSampler
from rushlight.data.samplers import WeightedRandomSampler as WeightedRandomSampler
