"""A platform: one accelerator configuration on one board, as data.

Platforms are YAML files in ``data/platforms``. They are checked once, here, and trusted after.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from accelperf.errors import InputError, known
from accelperf.parameters import BY_NAME
from accelperf.units import peak_gbps
from accelperf.yaml_input import StrictModel, read_model

Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]


class MemoryPattern(StrictModel):
    """How an accelerator's DMA reads memory, and which measured memory profile it reads from.

    Attributes
    ----------
    profile : str
        Memory profile in ``memory.csv``: ``board/memory``, or the board's name alone where only
        one kind of its memory was measured.
    direction : {"read", "write"}
        Direction of the transfers.
    burst_bytes, stride_bytes, working_set_bytes : int
        Access pattern [bytes], in Shuhai's terms B, S and W. Burst and stride may be ``row``: then
        they are a row of the layer's own input, and each layer has an efficiency of its own.
    policy : str
        Address mapping policy of the memory controller.
    channels : int
        Memory channels used at once.
    """

    profile: str
    direction: Literal["read", "write"]
    burst_bytes: Count | Literal["row"]
    stride_bytes: Count | Literal["row"]
    working_set_bytes: Count
    policy: str
    channels: Count

    @property
    def follows_layer(self) -> bool:
        """Whether the pattern depends on the layer's row length."""
        return "row" in (self.burst_bytes, self.stride_bytes)

    def of_row(self, row_bytes: int) -> MemoryPattern:
        """Return the pattern of a layer whose input rows have that many bytes."""
        lengths = {
            name: row_bytes for name in ("burst_bytes", "stride_bytes") if getattr(self, name) == "row"
        }
        return self.model_copy(update=lengths)


class Platform(StrictModel):
    """One accelerator configuration on one board.

    Attributes
    ----------
    name : str
        Name; the ``accelerator`` column of every table.
    filter_parallelism, channel_parallelism : int
        PF and PC: filters and input channels (or output pixels) computed at once.
    unrolled_loop : {"channels", "pixels"}
        What `channel_parallelism` unrolls: input channels or output pixels.
    logic_clock_mhz, memory_clock_mhz : float
        Clocks [MHz].
    transfer_width_bits, data_width_bits : int
        Width of one memory port and of one number [bit].
    memory_ports : int, optional
        Memory ports working at once; PF where it is not given (Eq. 4-6 of the paper divide by PF).
    memory_efficiency : float or MemoryPattern
        Share of the peak memory rate that is reached, in (0, 1], or where to look it up.
    source : str, optional
        Where the numbers come from.
    """

    name: Name
    filter_parallelism: Count
    channel_parallelism: Count
    unrolled_loop: Literal["channels", "pixels"]
    logic_clock_mhz: float
    memory_clock_mhz: float
    transfer_width_bits: int
    data_width_bits: int
    memory_ports: Count | None = None
    memory_efficiency: float | MemoryPattern
    source: str | None = None

    @field_validator(
        "filter_parallelism",
        "channel_parallelism",
        "logic_clock_mhz",
        "memory_clock_mhz",
        "transfer_width_bits",
        "data_width_bits",
        "memory_efficiency",
    )
    @classmethod
    def _within_bounds(cls, value: object, info: object) -> object:
        if isinstance(value, int | float):
            parameter = BY_NAME[info.field_name]  # type: ignore[attr-defined]
            try:
                parameter.check(value)
            except InputError as error:
                raise ValueError(error.expected.removeprefix(f"{parameter.name} as ")) from None
        return value

    @property
    def ports(self) -> int:
        """Memory ports working at once."""
        return self.filter_parallelism if self.memory_ports is None else self.memory_ports

    @property
    def memory_peak_gbps(self) -> float:
        """Peak rate of all memory ports together [decimal GB/s]."""
        return peak_gbps(self.memory_clock_mhz, self.transfer_width_bits, self.ports)


def read_platform(path: Path) -> Platform:
    """Read one platform.

    Parameters
    ----------
    path : Path
        YAML file.

    Returns
    -------
    Platform
        The validated platform.

    Raises
    ------
    InputError
        If the file cannot be read or a value is missing, unknown or out of bounds.
    """
    return read_model(path, Platform)


def read_platforms(folder: Path) -> dict[str, Platform]:
    """Read all platforms of a folder.

    Parameters
    ----------
    folder : Path
        Folder of YAML files.

    Returns
    -------
    dict
        Platforms by name, in order of their file names.

    Raises
    ------
    InputError
        If the folder holds no platform, two files claim one name, or a file is wrong.
    """
    files = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    if not files:
        raise InputError("a folder with platform files (*.yaml)", "none", file=folder)
    platforms: dict[str, Platform] = {}
    origin: dict[str, Path] = {}
    for path in files:
        platform = read_platform(path)
        if platform.name in platforms:
            raise InputError(
                "platform names that differ", f"{platform.name!r} also in {origin[platform.name]}", file=path
            )
        platforms[platform.name] = platform
        origin[platform.name] = path
    return platforms


def get_platform(
    platforms: dict[str, Platform], name: str, *, file: Path | str | None = None, line: int | None = None
) -> Platform:
    """Return a platform by name; an unknown name is an `InputError` that lists the known ones."""
    if name not in platforms:
        raise InputError(f"a platform, one of {known(platforms)}", repr(name), file=file, line=line)
    return platforms[name]
