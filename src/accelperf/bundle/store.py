"""Bundles written to folders and read back.

Format 2 (what is written): ``bundle.json``, sealed by its first line, and ``arrays-HASH.npz``, named
after its SHA-256. The JSON is replaced last and names the arrays, so that an interruption leaves the
earlier bundle. Format 1 (still read): ``bundle.json`` without a seal, and ``arrays.npz``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelperf.bundle.arrays import pack_arrays, unpack_arrays
from accelperf.bundle.contents import check_state
from accelperf.bundle.document import parse, seal, unseal
from accelperf.bundle.files import read_plain_file, write_whole_file
from accelperf.bundle.training import TrainingData
from accelperf.bundle.upgrade import upgrade_state
from accelperf.errors import AccelperfError, InputError
from accelperf.features import FEATURE_COLUMNS, FeatureMatrix
from accelperf.models.base import FitError, Predictor
from accelperf.models.catalog import predictor_class
from accelperf.parameters import PARAMETER_NAMES

FORMAT = "accelperf-bundle"
FORMAT_VERSION = 2
UNSEALED_VERSION = 1
MANIFEST = "bundle.json"
UNSEALED_ARRAYS = "arrays.npz"
LIBRARIES: tuple[str, ...] = (
    "accelperf",
    "gpflow",
    "numpy",
    "pandas",
    "scikit-learn",
    "scipy",
    "tensorflow",
    "xgboost",
)
"""Libraries whose versions a bundle names."""
LARGEST_MANIFEST_BYTES = 64 * 2**20
LARGEST_ARRAYS_BYTES = 4 * 2**30

_DIGEST = re.compile(r"[0-9a-f]{64}")
_HASH_DIGITS = 16


@dataclass(frozen=True)
class Bundle:
    """A loaded bundle.

    Attributes
    ----------
    predictor : Predictor
        What predicts.
    manifest : dict
        The content of ``bundle.json``.
    training : TrainingData
        What the estimator was trained on.
    """

    predictor: Predictor
    manifest: dict[str, Any]
    training: TrainingData

    @property
    def estimator(self) -> str:
        """Key of the estimator."""
        return str(self.manifest["estimator"])


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
    """Write a fitted estimator; the folder holds an earlier bundle until the last moment.

    Parameters
    ----------
    fitted : Predictor
        What `Estimator.fit` returned.
    folder : Path
        Where to; made if missing, the files of an earlier bundle are replaced.
    estimator : str
        Key of the estimator.
    settings : Mapping
        Its hyperparameters.
    features : FeatureMatrix
        The training rows.
    features_md5 : str
        MD5 of the file that they came from.
    metrics : Mapping
        Figures of its evaluation, by scheme; those that are not finite become null.

    Raises
    ------
    FitError
        If the estimator holds numbers that are not finite.
    InputError
        If the folder cannot be written.
    """
    values, arrays = fitted.state()
    try:
        packed = pack_arrays(arrays)
        digest = hashlib.sha256(packed).hexdigest()
        manifest = seal(
            {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "estimator": estimator,
                "settings": dict(settings),
                "libraries": {name: _installed(name) for name in LIBRARIES},
                "feature_columns": list(FEATURE_COLUMNS),
                "feature_types": {name: _type(features.table[name]) for name in FEATURE_COLUMNS},
                "training": TrainingData.of(features, features_md5).as_json(),
                "metrics": _without_nan(metrics),
                "arrays_sha256": digest,
                "predictor": {"kind": fitted.kind, "values": values},
            }
        )
    except ValueError as error:
        raise FitError(f"{estimator} cannot be kept: {error}") from None
    path = folder / MANIFEST
    earlier = _arrays_named_by(path)
    arrays_path = folder / _arrays_name(digest)
    write_whole_file(arrays_path, packed)
    write_whole_file(path, manifest)
    if earlier is not None and earlier != arrays_path:
        earlier.unlink(missing_ok=True)


def _arrays_name(digest: str) -> str:
    return f"arrays-{digest[:_HASH_DIGITS]}.npz"


def _installed(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _type(column: Any) -> str:
    kind = column.dtype.kind
    return {"i": "integer", "f": "number"}.get(kind, "text")


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_nan(each) for key, each in value.items()}
    return None if isinstance(value, float | np.floating) and not np.isfinite(value) else value


def _arrays_named_by(path: Path) -> Path | None:
    """Return the arrays' file of the bundle that lies there, if one does."""
    try:
        manifest, sealed = _read_manifest(path)
    except AccelperfError:
        return None
    digest = manifest.get("arrays_sha256")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        return None
    return path.with_name(_arrays_name(digest) if sealed else UNSEALED_ARRAYS)


