"""``run.yaml`` beside Shuhai logs: what a log does not say about itself.

The nearest ``run.yaml`` from a log's folder upward to the root of the logs applies, so one file can
serve a whole tree of logs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from accelperf.memory.shuhai_program import (
    CHANNELS,
    ENGINE_CLOCK_MHZ,
    ENGINE_WIDTH_BYTES,
    SMALLEST_BURST_BYTES,
    Memory,
    Options,
    parse_command,
)
from accelperf.units import peak_gbps
from accelperf.yaml_input import StrictModel

RUN_FILE = "run.yaml"

Count = Annotated[int, Field(ge=1)]
Index = Annotated[int, Field(ge=0, lt=CHANNELS)]


def _channel_keys(value: Any) -> Any:
    # YAML keys arrive as text; whole numbers are what they mean.
    if isinstance(value, dict):
        return {int(key) if str(key).isdigit() else key: item for key, item in value.items()}
    return value


ByChannel = Annotated[Count | dict[Index, Count], BeforeValidator(_channel_keys)]
TargetByChannel = Annotated[Index | dict[Index, Index], BeforeValidator(_channel_keys)]


def is_power_of_two(value: int) -> bool:
    """Return whether a whole number is a power of two."""
    return value > 0 and value & (value - 1) == 0


def of_channel(value: int | dict[int, int] | None, channel: int) -> int | None:
    """Return a value that may be given for all channels or by channel; None where it is not."""
    return value.get(channel) if isinstance(value, dict) else value


class ShuhaiRun(StrictModel):
    """Content of a ``run.yaml`` beside Shuhai logs.

    Attributes
    ----------
    board : str
        Board.
    memory : {"hbm", "ddr4", "ddr3"}
        Memory that was measured.
    policy : str, optional
        Address mapping policy of the memory controller; unknown where it is not given.
    switch : {"on", "off"}, optional
        State of the HBM switch (AMD's global addressing); unknown where it is not given.
    clock_mhz, width_bytes : float and int, optional
        Clock [MHz] and word [bytes] of the engines. By default those of the public bitstreams:
        HBM 450 MHz and 32 bytes, DDR4 300 MHz and 64 bytes. DDR3 has no default.
    origin : {"measured", "simulated", "estimated"}
        Where the logs come from.
    source : str, optional
        Where they come from, in words.
    command : str, optional
        Command line of the run.
    stride_bytes, working_set_bytes, burst_bytes, num_ops : int or dict of int to int, optional
        S, W, B [bytes] and N, for all channels or by channel.
    target_channel : int or dict of int to int, optional
        Memory channel that an engine's accesses reached, where it is not what the current public
        version does (see `accelperf.memory.corrections.target_channel`).
    """

    board: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]
    memory: Memory
    policy: str | None = None
    switch: Literal["on", "off"] | None = None
    clock_mhz: Annotated[float, Field(gt=0)] | None = Field(None, validate_default=True)
    width_bytes: Count | None = Field(None, validate_default=True)
    origin: Literal["measured", "simulated", "estimated"]
    source: str | None = None
    command: str | None = None
    burst_bytes: ByChannel | None = None
    stride_bytes: ByChannel | None = None
    working_set_bytes: ByChannel | None = None
    num_ops: ByChannel | None = None
    target_channel: TargetByChannel | None = None

    @field_validator("switch", mode="before")
    @classmethod
    def _switch_word(cls, value: Any) -> Any:
        # YAML 1.1 reads a bare on or off as true or false.
        return {True: "on", False: "off"}[value] if isinstance(value, bool) else value

    @field_validator("policy")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("a name")
        return value

    @field_validator("command")
    @classmethod
    def _parsable(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            parse_command(value)
            other = "test-ddr" if info.data.get("memory") == "hbm" else "test-hbm"
            if other in value:
                raise ValueError(f"the program that measures {info.data.get('memory')}, not {other}")
        return value

    @field_validator("burst_bytes", "stride_bytes", "working_set_bytes")
    @classmethod
    def _powers_of_two(
        cls, value: int | dict[int, int] | None, info: ValidationInfo
    ) -> int | dict[int, int] | None:
        smallest = SMALLEST_BURST_BYTES.get(info.data.get("memory", ""), 1)
        for channel in range(CHANNELS):
            number = of_channel(value, channel)
            if number is None:
                continue
            if not is_power_of_two(number):
                raise ValueError("a power of two")
            if info.field_name == "burst_bytes" and number < smallest:
                raise ValueError(f"at least {smallest} bytes, one word of the memory's engines")
            stride = of_channel(info.data.get("stride_bytes"), channel)
            if info.field_name == "working_set_bytes" and stride is not None and number < stride:
                raise ValueError(f"at least stride_bytes = {stride}")
        return value

    @field_validator("clock_mhz", "width_bytes")
    @classmethod
    def _engines_known(cls, value: float | None, info: ValidationInfo) -> float | None:
        memory = info.data.get("memory")
        if value is None and memory is not None and memory not in ENGINE_CLOCK_MHZ:
            raise ValueError(f"a number (the engines of {memory} have no known default)")
        return value

    @property
    def engine_clock_mhz(self) -> float:
        """Clock of the engines [MHz]."""
        return ENGINE_CLOCK_MHZ[self.memory] if self.clock_mhz is None else self.clock_mhz

    @property
    def engine_width_bytes(self) -> int:
        """Word of the engines [bytes]."""
        return ENGINE_WIDTH_BYTES[self.memory] if self.width_bytes is None else self.width_bytes

    @property
    def peak_gbps(self) -> float:
        """Peak rate of one channel [decimal GB/s]."""
        return peak_gbps(self.engine_clock_mhz, 8 * self.engine_width_bytes)

    @property
    def options(self) -> Options | None:
        """Options of the command line, if it is given."""
        return None if self.command is None else parse_command(self.command)


def find_run(folder: Path, root: Path) -> Path | None:
    """Return the nearest ``run.yaml`` from `folder` upward to `root`, or None."""
    for candidate in (folder, *folder.parents):
        if (candidate / RUN_FILE).is_file():
            return candidate / RUN_FILE
        if candidate == root:
            break
    return None
