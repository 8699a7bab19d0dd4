"""Collating, under PyTorch's module name."""

from rushlight.data.collate import collate as collate
from rushlight.data.collate import collate_float_fn as collate_float_fn
from rushlight.data.collate import collate_int_fn as collate_int_fn
from rushlight.data.collate import collate_numpy_array_fn as collate_numpy_array_fn
from rushlight.data.collate import collate_numpy_scalar_fn as collate_numpy_scalar_fn
from rushlight.data.collate import collate_str_fn as collate_str_fn
from rushlight.data.collate import collate_tensor_fn as collate_tensor_fn
from rushlight.data.collate import default_collate as default_collate
from rushlight.data.collate import default_collate_fn_map as default_collate_fn_map
from rushlight.data.collate import default_convert as default_convert
