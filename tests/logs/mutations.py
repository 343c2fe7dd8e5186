"""Files broken in the ways in which real files break, and what a reader may make of them.

`mutate` breaks the bytes of a log. `examine` hands the broken file to a reader; a reader may answer
with rows that fit the layer schema or with an `AccelperfError`. Anything else is a failure: another
exception, a loop without end (more executed lines than `step_limit`), an account that does not add
up, or a latency that was not in the file before although no digit was touched.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import yaml

from accelperf.errors import AccelperfError
from accelperf.layers import validate_layers
from accelperf.logs import find_logs
from accelperf.logs.base import Reader
from accelperf.logs.repeats import merge_repeats
from accelperf.logs.run import RUN_FILE, RunFile, find_run, read_run
from accelperf.platforms import Platform, read_platforms
from tests.logs.samples import GOLDEN, PLATFORMS, RUN, SMALL

NETWORKS = Path(__file__).parents[2] / "data" / "networks"

NUMBERS = (
    b"0",
    b"-1",
    b"0.000",
    b"nan",
    b"NaN",
    b"inf",
    b"Infinity",
    b"-Infinity",
    b"1e400",
    b"1e-400",
    b"9" * 30,
    b"7" * 5000,
    b"99999999999",
    b"1,5",
    b"1.234.567",
    b"1_000",
    b"0x10",
    b"~0",
    b"",
    b"abc",
    b'"7"',
    b"null",
    b"true",
    "\N{ARABIC-INDIC DIGIT FIVE}".encode(),
)
"""What may stand where a number belongs."""

_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_SEPARATORS = (b";", b"\t", b"|", b",", b" ")


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def _cut(data: bytes, rng: np.random.Generator) -> bytes:
    where = int(rng.integers(len(data) + 1))
    return data[:where] if rng.random() < 0.8 else data[where:]


def _glue(data: bytes, rng: np.random.Generator) -> bytes:
    """Append a copy, or a part of one, with or without a line end between."""
    tail = data if rng.random() < 0.5 else data[: int(rng.integers(len(data) + 1))]
    return data + rng.choice([b"", b"\n", b"\r\n"]) + tail


def _encode(data: bytes, rng: np.random.Generator) -> bytes:
    text = data.decode("utf-8", errors="replace")
    choice = int(rng.integers(5))
    if choice == 0:
        return text.encode("utf-16")
    if choice == 1:
        return text.encode("utf-16-le")
    if choice == 2:
        return text.encode("utf-8-sig")
    if choice == 3:
        # A letter outside ASCII, as an editor set to Latin-1 stores it.
        where = int(rng.integers(len(text) + 1))
        return (text[:where] + "\xe9" + text[where:]).encode("latin-1", errors="replace")
    return text.encode("utf-32")


def _line_ends(data: bytes, rng: np.random.Generator) -> bytes:
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text.replace(b"\n", (b"\n", b"\r\n", b"\r")[int(rng.integers(3))])


def _separator(data: bytes, rng: np.random.Generator) -> bytes:
    counts = np.array([data.count(each) for each in _SEPARATORS], dtype=float)
    if not counts.sum():
        return _SEPARATORS[0]
    return _SEPARATORS[int(rng.choice(len(counts), p=counts / counts.sum()))]


def _swap(fields: list[bytes], first: int, second: int) -> list[bytes]:
    if max(first, second) < len(fields):
        fields[first], fields[second] = fields[second], fields[first]
    return fields


def _swap_columns(data: bytes, rng: np.random.Generator) -> bytes:
    """Swap two columns in every line."""
    separator = _separator(data, rng)
    lines = [line.rstrip(b"\r\n") for line in _lines(data)]
    width = max((line.count(separator) for line in lines), default=0) + 1
    first, second = (int(each) for each in rng.integers(width, size=2))
    swapped = [separator.join(_swap(line.split(separator), first, second)) for line in lines]
    return b"\n".join(swapped) + b"\n"


def _swap_fields(data: bytes, rng: np.random.Generator) -> bytes:
    """Swap two fields of one line."""
    lines = _lines(data)
    if not lines:
        return data
    separator = _separator(data, rng)
    index = int(rng.integers(len(lines)))
    fields = lines[index].rstrip(b"\r\n").split(separator)
    first, second = (int(each) for each in rng.integers(len(fields), size=2))
    lines[index] = separator.join(_swap(fields, first, second)) + b"\n"
    return b"".join(lines)


def _replace_number(data: bytes, rng: np.random.Generator) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    match = found[int(rng.integers(len(found)))]
    value = NUMBERS[int(rng.integers(len(NUMBERS)))]
    if rng.random() < 0.2:  # every occurrence of that number
        return data.replace(match.group(), value)
    return data[: match.start()] + value + data[match.end() :]


def _huge_number(data: bytes, rng: np.random.Generator) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    match = found[int(rng.integers(len(found)))]
    return data[: match.end()] + b"0" * int(rng.integers(1, 40)) + data[match.end() :]


def _duplicate_lines(data: bytes, rng: np.random.Generator) -> bytes:
    lines = _lines(data)
    if not lines:
        return data
    start = int(rng.integers(len(lines)))
    stop = start + int(rng.integers(1, 4))
    where = stop if rng.random() < 0.5 else int(rng.integers(len(lines) + 1))
    return b"".join([*lines[:where], *lines[start:stop], *lines[where:]])


def _delete_lines(data: bytes, rng: np.random.Generator) -> bytes:
    lines = _lines(data)
    if not lines:
        return data
    start = int(rng.integers(len(lines)))
    return b"".join([*lines[:start], *lines[start + int(rng.integers(1, 4)) :]])


def _drop_separators(data: bytes, rng: np.random.Generator) -> bytes:
    separator = _separator(data, rng)
    if rng.random() < 0.2:
        return data.replace(separator, b"")
    places = [match.start() for match in re.finditer(re.escape(separator), data)]
    if not places:
        return data
    where = places[int(rng.integers(len(places)))]
    return data[:where] + data[where + 1 :]


def _change_separators(data: bytes, rng: np.random.Generator) -> bytes:
    return data.replace(_separator(data, rng), _SEPARATORS[int(rng.integers(len(_SEPARATORS)))])


def _change_byte(data: bytes, rng: np.random.Generator) -> bytes:
    if not data:
        return data
    where = int(rng.integers(len(data)))
    return data[:where] + bytes([int(rng.integers(256))]) + data[where + 1 :]


def _insert(data: bytes, rng: np.random.Generator) -> bytes:
    parts = (b"\0", b"[" * 30_000, b'{"a":' * 30_000, b'"', b"\\", b"#", b"\xff\xfe", b"\n\n\n", b"()" * 50)
    where = int(rng.integers(len(data) + 1))
    return data[:where] + parts[int(rng.integers(len(parts)))] + data[where:]


MUTATIONS: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "cut": _cut,
    "glue": _glue,
    "encode": _encode,
    "line ends": _line_ends,
    "swap columns": _swap_columns,
    "swap fields": _swap_fields,
    "replace number": _replace_number,
    "huge number": _huge_number,
    "duplicate lines": _duplicate_lines,
    "delete lines": _delete_lines,
    "drop separators": _drop_separators,
    "change separators": _change_separators,
    "change byte": _change_byte,
    "insert": _insert,
}
"""Ways of breaking a file, by name."""

SAME_FIGURES = frozenset({"encode", "line ends", "swap columns"})
"""Mutations after which a file that can still be read must give no other latency than before."""


def mutate_by_name(data: bytes, rng: np.random.Generator) -> tuple[bytes, tuple[str, ...]]:
    """Return the bytes of a file broken in one to three ways, and in which.

    Parameters
    ----------
    data : bytes
        The file.
    rng : Generator
        Source of chance; the same state gives the same file.
    """
    names = list(MUTATIONS)
    chosen = tuple(
        names[int(each)] for each in rng.integers(len(names), size=int(rng.choice([1, 1, 1, 2, 3])))
    )
    for each in chosen:
        data = MUTATIONS[each](data, rng)
    return data, chosen


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes of a file broken in one to three ways (see `mutate_by_name`)."""
    return mutate_by_name(data, rng)[0]


