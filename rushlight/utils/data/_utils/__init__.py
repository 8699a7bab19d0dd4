"""PyTorch's inner modules that programs import from."""

from rushlight.utils.data._utils import collate, worker
