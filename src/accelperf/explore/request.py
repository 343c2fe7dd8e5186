"""What the command ``accelperf explore`` was asked: names and paths, read into an exploration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from accelperf.errors import InputError
from accelperf.explore.axes import parse_axes
from accelperf.explore.designs import make_designs
from accelperf.explore.exploration import Constraints, Exploration, explore
from accelperf.explore.progress import DesignProgress
from accelperf.explore.resources import TILE_PIXELS
from accelperf.explore.workload import make_workload
from accelperf.memory.table import read_memory
from accelperf.networks import find_network, read_network
from accelperf.onnx_network import read_onnx
from accelperf.platforms import MemoryPattern, Platform, get_platform, read_platform, read_platforms
from accelperf.predict.model import COMPARISON, MODELS, find_model


@dataclass(frozen=True)
class Request:
    """What is to be explored.

    Attributes
    ----------
    networks : sequence of str
        Names of network tables, or paths of tables (``.csv``) or ONNX models (``.onnx``).
    platform : str
        Name of a platform, or path of its file (``.yaml``).
    vary : sequence of str
        Axes, ``NAME=VALUES`` (`accelperf.explore.axes.parse_axis`).
    model : str, optional
        Folder of a trained estimator or its name; by default the best one
        (`accelperf.predict.model.find_model`).
    constraints : Constraints
        What a design must keep.
    resource, dsp_use, tile_pixels, next_count
        As in `accelperf.explore.exploration.explore`.
    modules : sequence of str
        Modules that the estimator may import.
    platforms_folder, networks_folder, memory_table, models, comparison : Path
        Where names are looked up, and efficiencies of platforms that name a memory profile.
    """

    networks: Sequence[str]
    platform: str
    vary: Sequence[str] = ()
    model: str | None = None
    constraints: Constraints = field(default_factory=Constraints)
    resource: str = "dsp"
    dsp_use: str = "one"
    tile_pixels: int = TILE_PIXELS
    next_count: int = 0
    modules: Sequence[str] = ()
    platforms_folder: Path = Path("data/platforms")
    networks_folder: Path = Path("data/networks")
    memory_table: Path = Path("data/interim/memory.csv")
    models: Path = MODELS
    comparison: Path = COMPARISON


def run(request: Request) -> Exploration:
    """Read what a request names and explore it, with progress on stderr.

    Raises
    ------
    InputError
        If a name is unknown, a file is wrong, an axis cannot be read, or no design is left.
    """
    axes = parse_axes(list(request.vary))
    networks = {}
    for word in request.networks:
        name, table = _network(word, request.networks_folder)
        if name in networks:
            raise InputError("each network once", f"{name!r} twice")
        networks[name] = table
    base = _platform(request.platform, request.platforms_folder)
    model = find_model(
        request.model, models=request.models, comparison=request.comparison, modules=request.modules
    )
    workload = make_workload(networks, base, model.predictor)
    memory = None
    varied = {axis.name for axis in axes}
    if isinstance(base.memory_efficiency, MemoryPattern) and "memory_efficiency" not in varied:
        memory = read_memory(request.memory_table)
    designs = make_designs(base, axes, memory, workload.layers["input_width"].tolist())
    with DesignProgress(" + ".join(networks)) as progress:
        return explore(
            designs,
            workload,
            model,
            request.constraints,
            resource=request.resource,
            dsp_use=request.dsp_use,
            tile_pixels=request.tile_pixels,
            next_count=request.next_count,
            progress=progress,
        )


def _network(word: str, folder: Path) -> tuple[str, pd.DataFrame]:
    path = Path(word)
    if path.suffix == ".onnx":
        return path.stem, read_onnx(path)
    if path.suffix == ".csv":
        return path.stem, read_network(path)
    return word, read_network(find_network(word, folder))


def _platform(word: str, folder: Path) -> Platform:
    if Path(word).suffix in (".yaml", ".yml"):
        return read_platform(Path(word))
    return get_platform(read_platforms(folder), word)
