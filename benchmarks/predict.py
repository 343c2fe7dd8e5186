"""How fast predictions are: the command from start to end, and 100 000 layers at once.

Run ``python benchmarks/predict.py``; all layers are SIMULATED. The command runs in processes of its own,
with an estimator trained on ``--rows`` layers; beside it stands what starting Python with pandas alone
takes. Many layers are predicted by each of ``--estimators``, all distinct and then from 500 distinct
ones, as networks repeat them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from accelperf.bundle import load_bundle, save_bundle
from accelperf.features import FeatureMatrix, network_features
from accelperf.layers import output_size
from accelperf.models.catalog import create
from accelperf.networks import NETWORK_COLUMNS
from accelperf.platforms import read_platform
from accelperf.predict import Model, predict_network
from accelperf.simulate.accelerator import noise_sigma, simulate_layer

ROOT = Path(__file__).parents[1]
PLATFORM = ROOT / "data/platforms/sim-table4.yaml"
DISTINCT_IN_NETWORKS = 500


def random_network(rows: int, seed: int, distinct: int | None = None) -> pd.DataFrame:
    """Return random convolutions as a network table, all different or a few over and over."""
    generator = np.random.default_rng(seed)
    count = distinct or rows
    kernel = generator.choice([1, 3, 5, 7], count)
    stride = generator.choice([1, 2], count)
    size = generator.integers(7, 225, count)
    out = [output_size(*each) for each in zip(size, kernel, stride, kernel // 2, kernel // 2, strict=True)]
    table = pd.DataFrame(
        {
            **dict.fromkeys(NETWORK_COLUMNS, 1),
            "operator": "conv",
            "input_height": size,
            "input_width": size,
            "input_channels": generator.integers(1, 1025, count),
            "output_height": out,
            "output_width": out,
            "output_channels": generator.integers(1, 1025, count),
            "kernel_height": kernel,
            "kernel_width": kernel,
            "stride_height": stride,
            "stride_width": stride,
            **dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), kernel // 2),
        }
    )
    if distinct is not None:
        table = table.iloc[generator.integers(0, count, rows)].reset_index(drop=True)
    return table.assign(layer=[f"layer{row}" for row in range(rows)])[list(NETWORK_COLUMNS)]


def training_rows(rows: int) -> FeatureMatrix:
    """Return SIMULATED layers with latencies."""
    platform = read_platform(PLATFORM)
    features = network_features("random", random_network(rows, seed=1), platform)
    generator = np.random.default_rng(2)
    latencies = []
    for row in features.table.to_dict("records"):
        geometry = {str(name): value for name, value in row.items()}
        geometry |= {"dilation_height": 1, "dilation_width": 1}
        simulated = simulate_layer(geometry, platform, float(row["memory_efficiency"]))
        latencies.append(
            simulated.latency_ms * np.exp(noise_sigma(simulated.memory_bound_share) * generator.normal())
        )
    return FeatureMatrix(features.table.assign(latency_ms=latencies, origin="simulated"))


def best_seconds(run: Callable[[], Any], repeats: int) -> float:
    """Return the least time of some runs [s]: others on the machine only add to it."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def command(folder: Path, repeats: int) -> None:
    """Print how long the command takes, start-up included."""
    words = ["predict", "resnet50", "--platform", "sim-table4", "--model", str(folder)]
    ours = best_seconds(
        lambda: subprocess.run(
            [sys.executable, "-m", "accelperf", *words], cwd=ROOT, check=True, capture_output=True
        ),
        repeats,
    )
    pandas = best_seconds(
        lambda: subprocess.run([sys.executable, "-c", "import pandas"], check=True, capture_output=True),
        repeats,
    )
    print(f"accelperf {' '.join(words[:4])}: {ours:.2f} s; python -c 'import pandas': {pandas:.2f} s")


def many(folder: Path, layers: int, repeats: int) -> None:
    """Print how long many layers take."""
    model = Model.of(load_bundle(folder), str(folder))
    platform = read_platform(PLATFORM)
    for text, distinct in (("distinct", None), (f"of {DISTINCT_IN_NETWORKS} kinds", DISTINCT_IN_NETWORKS)):
        network = random_network(layers, seed=3, distinct=distinct)
        taken = best_seconds(lambda table=network: predict_network("n", table, platform, model), repeats)
        print(f"{model.estimator}: {layers} layers, {text}: {taken:.2f} s")


def main() -> None:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=450, help="training rows")
    parser.add_argument("--layers", type=int, default=100_000, help="layers to predict at once")
    parser.add_argument("--estimators", nargs="+", default=["gp_calibrated", "gp_analytic", "xgboost"])
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, of which the fastest counts")
    options = parser.parse_args()
    features = training_rows(options.rows)
    with tempfile.TemporaryDirectory() as name:
        for place, key in enumerate(options.estimators):
            folder = Path(name) / key
            settings = {"mean": "tiled", "restarts": 0} if key == "gp_analytic" else {}
            save_bundle(
                create(key, settings).fit(features),
                folder,
                estimator=key,
                settings=settings,
                features=features,
                features_md5="0" * 32,
                metrics={},
            )
            if place == 0:
                command(folder, options.repeats)
            many(folder, options.layers, options.repeats)


if __name__ == "__main__":
    main()
