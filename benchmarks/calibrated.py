"""gp_calibrated: what each step brings under every scheme, how it fares elsewhere, and how it grows.

``python benchmarks/calibrated.py --data FOLDER`` takes the folder of the public cnn_accel logs (Chen &
Wu, FPGA 2023 poster; a folder a network), ``--features data/processed/features.csv`` a project's own
rows. Both print, unless ``--parts`` names some of these:

accuracy
    Every step under every scheme, with coverage, breakdown and a paired comparison.
held_out
    Accelerators and networks that stay out of training altogether, not of one fold alone.
rates
    What the calibrated rates say when the datasheets' clock and bandwidth are wrong.
loo
    A full leave-one-out, and its time.

``python benchmarks/calibrated.py --rows 50000`` shows the sparse process on SIMULATED layers, against
the exact one at 3000 rows.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from accelperf.evaluation.breakdown import breakdown, leak_warning
from accelperf.evaluation.cross_validation import evaluate
from accelperf.evaluation.paired import compare_paired
from accelperf.evaluation.reliability import reliability
from accelperf.features import FeatureMatrix, build_features, read_features
from accelperf.layers import output_size
from accelperf.logs import read_profiles
from accelperf.models.calibrated_predictor import CalibratedPredictor
from accelperf.models.calibrated_rates import layer_table, rate_table
from accelperf.models.catalog import create
from accelperf.platforms import Platform, read_platform, read_platforms
from accelperf.simulate.accelerator import noise_sigma, simulate_layer

PLATFORMS = Path(__file__).parents[1] / "data/platforms"
PARTS: tuple[str, ...] = ("accuracy", "held_out", "rates", "loo")
ROOFLINE, LAST = "calibrated roofline alone", "gp_calibrated"
STEPS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("standard method (paper)", "standard", {"variant": "paper"}),
    ("+ whole tiles", "standard", {"variant": "tiled"}),
    ("gp_analytic around whole tiles", "gp_analytic", {"mean": "tiled"}),
    ("+ of the ratio", "gp_analytic", {"mean": "tiled", "response": "ratio"}),
    ("gp_analytic around the roofline", "gp_analytic", {"mean": "calibrated"}),
    ("+ of the ratio", "gp_analytic", {"mean": "calibrated", "response": "ratio"}),
    (ROOFLINE, "gp_calibrated", {"residual_process": False}),
    (LAST, "gp_calibrated", {}),
)
SCHEMES: tuple[tuple[str, bool], ...] = (
    ("leave_one_network_out", False),
    ("leave_one_network_out", True),
    ("leave_one_accelerator_out", False),
    ("leave_one_shape_out", False),
)
FIGURES: tuple[str, ...] = (
    "mae_ms",
    "mape",
    "median_ape",
    "within_10pct",
    "network_total_mape",
    "coverage_95",
    "mean_interval_ms",
)
FEW_NETWORKS, DRAWS = 3, 8
"""Networks that stay in training when most are held out, and how often they are drawn."""


def read_public(folder: Path) -> FeatureMatrix:
    """Return the features of public cnn_accel logs, whose copy gets a run.yaml beside it."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "cnn_accel"
        shutil.copytree(folder, copy)
        found = {re.fullmatch(r"layer_latency_(m\d+p\d+)", path.stem) for path in copy.rglob("*.csv")}
        names = sorted({match[1] for match in found if match})
        if not names:
            raise SystemExit(f"error: {folder}: expected layer_latency_m*p*.csv in folders, got none")
        lines = ["origin: measured", "platforms:", *(f"  {name}: cnn-accel-{name}" for name in names)]
        (copy / "run.yaml").write_text("\n".join([*lines, "source: Chen & Wu, FPGA 2023 poster"]) + "\n")
        platforms = read_platforms(PLATFORMS)
        layers, _ = read_profiles(copy, platforms)
    return build_features(layers, platforms, None, origins=["measured"])


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
    warning = leak_warning(features, "loo")
    print(f"warning: {warning}\n" if warning else "")
    binding = layer_table(predictor, features)["binding"]
    for scheme, keep_twins in SCHEMES:
        rows, tables = [], {}
        for name, key, settings in STEPS:
            start = time.perf_counter()
            found = evaluate(create(key, settings), features, scheme, keep_twins=keep_twins)
            figures = {column: found.metrics.get(column, np.nan) for column in FIGURES}
            rows.append({"step": name} | figures | {"seconds": time.perf_counter() - start})
            tables[name] = found.predictions
        print(f"{scheme}{' (twins kept)' if keep_twins else ''}")
        print_table(pd.DataFrame(rows))
        print_table(reliability(tables[LAST]))
        print_table(breakdown(tables[LAST], binding))
        print_table(breakdown(tables[LAST], "network"))
        result = compare_paired(tables[LAST], tables[ROOFLINE], clusters=features.shapes)
        print(
            f"residual process: MAPE {100 * result.difference:+.2f} points, 95 % interval "
            f"{100 * result.lower:+.2f} to {100 * result.upper:+.2f} ({result.clusters} shapes)\n"
        )


Split = tuple[np.ndarray, np.ndarray]