def golden_platforms(run_file: Path) -> dict[str, Platform]:
    """Return the platforms that a golden run.yaml names.

    Those of the samples or of ``tests/golden/platforms``; any other name is a small platform.
    """
    known = dict(PLATFORMS)
    if (GOLDEN / "platforms").is_dir():
        known |= read_platforms(GOLDEN / "platforms")
    content = yaml.safe_load(run_file.read_text(encoding="utf-8"))
    names = [content.get("platform"), *(content.get("platforms") or {}).values()]
    return {name: known.get(name, SMALL.model_copy(update={"name": name})) for name in names if name}


@dataclass(frozen=True)
class GoldenLog:
    """A golden file and how to read it.

    Attributes
    ----------
    path : Path
        The file, in a folder of its own copy.
    run : RunFile
        Its run.yaml.
    files : tuple of Path
        What is read: the file, and others of its folder and format if it is no log without them.
    latencies_ms : frozenset of float, optional
        Latencies read from it unbroken; None where it cannot be read, as some golden files.
    """

    path: Path
    run: RunFile
    files: tuple[Path, ...]
    latencies_ms: frozenset[float] | None


def golden_logs(reader: Reader, folder: Path) -> list[GoldenLog]:
    """Return the golden files of a reader, copied to a new folder.

    The files lie in ``tests/golden/NAME``; a ``run.yaml`` lies beside or above them, or that of
    `tests.logs.samples` serves.
    """
    root = folder / reader.name
    shutil.copytree(GOLDEN / reader.name, root)
    if not (root / RUN_FILE).exists():
        (root / RUN_FILE).write_text(RUN, encoding="utf-8")
    logs = []
    by_folder: dict[Path, list[Path]] = {}
    for path in find_logs(root):
        if reader.recognises(path) is None:
            by_folder.setdefault(path.parent, []).append(path)
    for parent, files in by_folder.items():
        run_file = find_run(parent, root)
        assert run_file is not None
        run = read_run(run_file, golden_platforms(run_file), NETWORKS)
        files = [path for path in files if not run.ignores(path)]
        # Files that describe a network are no logs.
        described = {path.resolve() for path in run.descriptions()}
        files = [path for path in files if path.resolve() not in described]
        logs += [_golden_log(reader, path, files, run) for path in files]
    return logs


