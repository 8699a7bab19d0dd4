"""The loader, under PyTorch's module name."""

from rushlight.data.collate import default_collate as default_collate
from rushlight.data.collate import default_convert as default_convert
from rushlight.data.loader import DataLoader as DataLoader
from rushlight.data.worker import get_worker_info as get_worker_info
