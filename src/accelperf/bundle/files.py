"""Files of a bundle: read whole if they are plain and not too large, written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from accelperf.errors import InputError


def read_plain_file(path: Path, largest: int) -> bytes:
    """Return the content of a regular file.

    Parameters
    ----------
    path : Path
        The file.
    largest : int
        Most bytes that it may have.

    Raises
    ------
    InputError
        If there is none, it cannot be read or is too large, or it is something else: a symbolic link
        could lead out of the folder, a pipe would never end.
    """
    try:
        # A pipe without a writer would block for ever when it is opened.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise InputError("a file of a bundle", "no file of this name", file=path) from None
    except OSError as error:
        got = "a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise InputError("a plain file that can be read", got, file=path) from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise InputError("a plain file", "a folder, pipe or device", file=path)
        if found.st_size > largest:
            raise InputError(f"a file of at most {largest} bytes", f"{found.st_size}", file=path)
        with os.fdopen(handle, "rb", closefd=False) as stream:
            # No more than was there: asked for more, Python makes room for all of it first.
            return stream.read(found.st_size)
    except OSError as error:
        raise InputError("a file that can be read", error.strerror or str(error), file=path) from None
    finally:
        os.close(handle)


def write_whole_file(path: Path, content: bytes) -> None:
    """Write a file through a temporary one, so that at every moment it is whole or as it was.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            # The new name must not be on disk before the bytes are.
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise InputError("a file that can be written", error.strerror or str(error), file=path) from None
