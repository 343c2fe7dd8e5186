"""DRAM timing: how many clocks lie between two commands, and where each number comes from.

`HBM2` is one pseudo channel of the HBM2 stacks on an Alveo U280, `DDR4_2400` one of its DIMM
channels. The controller, like the benchmark's engine, works in whole cycles of the AXI clock: a
cycle is two DRAM clocks on HBM (450 and 900 MHz) and four on DDR4 (300 and 1200 MHz), and moves one
beat of data at the peak rate. Activates and column commands start on whole cycles; a precharge may
start in between, so its delays are rounded up together with those of the activate that follows it.
That is what makes a closed bank cost 7 cycles and a page miss 14 on HBM, 5 and 10 on DDR4.

References
----------
Status of each number, as in `TIMING_SOURCES`: V = verified in a source, D = derived, R = unverified
(as in public simulator configurations, not measured by us), fitted = chosen by us so that the model
meets a published figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from accelperf.units import peak_gbps

_ROUNDING = 1e-9


def _clocks(time_ns: float, clock_mhz: float) -> int:
    """Return a time as whole clocks, rounded up as controllers do."""
    return math.ceil(time_ns * clock_mhz / 1e3 - _ROUNDING)


@dataclass(frozen=True)
class MemoryTiming:
    """Geometry and timing of one memory channel; every time is in DRAM clocks (tCK) unless it says otherwise.

    Attributes
    ----------
    name : str
        ``hbm`` or ``ddr4``, as in ``run.yaml``.
    title : str
        The memory in words.
    clock_mhz : float
        Clock of the AXI port, the engine and the controller [MHz].
    clocks_per_cycle : int
        DRAM clocks in one cycle of `clock_mhz`.
    beat_bytes : int
        Bytes moved by one column command, one cycle at the peak rate.
    bank_groups, banks_per_group : int
        Banks of the channel.
    page_bytes : int
        Bytes of an open row.
    tcl, trcd, trp, tras, trc : int
        Column, activate-to-column, precharge, activate-to-precharge, activate-to-activate times.
    tccd_s, tccd_l : int
        Between column commands to another and to the same bank group.
    trrd_s, trrd_l : int
        Between activates of different banks, in another and in the same bank group.
    tfaw : int
        Window that holds four activates at most.
    trtp, tcwl, twr : int
        Read to precharge; column to write data; end of write data to precharge.
    tburst : int
        Clocks of data of one column command.
    trfc, trefi : int
        Length of a refresh and time between two.
    hit_cycles : Mapping of str to int
        Published idle latency of a page hit [cycles of `clock_mhz`] by state of the HBM switch
        (``off`` alone where there is none); what DRAM does not take of it is the AXI path.
    window_beats : int
        Beats that the controller looks ahead: a request enters when the one this many before it has
        returned its data.
    """

    name: str
    title: str
    clock_mhz: float
    clocks_per_cycle: int
    beat_bytes: int
    bank_groups: int
    banks_per_group: int
    page_bytes: int
    tcl: int
    trcd: int
    trp: int
    tras: int
    trc: int
    tccd_s: int
    tccd_l: int
    trrd_s: int
    trrd_l: int
    tfaw: int
    trtp: int
    tcwl: int
    twr: int
    tburst: int
    trfc: int
    trefi: int
    hit_cycles: Mapping[str, int]
    window_beats: int = 32

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int | float) and not value > 0:
                raise ValueError(f"{name} must be above 0, got {value}")
        if self.trrd_l > 2 * self.trrd_s or self.tccd_l > 2 * self.tccd_s:
            raise ValueError("a long delay must not exceed two short ones (only neighbours are compared)")
        if self.trefi <= self.trfc:
            raise ValueError("a refresh must be shorter than the time between two")

    @property
    def banks(self) -> int:
        """Banks of the channel."""
        return self.bank_groups * self.banks_per_group

    @property
    def tck_ns(self) -> float:
        """DRAM clock period [ns]."""
        return 1e3 / (self.clock_mhz * self.clocks_per_cycle)

    @property
    def peak_gbps(self) -> float:
        """Peak rate of the channel [decimal GB/s]."""
        return peak_gbps(self.clock_mhz, 8 * self.beat_bytes)

    def cycles(self, clocks: int) -> int:
        """Return whole controller cycles that hold a number of DRAM clocks."""
        return -(-clocks // self.clocks_per_cycle)


@dataclass(frozen=True)
class CommandCycles:
    """Delays between commands of one direction, in whole controller cycles.

    Attributes
    ----------
    activate_to_column, precharge_to_activate : int
        tRCD and tRP.
    activate_to_activate : int
        Same bank: the longer of tRC and tRAS + tRP.
    column_to_activate : int
        Same bank: last column command, precharge, next activate.
    column_to_precharge_all : int
        Last column command to the precharge before a refresh.
    column_short, column_long, activate_short, activate_long, four_activates : int
        tCCD, tRRD and tFAW.
    column_to_data : int
        Column command to the end of its data.
    refresh, refresh_interval : int
        tRFC and tREFI.
    """

    activate_to_column: int
    precharge_to_activate: int
    activate_to_activate: int
    column_to_activate: int
    column_to_precharge_all: int
    column_short: int
    column_long: int
    activate_short: int
    activate_long: int
    four_activates: int
    column_to_data: int
    refresh: int
    refresh_interval: int


def command_cycles(timing: MemoryTiming, direction: str = "read") -> CommandCycles:
    """Return the delays between commands in whole controller cycles.

    Parameters
    ----------
    timing : MemoryTiming
        The memory.
    direction : {"read", "write"}
        Direction of all accesses. Writes hold their bank for tCWL, the data and tWR.

    Returns
    -------
    CommandCycles
        Each delay rounded up.
    """
    column_to_data = (timing.tcl if direction == "read" else timing.tcwl) + timing.tburst
    column_to_precharge = timing.trtp if direction == "read" else column_to_data + timing.twr
    return CommandCycles(
        activate_to_column=timing.cycles(timing.trcd),
        precharge_to_activate=timing.cycles(timing.trp),
        activate_to_activate=timing.cycles(max(timing.trc, timing.tras + timing.trp)),
        column_to_activate=timing.cycles(column_to_precharge + timing.trp),
        column_to_precharge_all=timing.cycles(column_to_precharge),
        column_short=timing.cycles(timing.tccd_s),
        column_long=timing.cycles(timing.tccd_l),
        activate_short=timing.cycles(timing.trrd_s),
        activate_long=timing.cycles(timing.trrd_l),
        four_activates=timing.cycles(timing.tfaw),
        column_to_data=timing.cycles(column_to_data),
        refresh=timing.cycles(timing.trfc),
        refresh_interval=timing.cycles(timing.trefi),
    )


_HBM_CLOCK_MHZ = 450.0
_HBM_DRAM_MHZ = 900.0

HBM2 = MemoryTiming(
    name="hbm",
    title="HBM2 pseudo channel",
    clock_mhz=_HBM_CLOCK_MHZ,
    clocks_per_cycle=2,
    beat_bytes=32,
    bank_groups=4,
    banks_per_group=4,
    page_bytes=1024,
    tcl=_clocks(14.0, _HBM_DRAM_MHZ),
    trcd=_clocks(14.0, _HBM_DRAM_MHZ),
    trp=_clocks(14.0, _HBM_DRAM_MHZ),
    tras=_clocks(34.0, _HBM_DRAM_MHZ),
    trc=_clocks(48.0, _HBM_DRAM_MHZ),
    tccd_s=2,
    tccd_l=4,
    trrd_s=4,
    trrd_l=6,
    tfaw=16,
    trtp=_clocks(6.0, _HBM_DRAM_MHZ),
    tcwl=_clocks(4.0, _HBM_DRAM_MHZ),
    twr=_clocks(16.0, _HBM_DRAM_MHZ),
    tburst=2,
    trfc=_clocks(260.0, _HBM_DRAM_MHZ),
    trefi=_clocks(3900.0, _HBM_DRAM_MHZ),
    hit_cycles={"on": 55, "off": 48},
)
"""One pseudo channel of the HBM2 on an Alveo U280."""

_DDR4_DRAM_MHZ = 1200.0

DDR4_2400 = MemoryTiming(
    name="ddr4",
    title="DDR4-2400 channel",
    clock_mhz=300.0,
    clocks_per_cycle=4,
    beat_bytes=64,
    bank_groups=4,
    banks_per_group=4,
    page_bytes=8192,
    tcl=17,
    trcd=17,
    trp=17,
    tras=39,
    trc=56,
    tccd_s=4,
    tccd_l=6,
    trrd_s=4,
    trrd_l=6,
    tfaw=16,
    trtp=_clocks(7.5, _DDR4_DRAM_MHZ),
    tcwl=16,
    twr=_clocks(15.0, _DDR4_DRAM_MHZ),
    tburst=4,
    trfc=_clocks(350.0, _DDR4_DRAM_MHZ),
    trefi=_clocks(7800.0, _DDR4_DRAM_MHZ),
    hit_cycles={"off": 22},
)
"""One DDR4-2400 channel of an Alveo U280."""

MEMORIES: Mapping[str, MemoryTiming] = {memory.name: memory for memory in (HBM2, DDR4_2400)}

TIMING_SOURCES: Mapping[str, tuple[str, str]] = {
    "clock_mhz": ("V", "Shuhai: engines at 450 MHz (HBM) and 300 MHz (DDR4)"),
    "clocks_per_cycle": ("D", "peak rates of 14.4 and 19.2 GB/s, one beat a cycle"),
    "beat_bytes": ("V", "Shuhai: AXI ports of 32 and 64 bytes"),
    "bank_groups": ("V", "address mapping of the Shuhai paper: two bank-group bits"),
    "banks_per_group": ("V", "address mapping of the Shuhai paper: two bank bits"),
    "page_bytes": ("D", "column bits of the address mapping times the beat"),
    "tcl": ("R", "HBM2 14 ns (DRAMsim3, HBM2_8Gb_x128.ini); DDR4-2400 17 clocks (JEDEC JESD79-4, 2400R)"),
    "trcd": ("R", "HBM2 14 ns (DRAMsim3, HBM2_8Gb_x128.ini); DDR4-2400 17 clocks (JEDEC JESD79-4, 2400R)"),
    "trp": ("R", "HBM2 14 ns (DRAMsim3, HBM2_8Gb_x128.ini); DDR4-2400 17 clocks (JEDEC JESD79-4, 2400R)"),
    "tras": ("R", "HBM2 34 ns, DDR4-2400 39 clocks (DRAMsim3)"),
    "trc": ("R", "tRAS + tRP: HBM2 48 ns, DDR4-2400 56 clocks"),
    "tccd_s": ("R", "HBM2 2, DDR4 4 clocks: the length of the data"),
    "tccd_l": ("R", "HBM2 4, DDR4-2400 6 clocks (DRAMsim3)"),
    "trrd_s": ("fitted", "4 clocks, as in DRAMsim3; see tfaw"),
    "trrd_l": ("fitted", "6 clocks, as in DRAMsim3; see tfaw"),
    "tfaw": ("fitted", "16 clocks, four times tRRD, from random reads measured on a U280 (see there)"),
    "trtp": ("R", "HBM2 6 ns (DRAMsim3, HBM2_8Gb_x128.ini); DDR4 7.5 ns (JEDEC JESD79-4)"),
    "tcwl": ("R", "HBM2 4 ns, DDR4-2400 16 clocks (DRAMsim3); writes only"),
    "twr": ("R", "HBM2 16 ns (DRAMsim3); DDR4 15 ns (JEDEC JESD79-4); writes only"),
    "tburst": ("D", "burst length 4 (HBM2) and 8 (DDR4), two transfers a clock"),
    "trfc": ("R", "HBM2 260 ns, DDR4 350 ns (DRAMsim3)"),
    "trefi": ("R", "HBM2 3.9 us, DDR4 7.8 us (DRAMsim3)"),
    "hit_cycles": (
        "V",
        "Shuhai: page hit at 55 cycles (HBM, switch on) and 22 (DDR4); 48 with the switch off is "
        "from a secondary source (R)",
    ),
    "window_beats": ("fitted", "enough to hide an activate; twice as many change nothing"),
}
"""Status and source of every field of `MemoryTiming` that is a number of the hardware."""

AXI_GROUP_EXTRA_CYCLES: tuple[int, ...] = (0, 1, 3, 5, 16, 18, 20, 22)
"""Latency that an engine adds by its group of four AXI channels on the way to HBM channel 0 [cycles].

From 55 cycles for channels 0-3 to 77 for 28-31 (V); in between derived (D). The jump from the fourth
to the fifth group is the crossing between the two stacks. Shuhai, FCCM 2020."""
