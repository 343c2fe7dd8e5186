"""Public measurements: an accelerator that the estimator has never seen, from two that it has."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import spearmanr

from accelperf.bundle import load_bundle, save_bundle
from accelperf.features import FeatureMatrix, build_features
from accelperf.logs import read_profiles
from accelperf.models.catalog import create
from accelperf.networks import NETWORK_COLUMNS
from accelperf.platforms import Platform, read_platforms
from accelperf.predict import Model, NetworkPrediction, predict_network
from tests.conftest import ROOT, copy_cnn_accel

WITHIN = 0.03
"""Relative: a network's total against the sum of its measured layers."""
RANKED = 0.98


@pytest.fixture(scope="module")
def measured(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, FeatureMatrix]:
    logs = copy_cnn_accel(real_data, tmp_path_factory.mktemp("logs"))
    layers, _ = read_profiles(logs, platforms())
    return layers, build_features(layers, platforms(), None, origins=["measured"])


def platforms() -> dict[str, Platform]:
    return read_platforms(ROOT / "data/platforms")


def predict_unseen(
    measured: tuple[pd.DataFrame, FeatureMatrix], name: str, folder: Path
) -> list[tuple[pd.DataFrame, NetworkPrediction]]:
    """Return the measured layers and the prediction of each network on an accelerator left out."""
    layers, features = measured
    seen = features.take((features.table["accelerator"] != name).to_numpy())
    assert set(seen.table["accelerator"]) == {each for each in layers["accelerator"].unique() if each != name}
    save_bundle(
        create("gp_calibrated", {}).fit(seen), folder, estimator="gp_calibrated", settings={}, features=seen,
        features_md5="0" * 32, metrics={},
    )  # fmt: skip
    model = Model.of(load_bundle(folder), folder.as_posix())
    found = []
    for network, rows in layers[layers["accelerator"] == name].groupby("network"):
        ordered = rows.sort_values("position")
        table = ordered[list(NETWORK_COLUMNS)].reset_index(drop=True)
        found.append((ordered, predict_network(str(network), table, platforms()[name], model)))
    return found


@pytest.fixture(scope="module")
def unseen(
    measured: tuple[pd.DataFrame, FeatureMatrix], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[tuple[pd.DataFrame, NetworkPrediction]]]:
    """Return measured layers and predictions by the accelerator that was left out."""
    names = ["cnn-accel-m32p32", "cnn-accel-m32p64", "cnn-accel-m64p64"]
    return {name: predict_unseen(measured, name, tmp_path_factory.mktemp(name)) for name in names}


Unseen = dict[str, list[tuple[pd.DataFrame, NetworkPrediction]]]


def test_layers_of_an_accelerator_never_seen_are_ranked(unseen: Unseen) -> None:
    for name, found in unseen.items():
        assert len(found) == 8
        latency = pd.concat([rows["latency_ms"] for rows, _ in found], ignore_index=True)
        predicted = pd.concat([each.layers["latency_ms"] for _, each in found], ignore_index=True)
        assert len(latency) == 149
        assert spearmanr(latency, predicted).statistic >= RANKED, name


def test_totals_of_an_accelerator_never_seen(unseen: Unseen) -> None:
    """On m64p64 alone some layers wait for their weights, at rates that the other two cannot tell.

    They are those of selecsls42b that it shares with no other network.
    """
    beyond = {
        (name, each.network)
        for name, found in unseen.items()
        for rows, each in found
        if each.total.median_ms != pytest.approx(rows["latency_ms"].sum(), rel=WITHIN)
    }
    assert beyond <= {("cnn-accel-m64p64", "selecsls42b")}


def test_totals_lie_in_their_intervals(unseen: Unseen) -> None:
    inside = []
    for rows, each in (pair for found in unseen.values() for pair in found):
        assert not each.partial and not each.model.simulated
        assert each.total.lower_ms is not None and each.total.upper_ms is not None
        inside.append(each.total.lower_ms <= rows["latency_ms"].sum() <= each.total.upper_ms)
    # 95 % of 24 are 22.8.
    assert sum(inside) >= 22
