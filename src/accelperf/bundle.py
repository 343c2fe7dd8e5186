"""A fitted estimator on disk: JSON and arrays, nothing that executes.

A bundle is a folder with two files. ``bundle.json`` holds format version, estimator, settings,
library versions, training data (MD5, rows, range of each parameter), metrics, the predictor's
values and the checksum of the arrays; ``arrays.npz`` holds the arrays. No pickle is written or
loaded.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError
from accelperf.features import FEATURE_COLUMNS, FeatureMatrix
from accelperf.models.base import Predictor
from accelperf.models.catalog import predictor_class
from accelperf.parameters import PARAMETER_NAMES

FORMAT = "accelperf-bundle"
FORMAT_VERSION = 1
MANIFEST = "bundle.json"
ARRAYS = "arrays.npz"
LIBRARIES: tuple[str, ...] = ("accelperf", "gpflow", "numpy", "scikit-learn", "tensorflow", "xgboost")


@dataclass(frozen=True)
class Bundle:
    """A loaded bundle.

    Attributes
    ----------
    predictor : Predictor
        What predicts.
    manifest : dict
        The content of ``bundle.json``.
    """

    predictor: Predictor
    manifest: dict[str, Any]


def save_bundle(
    fitted: Predictor,
    folder: Path,
    *,
    estimator: str,
    settings: Mapping[str, Any],
    features: FeatureMatrix,
    features_md5: str,
    metrics: Mapping[str, Any],
) -> None:
    """Write a fitted estimator.

    Parameters
    ----------
    fitted : Predictor
        What `Estimator.fit` returned.
    folder : Path
        Where to; made if missing, files of an earlier bundle are replaced.
    estimator : str
        Key of the estimator.
    settings : Mapping
        Its hyperparameters.
    features : FeatureMatrix
        The training rows.
    features_md5 : str
        MD5 of the file that they came from.
    metrics : Mapping
        Figures of its evaluation, by scheme.
    """
    values, arrays = fitted.state()
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    content = packed.getvalue()
    parameters = features.parameters
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "estimator": estimator,
        "settings": dict(settings),
        "libraries": {name: version(name) for name in LIBRARIES},
        "feature_columns": list(FEATURE_COLUMNS),
        "training": {
            "features_md5": features_md5,
            "rows": len(features),
            "origins": sorted(set(features.table["origin"])),
            "range": {
                name: [float(parameters[:, column].min()), float(parameters[:, column].max())]
                for column, name in enumerate(PARAMETER_NAMES)
            },
        },
        "metrics": dict(metrics),
        "predictor": {"kind": fitted.kind, "values": values},
        "arrays_sha256": hashlib.sha256(content).hexdigest(),
    }
    text = json.dumps(manifest, indent=1, allow_nan=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ARRAYS).write_bytes(content)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def load_bundle(folder: Path) -> Bundle:
    """Read a fitted estimator.

    Parameters
    ----------
    folder : Path
        A folder written by `save_bundle`.

    Returns
    -------
    Bundle
        Predictor and manifest.

    Raises
    ------
    InputError
        If a file is missing, of another format or version, or changed since it was written.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        content = (folder / ARRAYS).read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"a bundle with {MANIFEST} and {ARRAYS}", f"no {error.filename}") from None
    except ValueError as error:
        raise InputError("a bundle's JSON", str(error), file=path) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"format {FORMAT!r}", "another file", file=path)
    if manifest["format_version"] != FORMAT_VERSION:
        raise InputError(f"format version {FORMAT_VERSION}", str(manifest["format_version"]), file=path)
    if hashlib.sha256(content).hexdigest() != manifest["arrays_sha256"]:
        raise InputError(
            "arrays as they were written", "other content (checksum differs)", file=folder / ARRAYS
        )
    predictor = manifest["predictor"]
    arrays = _read_arrays(content, folder / ARRAYS)
    return Bundle(predictor_class(predictor["kind"]).from_state(predictor["values"], arrays), manifest)


def _read_arrays(content: bytes, path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise InputError("NumPy arrays without pickled objects", str(error), file=path) from None
