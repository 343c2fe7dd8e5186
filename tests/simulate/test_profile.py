"""Simulated profiles: the sample logs, their statistics, and what is written."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.analytic import latency_ms
from accelperf.errors import InputError
from accelperf.layers import GEOMETRY_COLUMNS
from accelperf.networks import NETWORK_COLUMNS, read_network
from accelperf.platforms import read_platforms
from accelperf.simulate.accelerator import AcceleratorTiming, noise_sigma, simulate_layer
from accelperf.simulate.profile import PROFILE_COLUMNS, simulate_profile, write_profile

DATA = Path(__file__).parents[2] / "data"
PROFILES = DATA / "raw" / "profiles"
PLATFORMS = read_platforms(DATA / "platforms")
NETWORKS = {
    name: read_network(DATA / "networks" / f"{name}.csv") for name in ("resnet50", "yolov3", "ssd300")
}
SAMPLE_SEED = 2020


def sample_hbm_efficiency() -> float:
    """Return what the sample Shuhai log with sim-hbm's access pattern says, over the channel's peak."""
    log = (DATA / "raw" / "memory" / "sample-u280" / "hbm_b64_s64" / "shuhai.log").read_text(encoding="utf-8")
    (speed,) = re.findall(r"^The chennel 0, rd_speed: (\S+) GB/s$", log, flags=re.MULTILINE)
    return float(speed) / PLATFORMS["sim-hbm"].memory_peak_gbps


SAMPLE_EFFICIENCY = {"sim-table4": 0.7, "sim-hbm": sample_hbm_efficiency()}

ATOL_NS = 1e-6
"""Latencies are rounded to nanoseconds [ms]."""


@pytest.fixture(scope="module")
def sample() -> pd.DataFrame:
    """Return the sample logs of both platforms, with the `tiled` formula and the share of waiting."""
    parts = []
    for name, memory_efficiency in SAMPLE_EFFICIENCY.items():
        platform = PLATFORMS[name]
        for network in NETWORKS:
            part = pd.read_csv(PROFILES / name / f"{network}.csv", comment="#")
            position = np.arange(len(part))
            first, last = position == 0, position == len(part) - 1
            inputs = {column: part[column].to_numpy(float) for column in GEOMETRY_COLUMNS}
            inputs |= {
                column: np.float64(getattr(platform, column))
                for column in (
                    "filter_parallelism",
                    "channel_parallelism",
                    "logic_clock_mhz",
                    "memory_clock_mhz",
                    "transfer_width_bits",
                    "data_width_bits",
                )
            }
            inputs |= {
                "memory_efficiency": np.float64(memory_efficiency),
                "memory_ports": np.float64(platform.ports),
                "unrolls_pixels": np.float64(0),
                "is_first": first.astype(float),
                "is_last": last.astype(float),
            }
            layers = [
                simulate_layer(row, platform, memory_efficiency, is_first=first[i], is_last=last[i])
                for i, row in enumerate(part.to_dict("records"))
            ]
            share = [layer.memory_bound_share for layer in layers]
            noise_free = [layer.latency_ms for layer in layers]
            formula = latency_ms(inputs, "tiled")
            parts.append(part.assign(platform=name, tiled_ms=formula, share=share, noise_free_ms=noise_free))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", SAMPLE_EFFICIENCY)
def test_sample_logs_are_what_the_simulator_writes(name: str, network: str, tmp_path: Path) -> None:
    platform, efficiency = PLATFORMS[name], SAMPLE_EFFICIENCY[name]
    profile = simulate_profile(NETWORKS[network], platform, efficiency, seed=SAMPLE_SEED)
    path = write_profile(
        profile,
        tmp_path,
        network=network,
        platform=platform,
        memory_efficiency=efficiency,
        seed=SAMPLE_SEED,
    )
    assert path == tmp_path / f"{network}.csv"
    assert path.read_bytes() == (PROFILES / name / f"{network}.csv").read_bytes()
    assert (tmp_path / "run.yaml").read_bytes() == (PROFILES / name / "run.yaml").read_bytes()


def test_every_sample_file_says_simulated() -> None:
    files = [path for path in PROFILES.rglob("*") if path.is_file()]
    assert len(files) == 2 * (len(NETWORKS) + 1)
    for path in files:
        assert "SIMULATED" in path.read_text(encoding="utf-8").splitlines()[0], path


def test_sample_is_of_the_order_of_table_3_of_the_paper(sample: pd.DataFrame) -> None:
    # The authors' 156 private rows: 0.018, 0.841 and 11.727 ms.
    latency = sample.loc[sample["platform"] == "sim-table4", "latency_ms"]
    assert len(latency) == 53 + 75 + 23
    factor = 2.0
    for value, published in [(latency.min(), 0.018), (latency.mean(), 0.841), (latency.max(), 11.727)]:
        assert published / factor < value < published * factor


def test_tiled_formula_is_optimistic_and_memory_binds_where_it_is_meant_to(sample: pd.DataFrame) -> None:
    for name, part in sample.groupby("platform"):
        assert (part["tiled_ms"] <= part["latency_ms"]).mean() >= 0.95, name
    bound = (sample["share"] > 0.5).groupby(sample["platform"]).mean()
    assert bound["sim-hbm"] > 0.5
    assert bound["sim-table4"] < 0.1


def test_noise_of_the_sample_is_as_large_as_it_says(sample: pd.DataFrame) -> None:
    log_ratio = np.log(sample["latency_ms"] / sample["noise_free_ms"])
    normal = log_ratio / [noise_sigma(share) for share in sample["share"]]
    # 302 standard normal numbers: mean within 4 standard errors, spread within 20 %.
    assert abs(normal.mean()) < 4 / np.sqrt(len(normal))
    assert normal.std() == pytest.approx(1.0, rel=0.2)


def test_rows_other_than_convolutions_are_left_out() -> None:
    network = NETWORKS["ssd300"].head(3)
    pool = network.tail(1).assign(layer="pool1", operator="maxpool")
    mixed = pd.concat([pool, network, pool.assign(layer="pool2")], ignore_index=True)
    profile = simulate_profile(mixed, PLATFORMS["sim-table4"], 0.7, seed=1)
    pd.testing.assert_frame_equal(profile, simulate_profile(network, PLATFORMS["sim-table4"], 0.7, seed=1))
    assert list(profile.columns) == [*NETWORK_COLUMNS, "latency_ms"]


def test_without_noise_a_profile_is_the_layers() -> None:
    platform = PLATFORMS["cnn-accel-m32p64"]
    network = NETWORKS["ssd300"]
    quiet = AcceleratorTiming(noise_sigma=0.0, memory_noise_sigma=0.0)
    profile = simulate_profile(network, platform, 1.0, seed=3, timing=quiet)
    last = len(network) - 1
    expected = [
        simulate_layer(row, platform, 1.0, is_first=i == 0, is_last=i == last, timing=quiet).latency_ms
        for i, row in enumerate(network.to_dict("records"))
    ]
    np.testing.assert_allclose(profile["latency_ms"], expected, rtol=0, atol=ATOL_NS)


@settings(deadline=None)
@given(seed=st.integers(0, 2**64))
def test_seed_decides(seed: int) -> None:
    network, platform = NETWORKS["ssd300"].head(4), PLATFORMS["sim-hbm"]
    before = network.copy()
    one = simulate_profile(network, platform, 0.9, seed=seed)
    pd.testing.assert_frame_equal(one, simulate_profile(network, platform, 0.9, seed=seed))
    other = simulate_profile(network, platform, 0.9, seed=seed + 1)
    assert not np.array_equal(one["latency_ms"], other["latency_ms"])
    pd.testing.assert_frame_equal(network, before)


def test_platforms_and_networks_of_one_seed_do_not_share_their_noise() -> None:
    platform = PLATFORMS["sim-hbm"]
    twin = platform.model_copy(update={"name": "twin"})
    network = NETWORKS["yolov3"]
    whole = simulate_profile(network, platform, 0.9, seed=1)["latency_ms"]
    assert not np.array_equal(whole, simulate_profile(network, twin, 0.9, seed=1)["latency_ms"])
    part = simulate_profile(network.head(40), platform, 0.9, seed=1)["latency_ms"]
    assert not np.array_equal(whole[:39], part[:39])


def test_what_is_written(tmp_path: Path) -> None:
    platform = PLATFORMS["sim-hbm"]
    profile = simulate_profile(NETWORKS["ssd300"], platform, 0.9, seed=7)
    path = write_profile(
        profile, tmp_path / "new", network="ssd300", platform=platform, memory_efficiency=0.9, seed=7
    )
    comment = path.read_text(encoding="utf-8").splitlines()[0]
    assert comment.startswith("# SIMULATED, not measured")
    assert "platform sim-hbm, memory efficiency 0.9, seed 7" in comment
    table = pd.read_csv(path, comment="#")
    assert list(table.columns) == list(PROFILE_COLUMNS)
    assert set(table["network"]) == {"ssd300"}
    np.testing.assert_allclose(table["latency_ms"], profile["latency_ms"], rtol=0, atol=ATOL_NS)
    run = yaml.safe_load((path.parent / "run.yaml").read_text(encoding="utf-8"))
    assert run.keys() == {"origin", "platform", "source"}
    assert (run["origin"], run["platform"]) == ("simulated", "sim-hbm")
    assert "SIMULATED" in run["source"]
    assert sorted(file.name for file in path.parent.iterdir()) == ["run.yaml", "ssd300.csv"]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("origin: simulated\nplatform: sim-table4\n", r"run\.yaml:2: expected platform: sim-hbm"),
        ("origin: measured\nplatform: sim-hbm\n", r"run\.yaml:1: expected origin: simulated"),
        ("origin: simulated\nplatforms: {a: sim-hbm}\n", r"run\.yaml: expected platform: sim-hbm"),
    ],
)
def test_other_logs_are_not_mixed_with_simulated_ones(tmp_path: Path, run: str, message: str) -> None:
    (tmp_path / "run.yaml").write_text(run, encoding="utf-8")
    platform = PLATFORMS["sim-hbm"]
    profile = simulate_profile(NETWORKS["ssd300"], platform, 0.9, seed=7)
    with pytest.raises(InputError, match=message):
        write_profile(profile, tmp_path, network="ssd300", platform=platform, memory_efficiency=0.9, seed=7)
    assert [file.name for file in tmp_path.iterdir()] == ["run.yaml"]
    assert (tmp_path / "run.yaml").read_text(encoding="utf-8") == run


def test_bad_input(tmp_path: Path) -> None:
    platform, network = PLATFORMS["sim-hbm"], NETWORKS["ssd300"]
    with pytest.raises(InputError, match="a seed of 0 or more, got -1"):
        simulate_profile(network, platform, 0.9, seed=-1)
    with pytest.raises(InputError, match="a network with a convolution"):
        simulate_profile(network.assign(operator="maxpool"), platform, 0.9, seed=1)
    with pytest.raises(InputError, match="memory_efficiency"):
        simulate_profile(network, platform, 12.9, seed=1)
    profile = simulate_profile(network, platform, 0.9, seed=1)
    for name in ("a/b", "..", ""):
        with pytest.raises(InputError, match="a network's name, without folders"):
            write_profile(profile, tmp_path, network=name, platform=platform, memory_efficiency=0.9, seed=1)
    assert list(tmp_path.iterdir()) == []
