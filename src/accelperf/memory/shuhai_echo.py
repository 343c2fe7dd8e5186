"""Which options a Shuhai run was given, from the echo that the program leaves of them.

The echoes of ``--workGroupSize`` (W) and ``--memBurstSize`` (B) have no line end, so that W runs
into the stride (S), and B (or W, without S) into whatever comes next. The echo is separated by what
is known from elsewhere (a command line, ``run.yaml``), else by the only split into powers of two
that satisfies ``B >= one word`` and ``S <= W``; where two remain it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from accelperf.errors import InputError
from accelperf.memory.corrections import WORD_BYTES
from accelperf.memory.shuhai_program import (
    CHANNELS,
    DEFAULT_BURST_BYTES,
    DEFAULT_WORKING_SET_BYTES,
    LARGEST_BURST_BYTES,
    SMALLEST_BURST_BYTES,
    Options,
    default_stride,
    parse_command,
)
from accelperf.memory.shuhai_run import ShuhaiRun, is_power_of_two
from accelperf.memory.shuhai_transcript import Line, Transcript


@dataclass(frozen=True)
class _Reading:
    """One way to read the numbers of the echo."""

    channel: int | None = None
    working_set: int | None = None
    stride: int | None = None
    burst: int | None = None

    def __str__(self) -> str:
        names = {"channel": "channel", "working_set": "workGroupSize", "stride": "strideLength"}
        names |= {"burst": "memBurstSize"}
        parts = [
            f"{name} {getattr(self, key)}" for key, name in names.items() if getattr(self, key) is not None
        ]
        return ", ".join(parts) or "no numbers"


def read_options(transcript: Transcript, run: ShuhaiRun | None) -> Options:
    """Return the options that the echo shows.

    Parameters
    ----------
    transcript : Transcript
        The log.
    run : ShuhaiRun or None
        What ``run.yaml`` says.

    Returns
    -------
    Options
        The options; the enables only if both left an echo or the command line is known, the
        configuration file only from a command line.

    Raises
    ------
    InputError
        If the echo contradicts ``run.yaml``, or cannot be separated.
    """
    command = _command(transcript, run)
    _check_config(transcript, command)
    reading = _separate(transcript, run, command)
    read_enable, write_enable = _enables(transcript, command)
    return Options(
        working_set_bytes=reading.working_set,
        stride_bytes=reading.stride,
        burst_bytes=reading.burst,
        channel=reading.channel,
        read_enable=read_enable,
        write_enable=write_enable,
        config_file=None if command is None else command.config_file,
    )


def echo_line(transcript: Transcript) -> int | None:
    """Return the line of the last echoed number, if there is one."""
    echoes = [*transcript.numbers, *([transcript.glued] if transcript.glued else [])]
    return echoes[-1].line if echoes else None


def _command(transcript: Transcript, run: ShuhaiRun | None) -> Options | None:
    if run is not None and transcript.command is not None:
        program = "test-hbm" if run.memory == "hbm" else "test-ddr"
        if program not in transcript.command.text:
            raise InputError(
                f"the program that measures {run.memory}, {program}",
                repr(transcript.command.text[:60]),
                file=transcript.path,
                line=transcript.command.line,
            )
    if run is not None and run.options is not None:
        return run.options
    if transcript.command is not None:
        try:
            return parse_command(transcript.command.text)
        except ValueError:
            return None  # a line that only looks like a command
    return None


def _enables(transcript: Transcript, command: Options | None) -> tuple[int | None, int | None]:
    """Return the read and write enables of the options."""
    echoes = [int(echo.text, 2) for echo in transcript.enables]
    if command is not None and transcript.has_start:
        given = [value for value in (command.read_enable, command.write_enable) if value is not None]
        if echoes != given:
            line = transcript.enables[0].line if echoes else 1
            expected = f"an echo of the enables {[hex(value) for value in given]} of the command line"
            got = f"{[hex(value) for value in echoes]}"
            raise InputError(expected, got, file=transcript.path, line=line)
    if command is not None:
        return command.read_enable, command.write_enable
    if len(echoes) > 2:
        raise InputError(
            "an echo of readEnable and writeEnable",
            f"{len(echoes)} of them",
            file=transcript.path,
            line=transcript.enables[2].line,
        )
    # One echo alone may be either: `accelperf.memory.shuhai_settings` asks the final status.
    return (echoes[0], echoes[1]) if len(echoes) == 2 else (None, None)


def _separate(transcript: Transcript, run: ShuhaiRun | None, command: Options | None) -> _Reading:
    numbers, glued = transcript.numbers, transcript.glued
    if not numbers and glued is None:
        if command is not None:
            _check_command_echoed(transcript, command)
            if not transcript.has_start:
                return _of_command(command)
        return _Reading()
    line = echo_line(transcript)
    text = " and ".join(repr(echo.text) for echo in [*numbers, *([glued] if glued else [])])
    readings = list(dict.fromkeys(_readings(numbers, glued)))
    if command is not None:
        wanted = _of_command(command)
        if wanted not in readings:
            raise InputError(f"an echo of the command line ({wanted})", text, file=transcript.path, line=line)
        return wanted
    powers = [reading for reading in readings if _powers_of_two(reading)]
    if not powers:
        expected = "an echo of powers of two for workGroupSize, strideLength and memBurstSize"
        raise InputError(expected, text, file=transcript.path, line=line)
    # A configuration file may override what was echoed, so that it need not agree with run.yaml.
    stated = [reading for reading in powers if transcript.config_opened or _agrees(reading, run)]
    if not stated:
        raise InputError(
            "an echo that agrees with run.yaml",
            f"{text} ({powers[0]})",
            file=transcript.path,
            line=line,
        )
    problems = [_problem(reading, run) for reading in stated]
    sound = [reading for reading, problem in zip(stated, problems, strict=True) if problem is None]
    if not sound:
        raise InputError(str(problems[0]), f"{text} ({stated[0]})", file=transcript.path, line=line)
    if len(sound) > 1:
        # An option without echo has its default, which may settle it against run.yaml.
        settled = [reading for reading in sound if _agrees(_with_defaults(reading, run), run)]
        sound = settled if len(settled) == 1 else sound
    if len(sound) > 1:
        meanings = " or ".join(f"({reading})" for reading in sound[:3])
        expected = "an echo that can be read in one way, or the key 'command' in run.yaml"
        raise InputError(expected, f"{text}: {meanings}", file=transcript.path, line=line)
    return sound[0]


def _check_config(transcript: Transcript, command: Options | None) -> None:
    opened = None if transcript.config is None else transcript.config.text
    if command is None or opened == command.config_file or (opened is None and not transcript.has_start):
        return
    line = transcript.config.line if transcript.config else transcript.status_line
    expected = f"the configuration file of the command line, {command.config_file or 'none'}"
    raise InputError(expected, opened or "none", file=transcript.path, line=line)


def _check_command_echoed(transcript: Transcript, command: Options) -> None:
    wanted = _of_command(command)
    if transcript.has_start and transcript.status_line is not None and wanted != _Reading():
        raise InputError(
            f"an echo of the command line ({wanted})",
            "none",
            file=transcript.path,
            line=transcript.status_line,
        )


def _of_command(command: Options) -> _Reading:
    return _Reading(command.channel, command.working_set_bytes, command.stride_bytes, command.burst_bytes)


def _readings(numbers: list[Line], glued: Line | None) -> Iterator[_Reading]:
    """Yield every way to read the echo, from the order in which the program prints."""
    lines = [echo.text for echo in numbers]
    tail = "" if glued is None else glued.text
    starts: list[tuple[int | None, list[str]]] = [(None, lines)]
    if lines and int(lines[0]) < CHANNELS:
        starts.append((int(lines[0]), lines[1:]))
    for channel, rest in starts:
        if len(rest) == 1:  # [W]S, then [B]
            for working_set, stride in _splits(rest[0]):
                yield _Reading(channel, working_set, stride, int(tail) if tail else None)
        elif not rest and tail:  # [W][B], at least one
            yield _Reading(channel, working_set=int(tail))
            for working_set, burst in _splits(tail):
                yield _Reading(channel, working_set, burst=burst)
        elif not rest:
            yield _Reading(channel)


def _splits(text: str) -> Iterator[tuple[int | None, int]]:
    yield None, int(text)
    for cut in range(1, len(text)):
        working_set, other = int(text[:cut]), int(text[cut:])
        if text[cut] != "0" and min(working_set, other) >= WORD_BYTES:
            yield working_set, other


def _powers_of_two(reading: _Reading) -> bool:
    values = (reading.working_set, reading.stride, reading.burst)
    return all(value is None or is_power_of_two(value) for value in values)


def _agrees(reading: _Reading, run: ShuhaiRun | None) -> bool:
    """Return whether a reading agrees with the single numbers of ``run.yaml``."""
    if run is None:
        return True
    pairs = (
        (reading.working_set, run.working_set_bytes),
        (reading.stride, run.stride_bytes),
        (reading.burst, run.burst_bytes),
    )
    return all(echoed is None or not isinstance(stated, int) or echoed == stated for echoed, stated in pairs)


def _with_defaults(reading: _Reading, run: ShuhaiRun | None) -> _Reading:
    memory = "hbm" if run is None else run.memory
    defaults = _Reading(
        working_set=DEFAULT_WORKING_SET_BYTES, stride=default_stride(memory, 0), burst=DEFAULT_BURST_BYTES
    )
    return replace(defaults, **{name: value for name, value in asdict(reading).items() if value is not None})


def _problem(reading: _Reading, run: ShuhaiRun | None) -> str | None:
    """Return what the program's documentation asks for and a reading violates, if anything."""
    memory = "hbm" if run is None else run.memory
    smallest = SMALLEST_BURST_BYTES[memory]
    if reading.burst is not None and not smallest <= reading.burst <= LARGEST_BURST_BYTES:
        return f"memBurstSize from {smallest} to {LARGEST_BURST_BYTES}"
    if reading.stride is not None and reading.stride < smallest:
        return f"strideLength of at least {smallest}"
    if reading.channel is not None and memory != "hbm":
        return "no channel (only test-hbm has this option)"
    working_set = DEFAULT_WORKING_SET_BYTES if reading.working_set is None else reading.working_set
    stride = default_stride(memory, 0) if reading.stride is None else reading.stride
    if stride > working_set:
        return f"strideLength of at most workGroupSize, {working_set}"
    return None
