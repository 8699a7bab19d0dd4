"""What the machine's libraries can do, and the switches that PyTorch has for them."""

from rushlight.backends import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
