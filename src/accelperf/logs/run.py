"""``run.yaml``: what a profiling log does not say about itself.

The nearest ``run.yaml`` from a log's folder upward to the root of the logs applies, so one file can
serve a whole tree of logs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from accelperf.errors import InputError, known
from accelperf.platforms import Platform, get_platform
from accelperf.yaml_input import StrictModel, parse_model, read_mapping

RUN_FILE = "run.yaml"


class ProfileRun(StrictModel):
    """Content of a ``run.yaml`` beside profiling logs.

    Attributes
    ----------
    origin : {"measured", "simulated", "estimated"}
        Where the latencies come from.
    platform : str, optional
        Platform that ran, for logs that name no configuration.
    platforms : dict of str to str, optional
        Platform of each configuration that the logs name. Either this or `platform`.
    network : str, optional
        Network that ran, where the log does not say.
    format : str, optional
        Name of the reader; recognised from the content where it is not given.
    source : str, optional
        Where the logs come from.
    geometry : str or dict of str to str, optional
        Description of the network, for logs without sizes: the name of a network table
        (``resnet50``), or the path of a network table (``.csv``) or of an ONNX model (``.onnx``),
        relative to this file. For several networks, a map of network to description.
    layers : dict of str to str, optional
        Name in the description of a layer that the log names otherwise.
    ignore : list of str, optional
        Files that are no logs, as shell patterns of a name or of the last parts of a path
        (``old_*.csv``, ``plots/*``).
    """

    origin: Literal["measured", "simulated", "estimated"]
    platform: str | None = None
    platforms: dict[str, str] | None = None
    network: str | None = None
    format: str | None = None
    source: str | None = None
    geometry: str | dict[str, str] | None = None
    layers: dict[str, str] | None = None
    ignore: list[str] | None = None


@dataclass(frozen=True)
class RunFile:
    """A checked ``run.yaml``, with the platforms that it names.

    Attributes
    ----------
    path : Path
        The file.
    content : ProfileRun
        Its content.
    lines : Mapping of tuple of str to int
        Line of every key, for messages.
    by_configuration : Mapping of str to Platform
        Platform of each configuration; under the key ``""`` that of logs without configurations.
    networks : Path, optional
        Folder of network tables, in which `ProfileRun.geometry` finds names.
    needs_sizes : bool
        Whether a log without sizes must have a description. ``accelperf check`` compares its sums
        without one, and then without a platform too.
    """

    path: Path
    content: ProfileRun
    lines: Mapping[tuple[str, ...], int] = field(repr=False)
    by_configuration: Mapping[str, Platform]
    networks: Path | None = None
    needs_sizes: bool = True

    def ignores(self, path: Path) -> bool:
        """Return whether ``ignore`` names a file below this one's folder."""
        relative = path.absolute().relative_to(self.path.parent.absolute())
        return any(relative.match(pattern) for pattern in self.content.ignore or ())

    def descriptions(self) -> list[Path]:
        """Return the files that ``geometry`` names.

        Raises
        ------
        InputError
            If one does not exist.
        """
        given = self.content.geometry
        if given is None:
            return []
        if isinstance(given, str):
            return [self._described(given, ("geometry",))]
        return [self._described(value, ("geometry", network)) for network, value in given.items()]

    def description(self, network: str, *, file: Path) -> Path:
        """Return the file that describes a network, as the key ``geometry`` says.

        Parameters
        ----------
        network : str
            Name of the network.
        file : Path
            The log that lacks the sizes, for the error.

        Raises
        ------
        InputError
            If ``geometry`` is not given, not for this network, or names no file.
        """
        given = self.content.geometry
        if given is None:
            raise InputError(
                f"the key 'geometry' in {self.path} (a network table or an ONNX model that describes "
                f"{network!r}), since this log has no sizes",
                "no such key",
                file=file,
            )
        if isinstance(given, str):
            return self._described(given, ("geometry",))
        if network not in given:
            raise InputError(
                f"the network {network!r} of {file} under 'geometry'",
                known(given) or "none",
                file=self.path,
                line=self.lines.get(("geometry",)),
            )
        return self._described(given[network], ("geometry", network))

    def _described(self, value: str, key: tuple[str, ...]) -> Path:
        line = self.lines.get(key)
        if Path(value).suffix.lower() in DESCRIPTION_SUFFIXES:
            path = Path(os.path.normpath(self.path.parent / value))
            if not path.is_file():
                raise InputError(
                    f"{'.'.join(key)}: a network table or an ONNX model, relative to this file",
                    f"no file {value!r}",
                    file=self.path,
                    line=line,
                )
            return path
        names = [] if self.networks is None else [table.stem for table in self.networks.glob("*.csv")]
        if self.networks is None or value not in names:
            where = (
                "" if self.networks is None else f" of {self.networks} ({known(names) or 'which has none'})"
            )
            raise InputError(
                f"{'.'.join(key)}: the name of a network table{where}, or the path of a .csv or .onnx file",
                repr(value),
                file=self.path,
                line=line,
            )
        return self.networks / f"{value}.csv"

    def platform(self, configuration: str, *, file: Path, line: int | None = None) -> Platform:
        """Return the platform of a configuration.

        Parameters
        ----------
        configuration : str
            Configuration as the log names it; ``""`` where the log names none.
        file, line : Path and int
            Where the log names it, for the error.

        Raises
        ------
        InputError
            If ``run.yaml`` has no platform for it.
        """
        if configuration in self.by_configuration:
            return self.by_configuration[configuration]
        if not self.by_configuration:
            raise InputError(
                f"a {RUN_FILE} beside this log or above it, or --platform", "neither", file=file, line=line
            )
        if not configuration:
            raise InputError(
                f"the key 'platform' in {self.path}, since this log names no configuration",
                "the key 'platforms'",
                file=file,
                line=line,
            )
        if "" in self.by_configuration:
            raise InputError(
                "the key 'platforms: {configuration: platform}', "
                f"since {file} names the configuration {configuration!r}",
                "the key 'platform'",
                file=self.path,
                line=self.lines.get(("platform",)),
            )
        raise InputError(
            f"a configuration listed under 'platforms' in {self.path}, one of {known(self.by_configuration)}",
            repr(configuration),
            file=file,
            line=line,
        )


DESCRIPTION_SUFFIXES: tuple[str, ...] = (".csv", ".onnx")
"""What tells the path of a network's description from the name of a network table."""


def read_run(path: Path, platforms: Mapping[str, Platform], networks: Path | None = None) -> RunFile:
    """Read a ``run.yaml`` and look up the platforms that it names.

    Parameters
    ----------
    path : Path
        The file.
    platforms : Mapping of str to Platform
        Known platforms by name.
    networks : Path, optional
        Folder of network tables.

    Returns
    -------
    RunFile
        The checked file.

    Raises
    ------
    InputError
        If a key is unknown, missing or of the wrong kind, or a platform is unknown.
    """
    data, lines = read_mapping(path)
    return make_run(data, lines, path=path, platforms=platforms, networks=networks)


def make_run(
    data: dict[str, Any],
    lines: dict[tuple[str, ...], int],
    *,
    path: Path,
    platforms: Mapping[str, Platform],
    networks: Path | None = None,
) -> RunFile:
    """Check what stands in a ``run.yaml``, or in options instead of one (see `read_run`).

    Parameters
    ----------
    data : dict
        Keys and values.
    lines : dict
        Line of every key path; empty for options.
    path : Path
        The file, or where it would lie.
    platforms, networks
        As in `read_run`.
    """
    content = parse_model(ProfileRun, data, file=path, lines=lines)
    if (content.platform is None) == (content.platforms is None):
        got = "neither" if content.platform is None else "both"
        raise InputError(
            "either the key 'platform' or the key 'platforms'", got, file=path, line=lines.get(("platforms",))
        )
    if content.network is not None and not content.network.strip():
        raise InputError("network: a name", repr(content.network), file=path, line=lines.get(("network",)))
    if content.platform is not None:
        platform = get_platform(dict(platforms), content.platform, file=path, line=lines.get(("platform",)))
        return RunFile(path, content, lines, {"": platform}, networks)
    if not content.platforms:
        raise InputError("at least one platform", "none", file=path, line=lines.get(("platforms",)))
    by_configuration = {
        configuration: get_platform(
            dict(platforms), name, file=path, line=lines.get(("platforms", configuration))
        )
        for configuration, name in content.platforms.items()
    }
    return RunFile(path, content, lines, by_configuration, networks)


def find_run(folder: Path, root: Path) -> Path | None:
    """Return the nearest ``run.yaml`` from `folder` upward to `root`, or None.

    Parameters
    ----------
    folder : Path
        Folder of the log, `root` or below it.
    root : Path
        Where the search ends.
    """
    for candidate in (folder, *folder.parents):
        if (candidate / RUN_FILE).is_file():
            return candidate / RUN_FILE
        if candidate == root:
            break
    return None