def _golden_log(reader: Reader, path: Path, files: Sequence[Path], run: RunFile) -> GoldenLog:
    """Return a file to be read alone, or together with its folder if it is not a whole log."""
    for together in ((path,), tuple(files)):
        outcome = read_files(reader, together, run)
        if outcome is not None and len(outcome):
            return GoldenLog(path, run, together, frozenset(outcome["latency_ms"].tolist()))
    return GoldenLog(path, run, (path,), None)


def read_files(reader: Reader, files: Sequence[Path], run: RunFile) -> pd.DataFrame | None:
    """Return the validated rows of some files, None for an error about the input."""
    try:
        tables = [log.table for log in reader.read(files, run) if len(log.table)]
        if not tables:
            return pd.DataFrame({"latency_ms": []})
        merged = merge_repeats(pd.concat(tables, ignore_index=True))
        return validate_layers(merged, source=files[0])
    except AccelperfError as error:
        check_message(error)
        return None


def check_message(error: AccelperfError) -> None:
    """Raise if a message is not one line that a terminal can show."""
    text = str(error)
    assert "\n" not in text and "\r" not in text, f"a message of several lines: {text!r}"


class TooManyStepsError(AssertionError):
    """A reader that executed more lines than any finite reading needs."""


def step_limit(size: int) -> int:
    """Return how many lines of the readers may be executed for a file of that many bytes."""
    return 200_000 + 300 * size


