"""Predictions that somebody asked for: reads what the words name, and writes the picture last."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from accelperf.errors import InputError
from accelperf.networks import find_network, read_network
from accelperf.platforms import MemoryPattern, Platform, get_platform, read_platform, read_platforms
from accelperf.predict.model import COMPARISON, MODELS, Model, find_model
from accelperf.predict.network import NetworkPrediction, predict_network
from accelperf.predict.totals import Schedule

PICTURE_SUFFIX = ".png"


@dataclass(frozen=True)
class Request:
    """What is to be predicted.

    Attributes
    ----------
    networks : sequence of str
        Names of network tables, or paths of tables (``.csv``) or ONNX models (``.onnx``).
    platform : str
        Name of a platform, or path of its file (``.yaml``).
    model : str, optional
        Folder of a trained estimator or its name; see `accelperf.predict.model.find_model`.
    schedule : {"sequential", "pipeline"}
        How the layers run.
    batch : int
        Number of images.
    picture : Path, optional
        PNG file to write.
    modules : sequence of str
        Modules that the estimator may import.
    platforms_folder, networks_folder, memory_table, models, comparison : Path
        Where names are looked up.
    """

    networks: Sequence[str]
    platform: str
    model: str | None = None
    schedule: Schedule = "sequential"
    batch: int = 1
    picture: Path | None = None
    modules: Sequence[str] = ()
    platforms_folder: Path = Path("data/platforms")
    networks_folder: Path = Path("data/networks")
    memory_table: Path = Path("data/interim/memory.csv")
    models: Path = MODELS
    comparison: Path = COMPARISON


def run(request: Request) -> list[NetworkPrediction]:
    """Read what a request names and predict it, one prediction a network.

    Raises
    ------
    InputError
        If a name is unknown or a file is wrong; nothing has been written then.
    """
    if request.picture is not None and request.picture.suffix.lower() != PICTURE_SUFFIX:
        raise InputError(f"a picture's name that ends in {PICTURE_SUFFIX}", repr(str(request.picture)))
    networks = [_network(word, request.networks_folder) for word in request.networks]
    platform = _platform(request.platform, request.platforms_folder)
    memory = None
    if isinstance(platform.memory_efficiency, MemoryPattern):
        from accelperf.memory.table import read_memory

        memory = read_memory(request.memory_table)
    model = _model(request)
    predictions = [
        predict_network(
            name, table, platform, model, memory=memory, schedule=request.schedule, batch=request.batch
        )
        for name, table in networks
    ]
    if request.picture is not None:
        write_picture(predictions, request.picture)
    return predictions


def write_picture(predictions: Sequence[NetworkPrediction], path: Path) -> None:
    """Write the picture of some predictions.

    Raises
    ------
    InputError
        If the file cannot be written; an earlier one is then as it was.
    """
    from accelperf.predict.picture import picture_png

    content = picture_png(predictions)
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise InputError("a file that can be written", error.strerror or str(error), file=path) from None


def _network(word: str, folder: Path) -> tuple[str, pd.DataFrame]:
    path = Path(word)
    if path.suffix.lower() == ".onnx":
        from accelperf.onnx_network import read_onnx

        return path.stem, read_onnx(path)
    if path.suffix.lower() == ".csv":
        return path.stem, read_network(path)
    return word, read_network(find_network(word, folder))


def _platform(word: str, folder: Path) -> Platform:
    path = Path(word)
    if path.suffix.lower() in (".yaml", ".yml"):
        return read_platform(path)
    usual = folder / f"{word}.yaml"
    if path.name == word and usual.is_file():
        # The others need not be read where the file's name says which.
        platform = read_platform(usual)
        if platform.name == word:
            return platform
    return get_platform(read_platforms(folder), word)


def _model(request: Request) -> Model:
    if request.modules:
        from accelperf.settings import make_importable

        make_importable(Path.cwd())
    return find_model(
        request.model, models=request.models, comparison=request.comparison, modules=request.modules
    )
