"""What a worker knows of itself, under PyTorch's module name."""

from rushlight.data.worker import WorkerInfo as WorkerInfo
from rushlight.data.worker import get_worker_info as get_worker_info
