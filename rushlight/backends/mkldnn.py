"""Intel's oneDNN is not used."""

enabled = True


def is_available() -> bool:
    """Whether oneDNN is used.

    >>> rl.backends.mkldnn.is_available()
    False
    """
    return False
