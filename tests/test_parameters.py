import pytest

from accelperf.errors import InputError
from accelperf.parameters import BY_NAME, LAYER_PARAMETERS, PARAMETER_NAMES, PLATFORM_PARAMETERS


def test_the_fifteen() -> None:
    assert len(PARAMETER_NAMES) == len(set(PARAMETER_NAMES)) == 15
    assert LAYER_PARAMETERS + PLATFORM_PARAMETERS == PARAMETER_NAMES
    assert PARAMETER_NAMES[:8] == (
        "kernel_height", "kernel_width", "input_height", "input_width", "input_channels",
        "output_height", "output_width", "output_channels",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel_height", 0),
        ("kernel_height", 2.5),
        ("memory_efficiency", 1.01),
        ("memory_efficiency", 0),
        ("logic_clock_mhz", 0),
        ("logic_clock_mhz", float("nan")),
        ("logic_clock_mhz", float("inf")),
    ],
)
def test_values_out_of_bounds_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"expected {name} as a .*number between"):
        BY_NAME[name].check(value)


def test_bounds_are_inclusive() -> None:
    BY_NAME["memory_efficiency"].check(1.0)
    BY_NAME["kernel_height"].check(1)