@contextmanager
def limited_steps(limit: int) -> Iterator[None]:
    """Count the lines that the readers execute; raise `TooManyStepsError` above the limit.

    Counting, unlike a clock, gives the same answer on every machine.
    """
    steps = 0

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps > limit:
            raise TooManyStepsError(f"more than {limit} lines executed, in {frame.f_code.co_qualname}")
        return local

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return local if "accelperf" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def examine(
    reader: Reader, golden: GoldenLog, data: bytes, mutations: Sequence[str], *, steps: bool = True
) -> str:
    """Hand a broken golden file to its reader and say what came of it.

    Parameters
    ----------
    reader : Reader
        The reader.
    golden : GoldenLog
        The golden file; restored afterwards.
    data : bytes
        Its broken content.
    mutations : sequence of str
        How it was broken.
    steps : bool
        Whether to limit the lines executed.

    Returns
    -------
    str
        ``rows`` or ``error``.

    Raises
    ------
    Exception
        Whatever a reader must not raise; AssertionError for rows that are wrong.
    """
    original = golden.path.read_bytes()
    golden.path.write_bytes(data)
    try:
        with limited_steps(step_limit(len(data)) if steps else sys.maxsize):
            verdict = reader.recognises(golden.path)
            table = read_files(reader, golden.files, golden.run)
    finally:
        golden.path.write_bytes(original)
    assert verdict is None or (isinstance(verdict, str) and verdict and "\n" not in verdict), repr(verdict)
    if table is None:
        return "error"
    untouched = SAME_FIGURES.issuperset(mutations)
    if b'{"' in original:
        # JSON has no columns: swapping fields of a line gives layers each other's figures.
        untouched = untouched and "swap columns" not in mutations
    if b";" in original and b"," in original:
        # Taken apart at its decimal commas, a line gives a sound layer of another name and figure.
        untouched = untouched and "swap columns" not in mutations
    if golden.latencies_ms is not None and untouched and verdict is None:
        known = np.array(sorted(golden.latencies_ms))
        for latency in table["latency_ms"]:
            near = known[np.abs(known - latency) <= 1e-9 * latency]
            assert len(near), f"{latency} ms after {', '.join(mutations)}, of {known.tolist()}"
    return "rows"


def fuzz(
    reader: Reader, folder: Path, count: int, *, seed: int = 0, steps: bool = True
) -> tuple[Mapping[str, int], list[str]]:
    """Break the golden files of a reader many times.

    Parameters
    ----------
    reader : Reader
        The reader.
    folder : Path
        Folder for copies.
    count : int
        Number of broken files.
    seed : int
        Seed; case *n* of a seed is always the same file.
    steps : bool
        Whether to limit the lines executed.

    Returns
    -------
    outcomes : Mapping of str to int
        How many gave ``rows`` and a clean ``error``.
    failures : list of str
        What else happened, with what is needed to see it again.
    """
    logs = golden_logs(reader, folder)
    assert logs, f"no golden file of {reader.name} is recognised"
    outcomes = {"rows": 0, "error": 0}
    failures = []
    for case in range(count):
        rng = np.random.default_rng([seed, case])
        golden = logs[case % len(logs)]
        data, mutations = mutate_by_name(golden.path.read_bytes(), rng)
        try:
            outcomes[examine(reader, golden, data, mutations, steps=steps)] += 1
        except Exception as error:  # whatever a reader must not raise is what this looks for
            what = f"{type(error).__name__}: {error}"[:400]
            failures.append(f"{golden.path.name}, case {case} ({', '.join(mutations)}): {what}")
    return outcomes, failures
