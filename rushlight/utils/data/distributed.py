"""The sampler of distributed programs, under PyTorch's module name."""

from rushlight.data.distributed import DistributedSampler as DistributedSampler
