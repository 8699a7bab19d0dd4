"""Numerical kernels over NumPy arrays that know nothing of tensors."""
