import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accelperf.bundle import ARRAYS, MANIFEST, load_bundle, save_bundle
from accelperf.errors import InputError
from accelperf.features import FeatureMatrix
from accelperf.models.catalog import ESTIMATORS, create
from tests.tolerances import EXACT_ALGEBRA

Maker = Callable[..., FeatureMatrix]

SETTINGS: dict[str, dict[str, object]] = {
    "xgboost": {"n_estimators": 10},
    "gp_zero": {"mean": "zero", "restarts": 0, "kernel": "rbf*linear", "steps": 30},
    "gp_analytic": {"mean": "paper", "restarts": 0, "steps": 30},
}


def save(key: str, features: FeatureMatrix, folder: Path) -> object:
    settings = SETTINGS.get(key, {})
    fitted = create(key, settings).fit(features)
    save_bundle(
        fitted, folder, estimator=key, settings=settings, features=features, features_md5="0" * 32,
        metrics={"loo": {"mae_ms": 0.5}},
    )  # fmt: skip
    return fitted


@pytest.mark.parametrize("key", ESTIMATORS)
def test_what_is_loaded_predicts_what_was_saved(key: str, tmp_path: Path, features_of: Maker) -> None:
    features, new = features_of(30), features_of(12, seed=5)
    fitted = save(key, features, tmp_path)
    bundle = load_bundle(tmp_path)
    ours, theirs = bundle.predictor.predict(new), fitted.predict(new)  # type: ignore[attr-defined]
    np.testing.assert_allclose(ours.median_ms, theirs.median_ms, rtol=EXACT_ALGEBRA)
    if theirs.has_uncertainty:
        np.testing.assert_allclose(ours.std_ms, theirs.std_ms, rtol=EXACT_ALGEBRA)
    assert bundle.manifest["estimator"] == key
    assert bundle.manifest["training"]["rows"] == 30
    low, high = bundle.manifest["training"]["range"]["output_channels"]
    assert (low, high) == (features.parameters[:, 7].min(), features.parameters[:, 7].max())


def test_noise_at_its_floor_survives(tmp_path: Path, features_of: Maker) -> None:
    features = features_of(25, noise=0.0)
    exact = create("standard", {}).fit(features).predict(features).median_ms
    features = FeatureMatrix(features.table.assign(latency_ms=1.2 * exact))
    fitted = save("gp_analytic", features, tmp_path)
    loaded = load_bundle(tmp_path).predictor.predict(features)
    expected = fitted.predict(features)  # type: ignore[attr-defined]
    np.testing.assert_allclose(loaded.std_ms, expected.std_ms, rtol=EXACT_ALGEBRA)


def test_damage_is_refused(tmp_path: Path, features_of: Maker) -> None:
    save("gp_zero", features_of(20), tmp_path)
    arrays, manifest = tmp_path / ARRAYS, tmp_path / MANIFEST
    good, text = arrays.read_bytes(), manifest.read_text()
    arrays.write_bytes(good[:-10])
    with pytest.raises(InputError, match=r"arrays\.npz: expected arrays as they were written"):
        load_bundle(tmp_path)
    arrays.write_bytes(good)
    manifest.write_text(text[: len(text) // 2])
    with pytest.raises(InputError, match=r"bundle\.json: expected a bundle's JSON"):
        load_bundle(tmp_path)
    manifest.write_text(json.dumps(json.loads(text) | {"format_version": 99}))
    with pytest.raises(InputError, match="expected format version 1, got 99"):
        load_bundle(tmp_path)
    manifest.write_text("{}")
    with pytest.raises(InputError, match="another file"):
        load_bundle(tmp_path)
    manifest.unlink()
    with pytest.raises(InputError, match=r"bundle with bundle\.json and arrays\.npz"):
        load_bundle(tmp_path)
