"""gp_calibrated: what each step brings under every scheme, how fast it is, and how it grows.

Run ``python benchmarks/calibrated.py --features data/processed/features.csv`` for the accuracy and
time on a project's own rows, and ``python benchmarks/calibrated.py --rows 50000`` for the sparse
process on SIMULATED layers, against the exact one at 3000 rows.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from accelperf.evaluation.breakdown import breakdown, leak_warning
from accelperf.evaluation.cross_validation import evaluate
from accelperf.evaluation.paired import compare_paired
from accelperf.evaluation.reliability import reliability
from accelperf.features import FEATURE_COLUMNS, FeatureMatrix, read_features
from accelperf.layers import output_size
from accelperf.models.calibrated_predictor import CalibratedPredictor
from accelperf.models.calibrated_rates import layer_table, rate_table
from accelperf.models.catalog import create
from accelperf.platforms import Platform, read_platform
from accelperf.simulate.accelerator import noise_sigma, simulate_layer

PLATFORMS = Path(__file__).parents[1] / "data/platforms"
STEPS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("standard method (paper)", "standard", {"variant": "paper"}),
    ("+ whole tiles", "standard", {"variant": "tiled"}),
    ("+ calibrated roofline", "gp_calibrated", {"residual_process": False}),
    ("+ residual process", "gp_calibrated", {}),
)
SCHEMES: tuple[tuple[str, bool], ...] = (
    ("leave_one_network_out", False),
    ("leave_one_network_out", True),
    ("leave_one_accelerator_out", False),
    ("leave_one_shape_out", False),
)


def print_table(table: pd.DataFrame) -> None:
    """Print a table with four decimals, and an empty line."""
    print(table.to_string(index=False, float_format=lambda value: f"{value:.4f}"), "\n")


def accuracy(features: FeatureMatrix) -> None:
    """Print the figures of each step under each scheme, and what the last one says in detail."""
    start = time.perf_counter()
    predictor = create("gp_calibrated", {}).fit(features)
    assert isinstance(predictor, CalibratedPredictor)
    print(f"fit to {len(features)} rows: {time.perf_counter() - start:.1f} s")
    print(f"structure: {predictor.structure}\n")
    print_table(rate_table(predictor))
    warning = leak_warning(features, "loo")
    print(f"warning: {warning}\n" if warning else "")
    binding = layer_table(predictor, features)["binding"]
    for scheme, keep_twins in SCHEMES:
        rows, tables = [], []
        for name, key, settings in STEPS:
            start = time.perf_counter()
            found = evaluate(create(key, settings), features, scheme, keep_twins=keep_twins)
            columns = ("mae_ms", "mape", "median_ape", "within_10pct", "network_total_mape", "coverage_95")
            figures = {column: found.metrics.get(column, np.nan) for column in columns}
            figures["mean_interval_ms"] = found.metrics.get("mean_interval_ms", np.nan)
            rows.append({"step": name} | figures | {"seconds": time.perf_counter() - start})
            tables.append(found.predictions)
        print(f"{scheme}{' (twins kept)' if keep_twins else ''}")
        print_table(pd.DataFrame(rows))
        print_table(reliability(tables[-1]))
        print_table(breakdown(tables[-1], binding))
        print_table(breakdown(tables[-1], "network"))
        result = compare_paired(tables[3], tables[2], clusters=features.shapes)
        print(
            f"residual process: MAPE {100 * result.difference:+.2f} points, 95 % interval "
            f"{100 * result.lower:+.2f} to {100 * result.upper:+.2f} ({result.clusters} shapes)\n"
        )


def simulated(rows: int, seed: int) -> FeatureMatrix:
    """Return random layers whose latency the tile-level simulator gave: SIMULATED."""
    generator = np.random.default_rng(seed)
    platforms: list[Platform] = [read_platform(PLATFORMS / f"{name}.yaml") for name in ("sim-table4",)]
    records = []
    for index in range(rows):
        platform = platforms[index % len(platforms)]
        kernel, stride = int(generator.choice([1, 3, 5, 7])), int(generator.choice([1, 2], p=[0.8, 0.2]))
        size, pad = int(generator.integers(7, 113)), kernel // 2
        geometry = {
            "input_height": size, "input_width": size,
            "input_channels": int(generator.integers(3, 513)),
            "output_channels": int(generator.integers(8, 513)),
            "kernel_height": kernel, "kernel_width": kernel,
            "stride_height": stride, "stride_width": stride,
            "pad_top": pad, "pad_bottom": pad, "pad_left": pad, "pad_right": pad,
            "dilation_height": 1, "dilation_width": 1, "groups": 1,
            "output_height": output_size(size, kernel, stride, pad, pad),
            "output_width": output_size(size, kernel, stride, pad, pad),
        }  # fmt: skip
        layer = simulate_layer(geometry, platform, 0.7)
        noise = noise_sigma(layer.memory_bound_share) * generator.normal()
        records.append(
            {name: value for name, value in geometry.items() if not name.startswith("dilation")}
            | {
                "accelerator": platform.name,
                "network": f"network{index * 10 // rows}",
                "layer": f"conv{index}",
                "position": index,
                "is_first": 0,
                "is_last": 0,
                "filter_parallelism": platform.filter_parallelism,
                "channel_parallelism": platform.channel_parallelism,
                "logic_clock_mhz": float(platform.logic_clock_mhz),
                "memory_clock_mhz": float(platform.memory_clock_mhz),
                "memory_efficiency": 0.7,
                "transfer_width_bits": platform.transfer_width_bits,
                "data_width_bits": platform.data_width_bits,
                "memory_ports": platform.ports,
                "unrolled_loop": platform.unrolled_loop,
                "origin": "simulated",
                "latency_ms": layer.latency_ms * np.exp(noise),
            }
        )
    return FeatureMatrix(pd.DataFrame(records)[list(FEATURE_COLUMNS)])


def growth(rows: int) -> None:
    """Print time, memory and error of the sparse process, and its error against the exact one."""
    test = simulated(1000, seed=1)
    small = simulated(3000, seed=0)
    for name, features, settings in (
        ("exact, 3000 rows", small, {"max_exact_layers": 3000}),
        ("sparse, 3000 rows", small, {}),
        (f"sparse, {rows} rows", simulated(rows, seed=0), {}),
    ):
        start = time.perf_counter()
        median = create("gp_calibrated", settings).fit(features).predict(test).median_ms
        seconds = time.perf_counter() - start
        mape = np.mean(np.abs(median / test.latency_ms - 1))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"SIMULATED {name}: {seconds:.1f} s, MAPE {100 * mape:.2f} %, peak so far {peak:.2f} GB")


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=Path, help="features.csv to evaluate on")
    parser.add_argument("--rows", type=int, help="simulated rows for the sparse process")
    arguments = parser.parse_args()
    if arguments.features:
        accuracy(read_features(arguments.features))
    if arguments.rows:
        growth(arguments.rows)
    if not (arguments.features or arguments.rows):
        parser.error("nothing to do: --features FILE, --rows NUMBER, or both")


if __name__ == "__main__":
    main()