def held_out_splits(features: FeatureMatrix) -> Iterator[tuple[str, list[Split]]]:
    """Yield what is trained on and what is tested, masks of shape [rows], by kind of split."""
    table, shapes = features.table, features.shapes
    accelerator, network = (table[name].to_numpy(dtype=str) for name in ("accelerator", "network"))
    accelerators, networks = np.unique(accelerator), np.unique(network)

    def unlike(out: np.ndarray) -> np.ndarray:
        return ~np.isin(shapes, shapes[out])

    yield (
        "one accelerator and one network out, twins too",
        [
            ((accelerator != a) & unlike(network == n), (accelerator == a) & (network == n))
            for a in accelerators
            for n in networks
        ],
    )
    yield "all accelerators but one out", [(accelerator == a, accelerator != a) for a in accelerators]
    generator = np.random.default_rng(0)
    few, few_on_one = [], []
    for _ in range(DRAWS):
        size = min(FEW_NETWORKS, len(networks) - 1)
        known = np.isin(network, generator.choice(networks, size, replace=False))
        tested = ~known & unlike(known)
        few.append((known, tested))
        few_on_one.append((known & (accelerator == generator.choice(accelerators)), tested))
    yield f"all networks but {FEW_NETWORKS} out, new shapes", few
    yield f"all networks but {FEW_NETWORKS} and all accelerators but one out, new shapes", few_on_one


def held_out(features: FeatureMatrix) -> None:
    """Print error and coverage where whole accelerators and networks take no part in training."""
    rows = []
    for name, splits in held_out_splits(features):
        errors, insides, widths, totals, totals_inside = [], [], [], [], []
        for train, test in splits:
            if not train.any() or not test.any():
                continue
            new = features.take(test)
            predictor = create("gp_calibrated", {}).fit(features.take(train))
            assert isinstance(predictor, CalibratedPredictor)
            found = predictor.predict(new)
            assert found.lower_ms is not None and found.upper_ms is not None
            errors.append(np.abs(found.median_ms / new.latency_ms - 1))
            insides.append((found.lower_ms <= new.latency_ms) & (new.latency_ms <= found.upper_ms))
            widths.append((found.upper_ms - found.lower_ms) / found.median_ms)
            keys = ["accelerator", "network"]
            total = predictor.predict_totals(new).set_index(keys)
            measured = new.table.groupby(keys)["latency_ms"].sum()
            totals.append(np.abs(total["median_ms"] / measured - 1))
            totals_inside.append((total["lower_ms"] <= measured) & (measured <= total["upper_ms"]))
        error, inside = np.concatenate(errors), np.concatenate(insides)
        rows.append(
            {
                "held out": name,
                "rows": len(error),
                "mape": error.mean(),
                "within_10pct": np.mean(error <= 0.1),
                "totals off by": np.concatenate(totals).mean(),
                "coverage_95": inside.mean(),
                "median relative width": np.median(np.concatenate(widths)),
                "totals": sum(len(part) for part in totals),
                "coverage_95 of totals": np.concatenate(totals_inside).mean(),
            }
        )
    print_table(pd.DataFrame(rows))


def rates(features: FeatureMatrix) -> None:
    """Print the calibrated rates, and how far they move when the datasheets are wrong."""
    table, found = features.table, {}
    for clock, bandwidth in ((1, 1), (0.5, 1), (2, 1), (1, 0.5), (1, 2), (0.5, 2), (2, 0.5)):
        wrong = table.assign(
            logic_clock_mhz=table["logic_clock_mhz"] * clock,
            memory_clock_mhz=table["memory_clock_mhz"] * bandwidth,
        )
        predictor = create("gp_calibrated", {}).fit(FeatureMatrix(wrong))
        assert isinstance(predictor, CalibratedPredictor)
        read = rate_table(predictor)
        if not found:
            print_table(read)
        read = read[read["accelerator"] == predictor.datasheets[0]["accelerator"]].set_index("quantity")
        found[f"clock x {clock:g}, bandwidth x {bandwidth:g}"] = read["value"]
    moved = pd.DataFrame(found).T
    print("moved by, when the datasheets say:")
    print_table((moved / moved.iloc[0] - 1).rename_axis("datasheets").reset_index())


def loo(features: FeatureMatrix) -> None:
    """Print the figures and the time of a full leave-one-out."""
    start = time.perf_counter()
    metrics = evaluate(create("gp_calibrated", {}), features, "loo").metrics
    print(f"loo of {len(features)} rows: {time.perf_counter() - start:.0f} s")
    print_table(pd.DataFrame([{column: metrics[column] for column in FIGURES}]))


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
    return FeatureMatrix(pd.DataFrame(records))


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of the public cnn_accel logs")
    parser.add_argument("--features", type=Path, help="features.csv to evaluate on")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to print; all")
    parser.add_argument("--rows", type=int, help="simulated rows for the sparse process")
    arguments = parser.parse_args()
    if not (arguments.data or arguments.features or arguments.rows):
        parser.error("nothing to do: --data FOLDER, --features FILE or --rows NUMBER")
    sources = [(read_public, arguments.data), (read_features, arguments.features)]
    functions = {"accuracy": accuracy, "held_out": held_out, "rates": rates, "loo": loo}
    for read, path in sources:
        if path:
            features = read(path)
            for part in arguments.parts:
                print(f"== {part} ==")
                functions[part](features)
    if arguments.rows:
        growth(arguments.rows)


if __name__ == "__main__":
    main()
