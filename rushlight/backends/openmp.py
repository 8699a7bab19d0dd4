"""OpenMP is not used."""


def is_available() -> bool:
    """Whether OpenMP is used.

    >>> rl.backends.openmp.is_available()
    False
    """
    return False
