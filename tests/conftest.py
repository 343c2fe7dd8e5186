"""Data that several tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from accelperf.features import FEATURE_COLUMNS, FeatureMatrix
from accelperf.layers import output_size

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of public measurements, where it has been fetched."""
    folder = os.environ.get("ACCELPERF_REAL_DATA")
    if not folder:
        pytest.skip("ACCELPERF_REAL_DATA does not name a folder with the public measurements")
    return Path(folder)


def make_features(rows: int, seed: int = 0, *, noise: float = 0.05) -> FeatureMatrix:
    """Return random layers on two accelerators whose latency is a bent analytic model plus noise."""
    from accelperf.analytic import latency_ms

    generator = np.random.default_rng(seed)
    kernel = generator.choice([1, 3, 5], rows)
    stride = generator.choice([1, 2], rows, p=[0.8, 0.2])
    size = generator.choice([7, 14, 28, 56], rows)
    channels = generator.choice([16, 64, 96, 256], rows)
    filters = generator.choice([32, 64, 100, 384], rows)
    pad = kernel // 2
    out = np.array([output_size(*values) for values in zip(size, kernel, stride, pad, pad, strict=True)])
    second = np.arange(rows) % 2
    networks = np.array(["alpha", "beta", "gamma"])[np.arange(rows) * 3 // rows]
    table = pd.DataFrame(
        {
            "accelerator": np.where(second, "slow", "fast"),
            "network": networks,
            "layer": [f"conv{index}" for index in range(rows)],
            "position": np.arange(rows),
            "is_first": 0,
            "is_last": 0,
            "kernel_height": kernel,
            "kernel_width": kernel,
            "input_height": size,
            "input_width": size,
            "input_channels": channels,
            "output_height": out,
            "output_width": out,
            "output_channels": filters,
            "filter_parallelism": np.where(second, 16, 64),
            "channel_parallelism": 32,
            "logic_clock_mhz": np.where(second, 100.0, 200.0),
            "memory_clock_mhz": 200.0,
            "memory_efficiency": np.where(second, 0.5, 0.7),
            "transfer_width_bits": 64,
            "data_width_bits": 8,
            "stride_height": stride,
            "stride_width": stride,
            "pad_top": pad,
            "pad_bottom": pad,
            "pad_left": pad,
            "pad_right": pad,
            "groups": 1,
            "memory_ports": 4,
            "unrolled_loop": "channels",
            "origin": "simulated",
            "latency_ms": 1.0,
            "latency_std_ms": np.nan,
            "repeats": 1,
        }
    )
    matrix = FeatureMatrix(table[list(FEATURE_COLUMNS)])
    formula = latency_ms(matrix.latency_inputs(), "tiled")
    bent = formula * (1.1 + 0.3 * np.tanh(channels / 100.0)) + 0.01
    table["latency_ms"] = bent * np.exp(noise * generator.normal(size=rows))
    return FeatureMatrix(table[list(FEATURE_COLUMNS)])


@pytest.fixture(scope="session")
def features_of() -> Callable[..., FeatureMatrix]:
    """Return the function that makes random features."""
    return make_features


def copy_cnn_accel(real_data: Path, target: Path) -> Path:
    """Copy the public cnn_accel logs to a folder and put their run.yaml beside them."""
    folder = target / "cnn_accel"
    for source in sorted((real_data / "cnn_accel").rglob("*.csv")):
        copy = folder / source.relative_to(real_data / "cnn_accel")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    (folder / "run.yaml").write_text(
        "origin: measured\n"
        "platforms:\n"
        "  m32p32: cnn-accel-m32p32\n"
        "  m32p64: cnn-accel-m32p64\n"
        "  m64p64: cnn-accel-m64p64\n"
        "source: Chen & Wu, FPGA 2023 poster, public repository\n"
    )
    return folder
