"""The MLflow model registry: the best estimator as ``accelperf``, its alias ``champion``.

A version carries the figures of its evaluation as a tag. A challenger takes the alias only if it is
better by the chosen metric under the chosen scheme, or if the champion learned from other rows, with
which it cannot be compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Read when MLflow is imported; a bar for two files is noise.
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

import numpy as np

with warnings.catch_warnings():
    # MLflow warns about type hints of its own while it is imported.
    warnings.simplefilter("ignore", UserWarning)
    from mlflow import pyfunc
    from mlflow.exceptions import MlflowException

import accelperf
from accelperf.errors import InputError
from accelperf.evaluation.metrics import cost
from accelperf.features import FeatureMatrix
from accelperf.serving import BUNDLE, signature, to_request
from accelperf.tracking import Run, Store, one_line, open_store, quiet

NAME = "accelperf"
CHAMPION = "champion"
CHALLENGER = "challenger"
MODEL_CARD = "model_card.md"
ARTIFACT = "model"

REQUIREMENTS: tuple[str, ...] = ("mlflow", "numpy", "pandas", "pandera", "pydantic", "pyyaml", "scipy")
"""What a model needs to predict, pinned to what it was tested with; no training library."""

_ADDRESS = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>\d+))")
_EXAMPLE_ROWS = 3


@dataclass(frozen=True)
class Candidate:
    """A fitted estimator that wants to be champion.

    Attributes
    ----------
    estimator : str
        Its key.
    bundle : Path
        Folder of its bundle.
    run_id : str
        MLflow run of its evaluation.
    metrics : Mapping
        ``metrics.json`` by scheme.
    features_md5 : str
        MD5 of the rows that it learned from.
    """

    estimator: str
    bundle: Path
    run_id: str
    metrics: Mapping[str, Mapping[str, Any]]
    features_md5: str

    @property
    def digest(self) -> str:
        """MD5 of the bundle's files: two versions of one digest are the same model."""
        digest = hashlib.md5(usedforsecurity=False)
        for path in sorted(self.bundle.iterdir()):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()


def save_model(bundle: Path, features: FeatureMatrix, card: str, target: Path) -> None:
    """Write a bundle as an MLflow model: code, requirements, signature, example and card.

    Parameters
    ----------
    bundle : Path
        Folder of the bundle.
    features : FeatureMatrix
        Rows from which the input example is taken.
    card : str
        The model card, Markdown.
    target : Path
        Folder to write, which must not exist.
    """
    package = Path(accelperf.__file__).parent
    requirements = [f"{name}=={version(name)}" for name in REQUIREMENTS]
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / package.name
        shutil.copytree(package, code, ignore=shutil.ignore_patterns("__pycache__"))
        pyfunc.save_model(
            target,
            python_model=str(package / "served_model.py"),
            artifacts={BUNDLE: str(bundle.resolve())},
            code_paths=[str(code)],
            pip_requirements=requirements,
            signature=signature(),
            input_example=to_request(features.take(np.arange(min(_EXAMPLE_ROWS, len(features))))),
        )
    (target / MODEL_CARD).write_text(card, encoding="utf-8")


def register(
    store: Store,
    candidate: Candidate,
    features: FeatureMatrix,
    card: str,
    *,
    scheme: str,
    metric: str,
) -> str:
    """Register the best estimator, and make it champion if it is better than the present one.

    Parameters
    ----------
    store : Store
        The MLflow store.
    candidate : Candidate
        The best estimator of a comparison.
    features : FeatureMatrix
        The rows that it learned from.
    card : str
        Its model card, Markdown.
    scheme, metric : str
        What decides.

    Returns
    -------
    str
        One line that says what was done.
    """
    client = store.client
    _make_model(client)
    digest = candidate.digest
    champion = _champion(client)
    known_as = _version_of(client, digest)
    if champion is not None and champion.tags.get("bundle_md5") == digest:
        return f"{NAME}@{CHAMPION} stays version {champion.version} ({candidate.estimator})"
    if known_as is None:
        known_as = _new_version(store, candidate, features, card, digest)
    value = candidate.metrics[scheme][metric]
    name = f"version {known_as} ({candidate.estimator}, {scheme} {metric} {value:.4g})"
    if champion is not None and not _beats(candidate, champion, scheme, metric):
        client.set_registered_model_alias(NAME, CHALLENGER, known_as)
        return f"{NAME}@{CHALLENGER} is {name}; it is not better than @{CHAMPION}, version {champion.version}"
    client.set_registered_model_alias(NAME, CHAMPION, known_as)
    return f"{NAME}@{CHAMPION} is {name}"


