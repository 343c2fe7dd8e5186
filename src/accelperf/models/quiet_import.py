"""Silence while TensorFlow is imported.

Its native code writes half a dozen lines to file descriptor 2 that no logging setting reaches, and
they would stand between the lines that a user needs. Errors still arrive as exceptions.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silenced_stderr() -> Iterator[None]:
    """Point file descriptor 2 at nothing, and ignore warnings, inside the block."""
    # What native code says later: a failed factorisation reaches us as an exception anyway.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