def load_bundle(folder: Path, *, modules: Sequence[str] = ()) -> Bundle:
    """Read a fitted estimator.

    Parameters
    ----------
    folder : Path
        A folder written by `save_bundle`, of this format or an earlier one.
    modules : sequence of str
        Python modules that may be imported, where the bundle's mean function is of the user's own
        (the estimator's setting ``modules``). A bundle that names another is refused: importing runs it.

    Returns
    -------
    Bundle
        Predictor, manifest and training data.

    Raises
    ------
    InputError
        If a file is missing, no plain file, of another format or version, changed since it was written,
        or holds something else than its predictor needs.
    """
    path = folder / MANIFEST
    if not folder.is_dir():
        raise InputError(f"a folder with a bundle ({MANIFEST} and arrays)", "none", file=folder)
    manifest, sealed = _read_manifest(path)
    _check_version(manifest, sealed, path)
    predictor = _part(manifest, "predictor", dict, path)
    digest = _part(manifest, "arrays_sha256", str, path)
    if not _DIGEST.fullmatch(digest):
        raise InputError("arrays_sha256: 64 hexadecimal digits", repr(digest)[:80], file=path)
    for name, kind in (("estimator", str), ("settings", dict), ("libraries", dict), ("metrics", dict)):
        _part(manifest, name, kind, path)
    _check_columns(_part(manifest, "feature_columns", list, path), path)
    training = TrainingData.from_json(_part(manifest, "training", dict, path), path)

    arrays_path = folder / (_arrays_name(digest) if sealed else UNSEALED_ARRAYS)
    content = read_plain_file(arrays_path, LARGEST_ARRAYS_BYTES)
    if hashlib.sha256(content).hexdigest() != digest:
        raise InputError("arrays as they were written", "other content (checksum differs)", file=arrays_path)
    arrays = unpack_arrays(content, arrays_path)
    kind = _part(predictor, "kind", str, path, "predictor.")
    values = _part(predictor, "values", dict, path, "predictor.")
    return Bundle(_restore(kind, values, arrays, path, modules), manifest, training)


def _read_manifest(path: Path) -> tuple[dict[str, Any], bool]:
    content = read_plain_file(path, LARGEST_MANIFEST_BYTES)
    sealed = unseal(content, path)
    return parse(content, path), sealed


def _check_version(manifest: Mapping[str, Any], sealed: bool, path: Path) -> None:
    if manifest.get("format") != FORMAT:
        raise InputError(f"format {FORMAT!r}", "another file", file=path)
    found = manifest.get("format_version")
    if found not in (UNSEALED_VERSION, FORMAT_VERSION) or type(found) is not int:
        raise InputError(
            f"format version {UNSEALED_VERSION} or {FORMAT_VERSION}", repr(found)[:40], file=path
        )
    if sealed is not (found > UNSEALED_VERSION):
        expected, got = ("no checksum", "one") if sealed else ("a checksum in its first line", "none")
        raise InputError(f"{expected} (format version {found})", got, file=path)


def _part(mapping: Mapping[str, Any], name: str, kind: type, path: Path, prefix: str = "") -> Any:
    words: dict[type, str] = {str: "a text", dict: "an object", list: "a list"}
    value = mapping.get(name)
    if not isinstance(value, kind):
        got = "nothing" if name not in mapping else f"a {type(value).__name__}"
        raise InputError(f"{prefix}{name}: {words[kind]}", got, file=path)
    return value


def _check_columns(columns: Sequence[object], path: Path) -> None:
    """Raise if the bundle's parameters are not ours in our order: numbers would change places."""
    found = [name for name in columns if name in PARAMETER_NAMES]
    if found != list(PARAMETER_NAMES):
        raise InputError(
            f"feature_columns with the 15 parameters {', '.join(PARAMETER_NAMES)}",
            ", ".join(map(str, found))[:200] or "none",
            file=path,
        )


def _restore(
    kind: str,
    values: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    path: Path,
    modules: Sequence[str],
) -> Predictor:
    try:
        cls = predictor_class(kind)
        arrays = upgrade_state(kind, arrays)
        check_state(kind, values, arrays, modules)
        return cls.from_state(values, arrays)
    except InputError as error:
        raise InputError(error.expected, error.got, file=path) from None
    except AccelperfError as error:
        raise InputError(f"a fitted {kind}", str(error), file=path) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Whatever a check let through must not end in a traceback.
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"what a fitted {kind} needs", reason, file=path) from None
