"""Bundles: what is loaded is what was saved, earlier formats too, and damage is refused."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest

from accelperf.bundle import MANIFEST, load_bundle, save_bundle, store
from accelperf.errors import InputError
from accelperf.features import FEATURE_COLUMNS, FeatureMatrix, read_features
from accelperf.models.base import FitError, Predictor
from accelperf.models.catalog import ESTIMATORS, create
from accelperf.models.predictors import LinearPredictor, Standardiser
from accelperf.parameters import PARAMETER_NAMES
from tests.tolerances import EXACT_ALGEBRA

Maker = Callable[..., FeatureMatrix]

VERSION_1 = Path(__file__).parent / "golden" / "bundles" / "v1"
TRAINERS = ("tensorflow", "gpflow", "sklearn", "xgboost", "mlflow", "hydra", "matplotlib")
SETTINGS: dict[str, dict[str, object]] = {
    "xgboost": {"n_estimators": 10},
    "gp_zero": {"mean": "zero", "restarts": 0, "kernel": "rbf*linear", "steps": 30},
    "gp_analytic": {"mean": "paper", "restarts": 0, "steps": 30},
}


def save(key: str, features: FeatureMatrix, folder: Path, **settings: object) -> Predictor:
    settings = {**SETTINGS.get(key, {}), **settings}
    fitted = create(key, settings).fit(features)
    save_bundle(
        fitted, folder, estimator=key, settings=settings, features=features, features_md5="0" * 32,
        metrics={"loo": {"mae_ms": 0.5}},
    )  # fmt: skip
    return fitted


def arrays_of(folder: Path) -> Path:
    (path,) = folder.glob("arrays-*.npz")
    return path


@pytest.mark.parametrize("key", ESTIMATORS)
def test_what_is_loaded_predicts_what_was_saved(key: str, tmp_path: Path, features_of: Maker) -> None:
    features, new = features_of(30), features_of(12, seed=5)
    fitted = save(key, features, tmp_path)
    bundle = load_bundle(tmp_path)
    ours, theirs = bundle.predictor.predict(new), fitted.predict(new)
    np.testing.assert_allclose(ours.median_ms, theirs.median_ms, rtol=EXACT_ALGEBRA)
    assert ours.has_uncertainty == theirs.has_uncertainty
    if theirs.std_ms is not None and theirs.lower_ms is not None and theirs.upper_ms is not None:
        np.testing.assert_allclose(ours.std_ms, theirs.std_ms, rtol=EXACT_ALGEBRA)
        np.testing.assert_allclose(ours.lower_ms, theirs.lower_ms, rtol=EXACT_ALGEBRA)
        np.testing.assert_allclose(ours.upper_ms, theirs.upper_ms, rtol=EXACT_ALGEBRA)
    assert bundle.estimator == key
    assert type(bundle.predictor) is type(fitted)


def test_the_manifest_says_what_the_estimator_learned_from(tmp_path: Path, features_of: Maker) -> None:
    features = features_of(30)
    save("linear", features, tmp_path)
    bundle = load_bundle(tmp_path)
    training = bundle.training
    assert training.rows == 30
    assert training.features_md5 == "0" * 32
    assert training.origins == ("simulated",)
    assert training.simulated
    assert training.accelerators == ("fast", "slow")
    assert training.networks == ("alpha", "beta", "gamma")
    assert training.unrolled_loops == ("channels",)
    for column, name in enumerate(PARAMETER_NAMES):
        values = features.parameters[:, column]
        assert training.ranges[name] == (values.min(), values.max())
    assert training.ranges["latency_ms"] == (features.latency_ms.min(), features.latency_ms.max())
    assert training.ranges["groups"] == (1.0, 1.0)
    manifest = bundle.manifest
    assert manifest["metrics"] == {"loo": {"mae_ms": 0.5}}
    assert manifest["feature_columns"] == list(FEATURE_COLUMNS)
    assert manifest["feature_types"]["input_width"] == "integer"
    assert manifest["feature_types"]["logic_clock_mhz"] == "number"
    assert manifest["feature_types"]["unrolled_loop"] == "text"
    assert manifest["libraries"]["numpy"] == np.__version__


def test_a_library_that_is_not_installed_is_named_as_such(
    tmp_path: Path, features_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_tensorflow(name: str) -> str:
        if name == "tensorflow":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(store, "version", without_tensorflow)
    save("standard", features_of(5), tmp_path)
    assert load_bundle(tmp_path).manifest["libraries"]["tensorflow"] is None


def test_equal_estimators_give_equal_files(tmp_path: Path, features_of: Maker) -> None:
    for name in ("one", "two"):
        save("linear", features_of(20), tmp_path / name)
    first, second = tmp_path / "one", tmp_path / "two"
    assert [path.name for path in sorted(first.iterdir())] == [path.name for path in sorted(second.iterdir())]
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


def test_figures_that_are_no_numbers_become_null(tmp_path: Path, features_of: Maker) -> None:
    features = features_of(10)
    fitted = create("linear", {}).fit(features)
    save_bundle(
        fitted, tmp_path, estimator="linear", settings={}, features=features, features_md5="0" * 32,
        metrics={"loo": {"mae_ms": np.float64(0.25), "n_rows": np.int64(10), "spearman": math.nan}},
    )  # fmt: skip
    metrics = load_bundle(tmp_path).manifest["metrics"]
    assert metrics == {"loo": {"mae_ms": 0.25, "n_rows": 10, "spearman": None}}


def test_an_estimator_that_is_not_finite_is_not_kept(tmp_path: Path, features_of: Maker) -> None:
    features = features_of(10)
    scaling = Standardiser(np.zeros(15), np.ones(15))
    for fitted in (
        LinearPredictor(scaling, np.full(15, np.inf), 0.0),
        LinearPredictor(scaling, np.zeros(15), math.nan),
    ):
        with pytest.raises(FitError, match="linear cannot be kept"):
            save_bundle(
                fitted, tmp_path, estimator="linear", settings={}, features=features,
                features_md5="0" * 32, metrics={},
            )  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["linear", "xgboost", "gp_analytic", "gp_calibrated"])
def test_version_1_still_loads(key: str) -> None:
    new = read_features(VERSION_1 / "features.csv")
    expected = json.loads((VERSION_1 / "predictions.json").read_text())[key]
    bundle = load_bundle(VERSION_1 / key)
    assert bundle.manifest["format_version"] == 1
    assert bundle.training.rows == 12
    assert bundle.training.accelerators == ()
    found = bundle.predictor.predict(new)
    np.testing.assert_allclose(found.median_ms, expected["median_ms"], rtol=EXACT_ALGEBRA)
    if expected["std_ms"] is not None:
        np.testing.assert_allclose(found.std_ms, expected["std_ms"], rtol=EXACT_ALGEBRA)


def test_loading_and_predicting_need_no_trainer() -> None:
    script = f"""
