"""What a Shuhai run worked with: B, S, W and N by channel, enables, latency channel.

In the program's order: its defaults, its options (as the echo shows them), its configuration file.
``run.yaml`` states the same from outside: it fills in what the log does not show and must agree
with what it does. Defaults count only where the output's beginning is there, so that an option that
left no echo was not given.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accelperf.errors import InputError
from accelperf.memory.shuhai_echo import echo_line, read_options
from accelperf.memory.shuhai_program import (
    CHANNELS,
    DEFAULT_BURST_BYTES,
    DEFAULT_ENABLES,
    DEFAULT_WORKING_SET_BYTES,
    SMALLEST_BURST_BYTES,
    ConfigFile,
    Options,
    default_num_ops,
    default_stride,
    read_config,
)
from accelperf.memory.shuhai_run import RUN_FILE, ShuhaiRun, is_power_of_two, of_channel
from accelperf.memory.shuhai_transcript import Direction, Transcript

_NAMES = {"burst_bytes": "memBurstSize", "stride_bytes": "strideLength", "working_set_bytes": "workGroupSize"}
ALL_CHANNELS = 0xFFFFFFFF
# Channels that an option reaches in test-ddr (its loops run to 2, and for the burst to 2 inclusive).
_DDR_REACH = {"burst_bytes": 3, "stride_bytes": 2, "working_set_bytes": 2}


@dataclass(frozen=True)
class Pattern:
    """B, S and W [bytes] as the program was given them; None where one is not known."""

    burst_bytes: int | None
    stride_bytes: int | None
    working_set_bytes: int | None


@dataclass(frozen=True)
class RunSettings:
    """Settings of one run.

    Attributes
    ----------
    path : Path
        The log.
    run : ShuhaiRun or None
        What ``run.yaml`` says.
    options : Options
        Options given to the program, as far as they are known.
    config : ConfigFile or None
        Configuration file that the program read.
    config_missing : bool
        Whether it read one that is not there.
    has_defaults : bool
        Whether an option that is not known to be given was not given.
    write_enable, read_enable : int or None
        Enables before the configuration file's masks; None if they are not known.
    line : int
        Line of the log that the options stand in, for errors.
    """

    path: Path
    run: ShuhaiRun | None
    options: Options
    config: ConfigFile | None
    config_missing: bool
    has_defaults: bool
    write_enable: int | None
    read_enable: int | None
    line: int

    def pattern(self, channel: int) -> Pattern:
        """Return the access pattern of a channel, checked.

        Raises
        ------
        InputError
            If the log contradicts ``run.yaml``, a value is no power of two, the burst is less than
            one word, or the stride is above the working set.
        """
        burst, burst_at = self._value("burst_bytes", channel)
        stride, stride_at = self._value("stride_bytes", channel)
        working_set, _ = self._value("working_set_bytes", channel)
        memory = "hbm" if self.run is None else self.run.memory
        if burst is not None and burst < SMALLEST_BURST_BYTES[memory]:
            expected = f"memBurstSize of at least {SMALLEST_BURST_BYTES[memory]} on channel {channel}"
            raise InputError(expected, str(burst), file=burst_at[0], line=burst_at[1])
        if stride is not None and working_set is not None and stride > working_set:
            expected = f"strideLength of at most workGroupSize, {working_set}, on channel {channel}"
            raise InputError(expected, str(stride), file=stride_at[0], line=stride_at[1])
        return Pattern(burst, stride, working_set)

    def _value(self, name: str, channel: int) -> tuple[int | None, tuple[Path, int]]:
        """Return a value and where it stands."""
        value: int | None = None
        at = (self.path, self.line)
        seen = True
        option = getattr(self.options, name)
        setting = None if self.config is None else self.config.setting(_NAMES[name], channel)
        if setting is not None and self.config is not None:
            value, at = setting.value, (self.config.path, setting.line)
        elif self.config_missing:
            value = None
        elif option is not None and self._reaches(name, channel):
            value = option
        else:
            value, seen = self._default(name, channel), False
        if value is not None and not is_power_of_two(value):
            expected = f"a power of two for {_NAMES[name]} on channel {channel}"
            raise InputError(expected, str(value), file=at[0], line=at[1])
        stated = None if self.run is None else of_channel(getattr(self.run, name), channel)
        if stated is None:
            return value, at
        if seen and value is not None and value != stated:
            expected = f"{_NAMES[name]} {stated} on channel {channel}, as in {RUN_FILE}"
            raise InputError(expected, str(value), file=at[0], line=at[1])
        return stated, at

    def _reaches(self, name: str, channel: int) -> bool:
        return self.run is None or self.run.memory == "hbm" or channel < _DDR_REACH[name]

    def _default(self, name: str, channel: int) -> int | None:
        if not self.has_defaults or self.run is None:
            return None
        if name == "stride_bytes":
            return default_stride(self.run.memory, channel)
        return DEFAULT_BURST_BYTES if name == "burst_bytes" else DEFAULT_WORKING_SET_BYTES

    def num_ops(self, channel: int) -> int | None:
        """Return N of a channel: as ``run.yaml`` states it, else the program's own."""
        if self.run is None:
            return None
        if self.run.num_ops is not None:
            return of_channel(self.run.num_ops, channel)
        return default_num_ops(self.run.memory, channel)

    @property
    def printed_num_ops(self) -> int | None:
        """N that all speeds were computed with: that of the latency channel."""
        channels = range(CHANNELS) if self.latency_channel is None else [self.latency_channel]
        candidates = {self.num_ops(channel) for channel in channels}
        return candidates.pop() if len(candidates) == 1 else None

    @property
    def latency_channel(self) -> int | None:
        """The latency channel, whether or not its latency is measured; None if it is not known."""
        if self.config is not None and self.config.latency is not None:
            return self.config.latency[0]
        if self.config_missing:
            return None
        if self.options.channel is not None:
            return self.options.channel
        return 0 if self.has_defaults else None

    @property
    def measures_latency(self) -> bool:
        """Whether the configuration file switches the latency test on."""
        return self.config is not None and self.config.latency is not None and self.config.latency[1] != 0

    def enabled(self, direction: Direction) -> int | None:
        """Return the enabled channels, one bit a channel; None if they are not known.

        The masks of a configuration file only ever clear bits.
        """
        enable = self.read_enable if direction == "read" else self.write_enable
        if self.config_missing and enable:
            return None
        return None if enable is None else enable & _mask(self.config, direction)


