"""Apple's Metal is not used."""


def is_available() -> bool:
    """Whether Metal is used.

    >>> rl.backends.mps.is_available()
    False
    """
    return False


is_built = is_available
