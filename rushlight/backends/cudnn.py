"""cuDNN is not used; its switches can be set all the same."""

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether cuDNN is used.

    >>> rl.backends.cudnn.is_available()
    False
    """
    return False


def version() -> int | None:
    """The version of cuDNN, or None."""
    return None
