"""The estimator that predicts: which one, where it comes from, and why."""

from __future__ import annotations

import csv
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelperf.bundle import MANIFEST, Bundle, TrainingData, load_bundle
from accelperf.errors import InputError, known
from accelperf.models.base import Predictor
from accelperf.models.predictors import StandardPredictor

REGISTERED = "models:/"
"""How the address of a registered model begins."""
MODELS = Path("models")
COMPARISON = Path("reports/comparison.csv")
PREFERRED: tuple[str, ...] = (
    "gp_calibrated",
    "gp_analytic",
    "gp_ann_mean",
    "gp_zero",
    "xgboost",
    "gtb",
    "adaboost",
    "ann",
    "linear",
    "standard",
)
"""Estimators in the order in which one is taken where no comparison says which is best: those with
intervals first, and of these the ones that know the equations."""
UNTRAINED_VARIANT = "tiled"
"""Variant of the analytic model that predicts where nothing has been trained."""


@dataclass(frozen=True)
class Model:
    """An estimator, and what is known about it.

    Attributes
    ----------
    predictor : Predictor
        What predicts.
    estimator : str
        Its name.
    training : TrainingData or None
        What it was trained on; None if it learned nothing.
    where : str
        Where it comes from, empty if from nowhere.
    why : str
        Why it was chosen, empty if it was asked for.
    """

    predictor: Predictor
    estimator: str
    training: TrainingData | None
    where: str = ""
    why: str = ""

    @classmethod
    def of(cls, bundle: Bundle, where: str, why: str = "") -> Model:
        """Return the estimator of a bundle."""
        return cls(bundle.predictor, bundle.estimator, bundle.training, where, why)

    @property
    def simulated(self) -> bool:
        """Whether it learned from simulated latencies."""
        return self.training is not None and self.training.simulated

    @property
    def origin(self) -> str:
        """What it learned from: origins joined by +, simulated ones in capitals."""
        if self.training is None:
            return "untrained"
        return "+".join("SIMULATED" if name == "simulated" else name for name in self.training.origins)


def find_model(
    word: str | None,
    *,
    models: Path = MODELS,
    comparison: Path = COMPARISON,
    modules: Sequence[str] = (),
) -> Model:
    """Return the estimator that somebody asked for, or the best one.

    Parameters
    ----------
    word : str, optional
        Folder of a bundle, its name below `models`, or the address of a registered model
        (``models:/accelperf@champion``, `accelperf.registry`). By default the estimator with the
        least MAPE under the last scheme of `comparison`, by which champions are chosen too, that is
        among `models`; without any such the first of `PREFERRED` that is; without any trained one
        the analytic model, which learned nothing.
    models : Path
        Folder of the trained estimators.
    comparison : Path
        Table written by ``accelperf report``.
    modules : sequence of str
        Modules that a bundle may import (`accelperf.bundle.load_bundle`).

    Raises
    ------
    InputError
        If there is no such bundle, or it or the table is wrong.
    """
    if word is not None and word.startswith(REGISTERED):
        return _registered(word, modules)
    if word is not None:
        folder = Path(word) if Path(word).is_dir() else models / word
        if not folder.is_dir():
            trained = known(path.parent.name for path in models.glob(f"*/{MANIFEST}"))
            expected = f"a model's folder, or one of {trained}" if trained else "a model's folder"
            raise InputError(expected, repr(word))
        return Model.of(load_bundle(folder, modules=modules), folder.as_posix())
    ranked, scheme = _ranking(comparison)
    for names, why in (
        (ranked, f"least {scheme} MAPE in {comparison.as_posix()}"),
        (PREFERRED, f"first of those trained, as {comparison.as_posix()} says nothing of them"),
    ):
        for name in names:
            if (models / name / MANIFEST).is_file():
                bundle = load_bundle(models / name, modules=modules)
                return Model.of(bundle, (models / name).as_posix(), why)
    why = f"no trained estimator in {models.as_posix()}/"
    return Model(StandardPredictor(UNTRAINED_VARIANT), "analytic model (tiled)", None, why=why)


def _registered(address: str, modules: Sequence[str]) -> Model:
    """Return an estimator of the model registry."""
    # MLflow takes seconds to import; nobody else here needs it.
    from accelperf.registry import download_bundle
    from accelperf.settings import find_project_root

    root = Path() if os.environ.get("MLFLOW_TRACKING_URI") else find_project_root()
    with tempfile.TemporaryDirectory() as folder:
        bundle = load_bundle(download_bundle(address, root, Path(folder)), modules=modules)
    return Model.of(bundle, address)


def _ranking(path: Path) -> tuple[list[str], str]:
    """Return the estimators by the MAPE of the last scheme of a comparison, and that scheme."""
    if not path.is_file():
        return [], ""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, ValueError, csv.Error) as error:
        raise InputError("a comparison of estimators", str(error), file=path) from None
    found: list[tuple[float, str]] = []
    scheme = rows[-1].get("scheme") if rows else ""
    for line, row in enumerate(rows, start=2):
        try:
            mape = float(row["mape"])
            name = row["estimator"]
            if not name or Path(name).name != name or math.isnan(mape):
                raise ValueError
        except (KeyError, TypeError, ValueError):
            raise InputError(
                "columns estimator, scheme and mape", str(row)[:80], file=path, line=line
            ) from None
        if row.get("scheme") == scheme:
            found.append((mape, name))
    return [name for _, name in sorted(found)], scheme or ""