import sys
for name in {TRAINERS!r}:
    sys.modules[name] = None  # importing it would raise
from pathlib import Path
from accelperf.bundle import load_bundle
from accelperf.features import read_features
folder = Path({str(VERSION_1)!r})
new = read_features(folder / "features.csv")
for key in ("linear", "xgboost", "gp_analytic", "gp_calibrated"):
    assert len(load_bundle(folder / key).predictor.predict(new)) == 6
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_noise_at_its_floor_survives(tmp_path: Path, features_of: Maker) -> None:
    features = features_of(25, noise=0.0)
    exact = create("standard", {}).fit(features).predict(features).median_ms
    features = FeatureMatrix(features.table.assign(latency_ms=1.2 * exact))
    fitted = save("gp_analytic", features, tmp_path)
    loaded, expected = load_bundle(tmp_path).predictor.predict(features), fitted.predict(features)
    assert loaded.std_ms is not None and expected.std_ms is not None
    np.testing.assert_allclose(loaded.std_ms, expected.std_ms, rtol=EXACT_ALGEBRA)


def test_the_seal_is_what_sha256sum_says(tmp_path: Path, features_of: Maker) -> None:
    save("linear", features_of(10), tmp_path)
    first, rest = (tmp_path / MANIFEST).read_bytes().split(b"\n", 1)
    assert hashlib.sha256(rest).hexdigest().encode() in first
    digest = hashlib.sha256(arrays_of(tmp_path).read_bytes()).hexdigest()
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert manifest["arrays_sha256"] == digest
    assert arrays_of(tmp_path).name == f"arrays-{digest[:16]}.npz"


