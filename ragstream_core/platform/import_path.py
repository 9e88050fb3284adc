"""Where a Python that we start finds its modules: never in the folder that it is started in.

Python puts that folder first for ``-m`` and ``-c``, so a file ``token.py`` in somebody's folder of
documents would be run in place of the standard library's.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

SAFE = "PYTHONSAFEPATH"
GIVEN = "PYTHONPATH"


def python(*words: str) -> list[str]:
    """Return how a Python of ours is started, e.g. with ``"-m", "package.module"``."""
    return [sys.executable, "-P", *words]


def closed(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return an environment whose Pythons, and those that they start, do not search a folder.

    A ``PYTHONPATH`` keeps what a person named in full and what lies elsewhere.
    """
    given = environment.get(GIVEN, "").split(os.pathsep)
    kept = [path for path in given if _is_outside(path, folder)]
    return {**environment, SAFE: "1", GIVEN: os.pathsep.join(kept)}


def _is_outside(path: str, folder: str) -> bool:
    if not Path(path).is_absolute():  # an empty one is the working directory of each child
        return False
    return not Path(path).resolve().is_relative_to(Path(folder).resolve())
