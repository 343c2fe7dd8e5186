"""The platform files in data/platforms, and what the reader refuses."""

from pathlib import Path

import pytest

from accelperf.errors import InputError
from accelperf.platforms import MemoryPattern, get_platform, read_platform, read_platforms

DATA = Path(__file__).parents[1] / "data" / "platforms"
PLATFORMS = read_platforms(DATA)

RTOL_EXACT = 1e-12
"""For products of a few numbers."""

VALID = """\
name: mine
filter_parallelism: 8
channel_parallelism: 16
unrolled_loop: channels
logic_clock_mhz: 100.0
memory_clock_mhz: 200.0
transfer_width_bits: 64
data_width_bits: 8
memory_efficiency: 0.5
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_platforms_that_come_with_the_project() -> None:
    assert set(PLATFORMS) == {
        "sim-table4",
        "sim-hbm",
        "cnn-accel-m32p32",
        "cnn-accel-m32p64",
        "cnn-accel-m32p96",
        "cnn-accel-m64p64",
    }
    for name, platform in PLATFORMS.items():
        assert (DATA / f"{name}.yaml").is_file()
        assert platform.source is not None
        assert ("SIMULATED" in platform.source) == name.startswith("sim-")


def test_sim_table4_is_table_4_of_the_paper() -> None:
    platform = PLATFORMS["sim-table4"]
    assert (platform.filter_parallelism, platform.channel_parallelism) == (64, 64)
    assert (platform.logic_clock_mhz, platform.memory_clock_mhz) == (200.0, 200.0)
    assert (platform.transfer_width_bits, platform.data_width_bits) == (64, 8)
    assert platform.memory_efficiency == 0.7
    assert platform.ports == platform.filter_parallelism
    assert platform.unrolled_loop == "channels"


@pytest.mark.parametrize(
    ("name", "peak_gbps"),
    [
        ("sim-table4", 102.4),
        ("sim-hbm", 14.4),  # one HBM channel, Shuhai, FCCM 2020
        ("cnn-accel-m32p32", 16.0),
        ("cnn-accel-m64p64", 16.0),
    ],
)
def test_peak_rate(name: str, peak_gbps: float) -> None:
    assert PLATFORMS[name].memory_peak_gbps == pytest.approx(peak_gbps, rel=RTOL_EXACT)


def test_sim_hbm_takes_its_efficiency_from_the_sample_shuhai_log() -> None:
    pattern = PLATFORMS["sim-hbm"].memory_efficiency
    assert isinstance(pattern, MemoryPattern)
    assert pattern.profile == "sample-u280/hbm"
    assert (pattern.burst_bytes, pattern.stride_bytes, pattern.working_set_bytes) == (64, 64, 2**28)
    assert (pattern.direction, pattern.policy, pattern.channels) == ("read", "RGBCG", 1)


@pytest.mark.parametrize(("filters", "pixels"), [(32, 32), (32, 64), (64, 64)])
def test_cnn_accel_configurations(filters: int, pixels: int) -> None:
    platform = PLATFORMS[f"cnn-accel-m{filters}p{pixels}"]
    assert (platform.filter_parallelism, platform.channel_parallelism) == (filters, pixels)
    assert platform.unrolled_loop == "pixels"
    assert (platform.logic_clock_mhz, platform.memory_clock_mhz) == (400.0, 250.0)
    assert (platform.transfer_width_bits, platform.data_width_bits, platform.ports) == (512, 8, 1)
    assert platform.memory_efficiency == 1.0


def test_ports_are_pf_unless_given(tmp_path: Path) -> None:
    assert read_platform(write(tmp_path, VALID)).ports == 8
    assert read_platform(write(tmp_path, VALID + "memory_ports: 2\n")).ports == 2


@pytest.mark.parametrize(
    ("line", "replacement", "message"),
    [
        ("logic_clock_mhz: 100.0", "logic_clock_mhz: 0", r"mine\.yaml:5: .*logic_clock_mhz.*got 0"),
        ("memory_efficiency: 0.5", "memory_efficiency: 1.7", r"mine\.yaml:9: .*memory_efficiency.*1\.7"),
        ("unrolled_loop: channels", "unrolled_loop: rows", r"mine\.yaml:4: .*unrolled_loop"),
        ("data_width_bits: 8", "data_width_bits: 8\ncolour: red", r"mine\.yaml:9: .*unknown key 'colour'"),
        ("name: mine\n", "", r"mine\.yaml.*key 'name'"),
        ("filter_parallelism: 8", "filter_parallelism: 8.5", r"mine\.yaml:2: .*filter_parallelism"),
        ("filter_parallelism: 8", "filter_parallelism: .nan", r"mine\.yaml:2: .*filter_parallelism"),
        (
            "memory_efficiency: 0.5",
            "memory_efficiency: {profile: u280}",
            r"mine\.yaml:9: .*memory_efficiency",
        ),
    ],
)
def test_wrong_platform_is_one_clear_line(tmp_path: Path, line: str, replacement: str, message: str) -> None:
    assert line in VALID
    path = write(tmp_path, VALID.replace(line, replacement))
    with pytest.raises(InputError, match=message) as caught:
        read_platform(path)
    assert "\n" not in str(caught.value)


def test_empty_folder_and_names_given_twice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a folder with platform files"):
        read_platforms(tmp_path)
    write(tmp_path, VALID)
    (tmp_path / "other.yaml").write_text(VALID, encoding="utf-8")
    with pytest.raises(InputError, match=r"other\.yaml: expected platform names that differ"):
        read_platforms(tmp_path)


def test_unknown_platform_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"log\.csv:3: .*cnn-accel-m32p32.*sim-table4.*got 'zcu102'"):
        get_platform(PLATFORMS, "zcu102", file="log.csv", line=3)


@pytest.mark.parametrize(
    ("line", "replacement", "message"),
    [
        (
            "direction: read",
            "direction: sideways",
            r":\d+: expected memory_efficiency.direction: 'read' or 'write'",
        ),
        ("burst_bytes: 64", "burst_bytes: 0", r":\d+: expected memory_efficiency.burst_bytes: greater than"),
        (
            "channels: 1",
            "chanels: 1",
            r":\d+: expected a known key, got unknown key 'memory_efficiency.chanels'",
        ),
        ("  channels: 1", "", r":11: expected the key 'memory_efficiency.channels', got no such key"),
    ],
)
def test_wrong_memory_pattern_is_one_clear_line(
    tmp_path: Path, line: str, replacement: str, message: str
) -> None:
    text = (DATA / "sim-hbm.yaml").read_text(encoding="utf-8")
    assert line in text
    with pytest.raises(InputError, match=r"mine\.yaml" + message):
        read_platform(write(tmp_path, text.replace(line, replacement)))
