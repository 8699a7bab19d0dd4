"""Start-up of each Python process that a script under ``rushlight run`` starts.

It serves there the names that the script sees, and imports nothing of Rushlight before the first
of them is imported. Any Python 3 may read this file: the syntax is plain.
"""

import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
PREFIX, *NAMES = os.environ.get("RUSHLIGHT_SERVES", "").split(os.pathsep)


class Tripwire:
    """Stands in ``sys.meta_path`` for the importer of the served names until it is needed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in NAMES:
            return None
        sys.meta_path.remove(self)
        names = importlib.import_module("rushlight.frontends.names")
        names.serve()
        return names.importer.find_spec(name, path, target)


# Another interpreter than the script's has its own packages, perhaps the real ones.
if sys.prefix == PREFIX:
    sys.meta_path.insert(0, Tripwire())
    if ROOT not in sys.path:
        sys.path.append(ROOT)

# This file hides another sitecustomize further down the path, which must be executed as well.
sys.path[:] = [entry for entry in sys.path if entry != HERE]
this_module = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401
except ImportError as error:
    sys.modules["sitecustomize"] = this_module
    if error.name != "sitecustomize":
        raise
