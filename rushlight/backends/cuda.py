"""CUDA is not used; its switches can be set all the same."""

from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=True)


def is_built() -> bool:
    """Whether CUDA is used.

    >>> rl.backends.cuda.is_built()
    False
    """
    return False