def _beats(candidate: Candidate, champion: Any, scheme: str, metric: str) -> bool:
    """Tell whether a candidate takes the champion's place; on other rows it does."""
    if champion.tags.get("features_md5") != candidate.features_md5:
        return True
    metrics = json.loads(champion.tags.get("metrics", "{}"))
    return cost(candidate.metrics[scheme], metric) < cost(metrics.get(scheme, {}), metric)


def _make_model(client: Any) -> None:
    try:
        client.get_registered_model(NAME)
    except MlflowException:
        client.create_registered_model(
            NAME, description="Latency of CNN layers on FPGA accelerators (see the model card of a version)."
        )


def _champion(client: Any) -> Any | None:
    try:
        return client.get_model_version_by_alias(NAME, CHAMPION)
    except MlflowException:
        return None


def _version_of(client: Any, digest: str) -> str | None:
    """Return the version that holds a bundle already."""
    for found in client.search_model_versions(f"name = '{NAME}'"):
        if found.tags.get("bundle_md5") == digest:
            return str(found.version)
    return None


def _new_version(store: Store, candidate: Candidate, features: FeatureMatrix, card: str, digest: str) -> str:
    """Store the model with the run of its evaluation, and register it."""
    run = _run_of(store, candidate)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / ARTIFACT
        with quiet("mlflow"):
            save_model(candidate.bundle, features, card, model)
        run.log_folder(model, ARTIFACT)
    source = f"{store.client.get_run(run.run_id).info.artifact_uri}/{ARTIFACT}"
    tags = {
        "estimator": candidate.estimator,
        "bundle_md5": digest,
        "features_md5": candidate.features_md5,
        "metrics": json.dumps(candidate.metrics),
    }
    with quiet("mlflow"):
        made = store.client.create_model_version(NAME, source, run.run_id, tags=tags, description=card)
    return str(made.version)


def _run_of(store: Store, candidate: Candidate) -> Run:
    """Return the run of the evaluation; a new one where the store does not have it."""
    if store.status(candidate.run_id) is not None:
        return store.resume(candidate.run_id)
    tags = {"estimator": candidate.estimator, "features_md5": candidate.features_md5, "kind": "registration"}
    with store.run(f"{candidate.estimator} registered", tags) as run:
        for scheme, metrics in candidate.metrics.items():
            run.log_metrics(scheme, metrics)
    return run


def download_bundle(uri: str, root: Path, target: Path) -> Path:
    """Return the folder of a registered model's bundle.

    Parameters
    ----------
    uri : str
        ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``.
    root : Path
        The project whose store it is (`accelperf.tracking.open_store`).
    target : Path
        Folder to download into.

    Raises
    ------
    InputError
        If there is no such model.
    """
    client = open_store(root).client
    matched = _ADDRESS.fullmatch(uri)
    if matched is None:
        raise InputError("an address models:/NAME@ALIAS or models:/NAME/VERSION", repr(uri))
    try:
        if matched["alias"]:
            found = client.get_model_version_by_alias(matched["name"], matched["alias"])
        else:
            found = client.get_model_version(matched["name"], matched["version"])
        folder = Path(client.download_artifacts(found.run_id, f"{ARTIFACT}/artifacts", str(target)))
    except MlflowException as error:
        raise InputError(f"a registered model {uri!r}", one_line(error)) from None
    bundles = [path for path in folder.iterdir() if path.is_dir()]
    if len(bundles) != 1:
        raise InputError(f"one bundle in {uri!r}", f"{len(bundles)}")
    return bundles[0]
