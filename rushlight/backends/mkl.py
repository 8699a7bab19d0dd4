"""Intel's MKL is not used by Rushlight itself."""


def is_available() -> bool:
    """Whether MKL is used.

    >>> rl.backends.mkl.is_available()
    False
    """
    return False
