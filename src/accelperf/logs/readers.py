"""The known formats, plug-ins from other packages included, and which of them a log has.

A package adds a format through an entry point of the group `PLUGIN_GROUP`, which names a module or
an object with the interface of `accelperf.logs.base.Reader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from accelperf.errors import AccelperfError, InputError, known
from accelperf.logs import cnn_accel, dnndk, finn, native, onnx_runtime, openvino, scale_sim, tvm, vaitrace
from accelperf.logs.base import LogTable, Reader
from accelperf.logs.run import RunFile
from accelperf.logs.text import require_text

READERS: tuple[Reader, ...] = (
    native,
    cnn_accel,
    dnndk,
    openvino,
    vaitrace,
    scale_sim,
    tvm,
    finn,
    onnx_runtime,
)
"""The formats of this package; a new one is a module in this folder and a word here."""

PLUGIN_GROUP = "accelperf.readers"
"""Group of entry points under which other packages offer readers."""

_INTERFACE = ("name", "recognises", "read")


@dataclass(frozen=True)
class PlugIn:
    """A reader of another package, whose failures name that package.

    Attributes
    ----------
    reader : Reader
        The reader itself.
    package : str
        The package that it comes from, with its version.
    """

    reader: Reader
    package: str

    @property
    def name(self) -> str:
        """Name of the format."""
        return self.reader.name

    def recognises(self, path: Path) -> str | None:
        """Return None if the content of a file is of this format, else why it is not."""
        try:
            with self._blamed(path):
                return self.reader.recognises(path)
        except InputError as error:
            if error.__cause__ is not None:
                raise  # a defect of the plug-in
            return str(error)

    def read(self, files: Sequence[Path], run: RunFile) -> list[LogTable]:
        """Read all files of this format in one folder."""
        with self._blamed(files[0]):
            return self.reader.read(files, run)

    @contextmanager
    def _blamed(self, path: Path) -> Iterator[None]:
        try:
            yield
        except AccelperfError:
            raise
        except Exception as error:
            raise InputError(
                f"rows, or an error of the input, from the plug-in of {self.package} (format {self.name})",
                f"{type(error).__name__}: {_first_line(error)}",
                file=path,
            ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no message"])[0]


def all_readers() -> dict[str, Reader]:
    """Return all readers by name: those of this package, then plug-ins.

    Raises
    ------
    InputError
        If a plug-in cannot be loaded, is no reader, or has a name that is taken; the package is
        named.
    """
    readers: dict[str, Reader] = {reader.name: reader for reader in READERS}
    for entry in sorted(entry_points(group=PLUGIN_GROUP), key=lambda each: each.name):
        plug_in = _load(entry)
        if plug_in.name in readers:
            other = readers[plug_in.name]
            whose = other.package if isinstance(other, PlugIn) else "accelperf"
            raise InputError(
                f"a format of another name than {plug_in.name!r}, which {whose} has",
                f"{plug_in.name!r} from the plug-in of {plug_in.package}",
            )
        readers[plug_in.name] = plug_in
    return readers


def _load(entry: EntryPoint) -> PlugIn:
    package = "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    what = f"a reader from the plug-in of {package} (entry point {entry.name!r} = {entry.value!r})"
    try:
        reader = entry.load()
    except Exception as error:
        raise InputError(what, f"{type(error).__name__}: {_first_line(error)}") from error
    missing = [each for each in _INTERFACE if not hasattr(reader, each)]
    if missing:
        raise InputError(f"{what} with {', '.join(_INTERFACE)}", f"one without {', '.join(missing)}")
    if not isinstance(reader.name, str) or not reader.name:
        raise InputError(f"{what} with a name", repr(reader.name))
    return PlugIn(reader, package)


def choose_reader(
    path: Path, run: RunFile, *, format_name: str | None = None, readers: Mapping[str, Reader] | None = None
) -> Reader:
    """Return the reader of a log: the named one, else the one that recognises the content.

    Parameters
    ----------
    path : Path
        The log.
    run : RunFile
        Its ``run.yaml``, which may name a format.
    format_name : str, optional
        Name of a format, instead of that of ``run.yaml``.
    readers : Mapping of str to Reader, optional
        Readers by name; `all_readers` by default.

    Raises
    ------
    InputError
        If the named format is unknown; if no reader recognises the content, or several do, with
        what each said; if it is empty or no text.
    """
    readers = all_readers() if readers is None else readers
    if format_name is not None:
        if format_name not in readers:
            raise InputError(f"--format: one of {known(readers)}", repr(format_name))
        return readers[format_name]
    if run.content.format is not None:
        if run.content.format not in readers:
            raise InputError(
                f"a format, one of {known(readers)}",
                repr(run.content.format),
                file=run.path,
                line=run.lines.get(("format",)),
            )
        return readers[run.content.format]
    verdicts = {name: reader.recognises(path) for name, reader in readers.items()}
    accepting = [name for name, why_not in verdicts.items() if why_not is None]
    if len(accepting) == 1:
        return readers[accepting[0]]
    reasons = "; ".join(
        f"{name}: {_without_path(why_not, path)}" for name, why_not in verdicts.items() if why_not is not None
    )
    if accepting:
        fits = f"{known(accepting)}; name one under 'format' in {run.path}, or with --format"
        others = f" (not {reasons})" if reasons else ""
        raise InputError("a profiling log of one format", f"content that fits {fits}{others}", file=path)
    require_text(path)
    raise InputError("a profiling log of a known format", f"none of them ({reasons})", file=path)


def _without_path(why_not: str, path: Path) -> str:
    """Return why a log is not of a format without the log's path, which the message has already."""
    return why_not.replace(f"{path}: ", "").replace(f"{path}:", "line ")