def _mask(config: ConfigFile | None, direction: Direction) -> int:
    mask = None if config is None else (config.read_mask if direction == "read" else config.write_mask)
    return ALL_CHANNELS if mask is None else mask


def run_settings(transcript: Transcript, run: ShuhaiRun | None) -> RunSettings:
    """Return the settings of the run that a transcript shows.

    Parameters
    ----------
    transcript : Transcript
        The log.
    run : ShuhaiRun or None
        What ``run.yaml`` says.

    Returns
    -------
    RunSettings
        The settings.

    Raises
    ------
    InputError
        If the echo cannot be read or contradicts ``run.yaml``, or the configuration file beside
        the log is malformed.
    """
    options = read_options(transcript, run)
    name = None
    if transcript.config is not None:
        name = transcript.config.text if transcript.config_opened else None
    elif not transcript.has_start:
        name = options.config_file
    config_path = None if name is None else transcript.path.parent / Path(name).name
    readable = config_path is not None and config_path.is_file()
    config = read_config(config_path) if config_path is not None and readable else None
    config_missing = config_path is not None and not readable
    has_defaults = transcript.has_start or (run is not None and run.command is not None)
    defaults = DEFAULT_ENABLES[run.memory] if run is not None and has_defaults else (None, None)
    write_enable, read_enable = _enables(transcript, options, defaults, config, config_missing)
    return RunSettings(
        path=transcript.path,
        run=run,
        options=options,
        config=config,
        config_missing=config_missing,
        has_defaults=has_defaults,
        write_enable=write_enable,
        read_enable=read_enable,
        line=echo_line(transcript) or (transcript.speeds[0].line if transcript.speeds else 1),
    )


_Enables = tuple[int | None, int | None]


def _enables(
    transcript: Transcript,
    options: Options,
    defaults: _Enables,
    config: ConfigFile | None,
    config_missing: bool,
) -> _Enables:
    """Return write and read enables before the configuration file's masks."""
    given = (options.write_enable, options.read_enable)
    if given != (None, None) or len(transcript.enables) != 1:
        write, read = (
            default if value is None else value for value, default in zip(given, defaults, strict=True)
        )
        return write, read
    # A single echo may be of either option. The last status equals the enables of a run that ended.
    echo = int(transcript.enables[0].text, 2)
    candidates = [(defaults[0], echo), (echo, defaults[1])]
    if transcript.speeds or transcript.counts is not None:
        finished = (transcript.end_write, transcript.end_read)
        masks = (_mask(config, "write"), _mask(config, "read"))

        def fits(enables: _Enables) -> bool:
            return all(
                done is None
                or enable is None
                or (done & ~enable == 0 if config_missing else enable & mask == done)
                for enable, done, mask in zip(enables, finished, masks, strict=True)
            )

        candidates = [enables for enables in candidates if fits(enables)] or candidates[:1]
    return candidates[0] if len(set(candidates)) == 1 else (None, None)
