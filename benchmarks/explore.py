"""accelperf explore: its speed with each kind of estimator, and how well it foresees SIMULATED designs.

Run ``python benchmarks/explore.py --models models/gp_analytic models/gp_calibrated``. Each estimator is
asked for 1000 platforms x ResNet-50, for its next measurements, and for some of the platforms one at a
time with every layer in place. Then it is held against the tile-level simulator on 96 other designs.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from accelperf.explore import explore
from accelperf.explore.axes import parse_axes
from accelperf.explore.designs import make_designs
from accelperf.explore.fronts import front_numbers
from accelperf.explore.progress import DesignProgress
from accelperf.explore.workload import make_workload
from accelperf.features import network_features
from accelperf.networks import read_network
from accelperf.platforms import read_platform
from accelperf.predict import Model, find_model
from accelperf.simulate.profile import simulate_profile

DATA = Path(__file__).parents[1] / "data"
AXES = [
    "filter_parallelism=16:160:16",
    "channel_parallelism=16:160:16",
    "logic_clock_mhz=150,200,250,300,350",
    "memory_efficiency=0.6,0.8",
]
"""10 x 10 x 5 x 2 = 1000 platforms."""
FEW_AXES = [
    "filter_parallelism=16:128:x2",
    "channel_parallelism=16:128:16",
    "logic_clock_mhz=150,200,250",
]
"""Designs that the simulator runs too."""
ONE_BY_ONE = 20
"""Platforms that are also predicted one at a time."""


def benchmark(model: Model, next_count: int) -> None:
    """Print the times of one estimator."""
    base = read_platform(DATA / "platforms/sim-table4.yaml")
    network = read_network(DATA / "networks/resnet50.csv")
    workload = make_workload({"resnet50": network}, base, model.predictor)
    start = time.perf_counter()
    designs = make_designs(base, parse_axes(AXES), None, workload.layers["input_width"].tolist())
    made = time.perf_counter() - start
    start = time.perf_counter()
    with DesignProgress(model.estimator) as progress:
        found = explore(designs, workload, model, progress=progress)
    predicted = time.perf_counter() - start
    start = time.perf_counter()
    for platform in designs.platforms[:ONE_BY_ONE]:
        model.predictor.predict(network_features("resnet50", network, platform))
    single = (time.perf_counter() - start) / ONE_BY_ONE
    print(
        f"{model.estimator}: {len(designs)} platforms x {workload.counts.sum()} convolutions "
        f"({len(workload)} distinct): designs {made:.2f} s, exploration {predicted:.2f} s, "
        f"{single * len(designs) / predicted:.0f} times as fast as one platform after another; "
        f"{np.sum(found.table['front'] == 1)} on the front"
    )
    if next_count and found.has_uncertainty:
        start = time.perf_counter()
        explore(designs, workload, model, next_count=next_count)
        extra = time.perf_counter() - start - predicted
        print(f"  {next_count} next measurements: {extra:.2f} s more")


def accuracy(model: Model) -> None:
    """Print how well an estimator foresees designs that the tile-level simulator runs: SIMULATED."""
    base = read_platform(DATA / "platforms/sim-table4.yaml")
    network = read_network(DATA / "networks/resnet50.csv")
    workload = make_workload({"resnet50": network}, base, model.predictor)
    designs = make_designs(base, parse_axes(FEW_AXES), None, workload.layers["input_width"].tolist())
    table = explore(designs, workload, model).table
    efficiency = float(designs.efficiency[0, 0])
    simulated = {
        platform.name: simulate_profile(network, platform, efficiency, seed=1)["latency_ms"].sum()
        for platform in designs.platforms
    }
    latency = table["design"].map(simulated).to_numpy(dtype=float)
    predicted = table["latency_ms"].to_numpy()
    front = front_numbers(latency, table["dsp"].to_numpy(dtype=float)) == 1
    found = (table["front"] == 1).to_numpy()
    within = (latency >= table["lower_ms"]) & (latency <= table["upper_ms"])
    coverage = f"{100 * within.mean():.0f} % in their 95 % interval"
    print(
        f"  SIMULATED, {len(table)} designs: MAPE {100 * np.mean(np.abs(predicted / latency - 1)):.1f} %, "
        f"{coverage if table['std_ms'].notna().all() else 'no intervals'}; "
        f"{np.sum(front & found)} of the {front.sum()} on the front found, {np.sum(found & ~front)} wrong"
    )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="bundles")
    parser.add_argument("--next", type=int, default=10, help="measurements to propose")
    arguments = parser.parse_args()
    for folder in arguments.models:
        model = find_model(str(folder))
        benchmark(model, arguments.next)
        accuracy(model)


if __name__ == "__main__":
    main()