def test_any_changed_byte_of_either_file_is_refused(tmp_path: Path, features_of: Maker) -> None:
    save("gp_zero", features_of(12), tmp_path)
    for path in (tmp_path / MANIFEST, arrays_of(tmp_path)):
        good = path.read_bytes()
        for place in np.linspace(0, len(good) - 1, 60).astype(int):
            path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
            with pytest.raises(InputError) as refused:
                load_bundle(tmp_path)
            assert str(refused.value).startswith(str(path))
        for changed in (good[:-1], good[: len(good) // 2], b"", good + b"\n", good + good):
            path.write_bytes(changed)
            with pytest.raises(InputError) as refused:
                load_bundle(tmp_path)
            assert str(refused.value).startswith(str(path))
        path.write_bytes(good)
    load_bundle(tmp_path)


def test_what_a_refusal_says(tmp_path: Path, features_of: Maker) -> None:
    save("gp_zero", features_of(12), tmp_path)
    path, arrays = tmp_path / MANIFEST, arrays_of(tmp_path)
    manifest, content = path.read_text(), arrays.read_bytes()
    path.write_text(manifest.replace('"rows": 12', '"rows": 13'))
    with pytest.raises(
        InputError, match=r"bundle\.json: expected a bundle's JSON as it was written, got other"
    ):
        load_bundle(tmp_path)
    # Without its seal the file does not pass for one of the format that had none.
    path.write_text("{\n" + manifest.split("\n", 1)[1])
    with pytest.raises(InputError, match="a checksum in its first line"):
        load_bundle(tmp_path)
    path.write_text(manifest)
    arrays.write_bytes(content[:-10])
    with pytest.raises(InputError, match=r"\.npz: expected arrays as they were written"):
        load_bundle(tmp_path)
    arrays.unlink()
    with pytest.raises(InputError, match=r"arrays-\w+\.npz: expected a file of a bundle, got no file"):
        load_bundle(tmp_path)
    path.write_text("{}")
    with pytest.raises(InputError, match="another file"):
        load_bundle(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"bundle\.json: expected a file of a bundle"):
        load_bundle(tmp_path)
    with pytest.raises(InputError, match="expected a folder with a bundle"):
        load_bundle(tmp_path / "nowhere")


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "linear"
    folder.mkdir()
    manifest = json.loads((VERSION_1 / "linear" / MANIFEST).read_text())
    for number in (0, 3, 99, "1", True, None):
        (folder / MANIFEST).write_text(json.dumps(manifest | {"format_version": number}))
        with pytest.raises(InputError, match="expected format version 1 or 2"):
            load_bundle(folder)


def test_a_bundle_is_replaced_whole(tmp_path: Path, features_of: Maker) -> None:
    save("gp_zero", features_of(12), tmp_path)
    before = arrays_of(tmp_path)
    save("gp_zero", features_of(15), tmp_path)
    assert not before.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [arrays_of(tmp_path).name, MANIFEST]
    assert load_bundle(tmp_path).training.rows == 15


def test_a_bundle_of_version_1_is_replaced_whole(tmp_path: Path, features_of: Maker) -> None:
    for path in (VERSION_1 / "linear").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "notes.txt").write_text("of the user's own")
    save("linear", features_of(15), tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [arrays_of(tmp_path).name, MANIFEST, "notes.txt"]


def test_an_interruption_leaves_the_earlier_bundle(
    tmp_path: Path, features_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    save("linear", features_of(12), tmp_path)
    replace = Path.replace

    def fails_at_the_manifest(self: Path, target: Path) -> Path:
        if target.name == MANIFEST:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fails_at_the_manifest)
    with pytest.raises(InputError, match=r"bundle\.json: expected a file that can be written, got No space"):
        save("linear", features_of(15), tmp_path)
    monkeypatch.undo()
    assert load_bundle(tmp_path).training.rows == 12
    assert not list(tmp_path.glob("*.part"))
    # What the interruption left over is in nobody's way.
    save("linear", features_of(15), tmp_path)
    assert load_bundle(tmp_path).training.rows == 15


def test_a_mean_of_the_users_own_is_imported_only_where_allowed(
    tmp_path: Path, features_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "own_bundle_mean.py"
    module.write_text(
        "from accelperf.models.means import register_mean\n"
        "@register_mean('own_bundle_mean')\n"
        "def own(inputs, ops):\n"
        "    return 0.5 + 0.0 * inputs['kernel_height']\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    features = features_of(15)
    fitted = save(
        "gp_analytic", features, tmp_path / "model", mean="own_bundle_mean", modules=["own_bundle_mean"]
    )
    with pytest.raises(InputError, match="allowed by name, got a mean function of module 'own_bundle_mean'"):
        load_bundle(tmp_path / "model")
    bundle = load_bundle(tmp_path / "model", modules=["own_bundle_mean"])
    np.testing.assert_allclose(
        bundle.predictor.predict(features).median_ms, fitted.predict(features).median_ms, rtol=EXACT_ALGEBRA
    )
