"""The arrays of a bundle: an uncompressed ``.npz`` of plain numbers and texts.

Everything is checked against the bytes that are there before anything is made of it: a file can
claim arrays of any size, of pickled objects, or under names that lead elsewhere.
"""

from __future__ import annotations

import ast
import io
import math
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError

Arrays = dict[str, NDArray[Any]]

_MEMBER = re.compile(r"([a-z][a-z0-9_]{0,63})\.npy")
_TEXT = re.compile(r"<U[1-9][0-9]{0,5}")
_NUMBERS = ("<f8", "<i8")
_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 4096
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_MOST_DIMENSIONS = 4
_EPOCH = (1980, 1, 1, 0, 0, 0)
_ENCRYPTED = 0x1


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as the bytes of an uncompressed ``.npz``; equal arrays give equal bytes.

    Parameters
    ----------
    arrays : Mapping of str to array
        Of finite floating-point numbers, whole numbers or texts.

    Raises
    ------
    ValueError
        If an array is of another kind, or holds a number that is not finite.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            array = _plain(name, np.asarray(arrays[name]))
            content = io.BytesIO()
            np.lib.format.write_array(content, array, (1, 0), allow_pickle=False)  # type: ignore[no-untyped-call]
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), content.getvalue())
    return packed.getvalue()


def _plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    kinds = {"f": "<f8", "i": "<i8", "u": "<i8", "b": "<i8"}
    if array.dtype.kind == "U":
        return array.astype(array.dtype.newbyteorder("<"))
    if array.dtype.kind not in kinds:
        raise ValueError(f"array {name!r} is of kind {array.dtype}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"array {name!r} holds numbers that are not finite")
    # In the order in which it lies: sums over the other one are rounded otherwise.
    return np.asarray(array, dtype=kinds[array.dtype.kind])


def unpack_arrays(content: bytes, path: Path) -> Arrays:
    """Return the arrays in the bytes of an ``.npz``, writable copies.

    Raises
    ------
    InputError
        If the bytes are no such archive; if a member has another name than an array's, is compressed
        or encrypted, or shares its bytes with another; if an array is of objects or another kind, is
        larger or smaller than its bytes, or holds a number that is not finite.
    """
    arrays: Arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > len(content):
                raise InputError(
                    f"arrays of at most the file's {len(content)} bytes",
                    f"{sum(member.file_size for member in members)} bytes declared",
                    file=path,
                )
            for member in members:
                name = _member_name(member, path)
                if name in arrays:
                    raise InputError("array names that differ", f"{name!r} twice", file=path)
                arrays[name] = _read_array(name, archive.read(member), path)
    except InputError:
        raise
    except (
        zipfile.BadZipFile, zipfile.LargeZipFile, struct.error,
        ValueError, EOFError, OSError, RuntimeError, OverflowError, IndexError,
    ) as error:  # fmt: skip
        raise InputError("NumPy arrays", str(error) or type(error).__name__, file=path) from None
    return arrays


def _member_name(member: zipfile.ZipInfo, path: Path) -> str:
    named = _MEMBER.fullmatch(member.filename)
    if named is None or member.orig_filename != member.filename:
        raise InputError(
            "members named after arrays (letters, digits and _, then .npy)",
            repr(member.orig_filename[:80]),
            file=path,
        )
    if member.flag_bits & _ENCRYPTED:
        raise InputError("plain arrays", f"an encrypted {member.filename}", file=path)
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        raise InputError("uncompressed arrays", f"a compressed {member.filename}", file=path)
    return named[1]


def _read_array(name: str, content: bytes, path: Path) -> NDArray[Any]:
    def fail(expected: str, got: str) -> InputError:
        return InputError(f"array {name}: {expected}", got, file=path)

    if content[:6] != _MAGIC or content[6:8] not in (b"\x01\x00", b"\x02\x00") or len(content) < 12:
        raise fail("NumPy's format 1.0 or 2.0", repr(content[:8]))
    width = 2 if content[6] == 1 else 4
    length = int.from_bytes(content[8 : 8 + width], "little")
    start = 8 + width + length
    if length > _LONGEST_HEADER or start > len(content):
        raise fail("a header within the file", f"one of {length} bytes")
    kind, fortran, shape = _read_header(content[8 + width : start], fail)
    if kind not in _NUMBERS and not _TEXT.fullmatch(kind):
        got = "pickled objects" if "O" in kind else repr(kind[:40])
        raise fail("numbers (<f8, <i8) or texts (<U)", got)
    dtype = np.dtype(kind)
    size = math.prod(shape) * dtype.itemsize
    if size != len(content) - start:
        form = " x ".join(map(str, shape)) or "one value"
        raise fail(f"{size} bytes ({form} of {kind})", f"{len(content) - start}")
    if size == 0:
        return np.zeros(shape, dtype=dtype)
    flat = np.frombuffer(content, dtype=dtype, offset=start)
    if dtype.kind == "f" and not np.all(np.isfinite(flat)):
        raise fail("finite numbers", "others")
    if dtype.kind == "U":
        codes = np.frombuffer(content, dtype="<u4", offset=start)
        surrogates = (codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1])
        if np.any(codes > _LAST_CODE_POINT) or np.any(surrogates):
            raise fail("texts", "numbers that are no characters")
    return flat.reshape(shape, order="F" if fortran else "C").copy(order="K")


def _read_header(text: bytes, fail: Any) -> tuple[str, bool, tuple[int, ...]]:
    """Return dtype, order and shape of a header, which is a Python literal."""
    try:
        header = ast.literal_eval(text.decode("ascii").strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise fail("a NumPy header", "other text") from None
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise fail("descr, fortran_order and shape", "other keys")
    kind, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    if not isinstance(kind, str) or not isinstance(fortran, bool):
        raise fail("an array of one kind", "a structure")
    sizes = shape if isinstance(shape, tuple) else (-1,)
    if len(sizes) > _MOST_DIMENSIONS or not all(type(size) is int and size >= 0 for size in sizes):
        raise fail(f"a shape of at most {_MOST_DIMENSIONS} sizes", repr(shape)[:40])
    return kind, fortran, sizes
