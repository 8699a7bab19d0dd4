"""``python -m rushlight`` is the command ``rushlight``."""

import sys

from rushlight.cli import main

if __name__ == "__main__":
    sys.exit(main())
