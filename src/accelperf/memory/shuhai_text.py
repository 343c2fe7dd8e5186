"""What stands in the text that Shuhai prints, before any of it is interpreted.

`read_transcript` reads a capture of any size in one pass. The program's lines, in order: a preamble
about devices, echoes of its options (numbers that may run into the following line), one pair of
status lines a second until all enabled channels are done, one speed a channel and direction, and
100 latency counts where a latency channel was enabled (RC4ML/Shuhai, verified in its sources).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from accelperf.errors import InputError
from accelperf.memory.shuhai_program import CHANNELS
from accelperf.memory.shuhai_transcript import PRINTED_COUNTS, Direction, Line, Speed, Transcript
from accelperf.memory.text_stream import Cycles, compact, parse_numbers, read_blocks

_DIRECTIONS: dict[bytes, Direction] = {b"wr": "write", b"rd": "read"}
_STOP = "。".encode()
_STATUS_PAIRS = re.compile(
    rb"(?:endWr status: 0x([0-9a-f]{1,8})" + _STOP + rb"\nendRd status: 0x([0-9a-f]{1,8})" + _STOP + rb"\n)++"
)
_STATUS = re.compile(rb"end(Wr|Rd) status: 0x([0-9a-f]{1,8})" + _STOP)
_SPEED = re.compile(rb"The chennel (\d{1,2}), (wr|rd)_speed: (\d+(?:\.\d+)?(?:e[-+]\d+)?|inf|-?nan) GB/s")
_COUNTS = re.compile(rb"(?:  [0-9a-f]{1,8})+ *")
_MORE_COUNTS = {10: re.compile(rb"[0-9 \n]*+"), 16: re.compile(rb"[0-9a-f \n]*+")}
_ENABLES = re.compile(rb"[01]{32}")
_NUMBER = re.compile(rb"\d{1,24}")
_CONFIG = re.compile(rb"open (\S+) (succeed|failed)\b.*")
_GLUED = re.compile(rb"(\d{1,24})(endWr status: .*|open \S+ (?:succeed|failed)\b.*)")
_COMMAND = re.compile(rb"(?:^|[\s/])test-(?:hbm|ddr)(?: .*)?$")
_FIRST_LINE = b"memory manager init"
_KEYWORDS = (b"endWr status: 0x", b"endRd status: 0x", b"The chennel ")


MOST_OTHER_LINES = 10
"""Lines of other origin that are kept for a message."""


def read_transcript(path: Path) -> Transcript:
    """Read a capture of Shuhai's output.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Transcript
        What it holds.

    Raises
    ------
    InputError
        If the file cannot be read, a line of the program is malformed, a speed comes twice, or a
        second run begins.
    """
    reader = _Reader(Transcript(path))
    for first, block in read_blocks(path):
        reader.read(first, block)
    return reader.finish()


class _Reader:
    """State of the pass: where it stands in the program's output."""

    def __init__(self, transcript: Transcript) -> None:
        self.found = transcript
        self.running = False  # the first status line was seen
        self.in_counts = False
        self.last_status = b""
        self.blocks: list[Cycles] = []

    def read(self, first: int, block: bytes) -> None:
        """Read one block of lines."""
        position, line = 0, first
        while position < len(block):
            self.found.lines = line - 1
            end = self._bulk(block, position)
            if end == position:
                stop = block.find(b"\n", position)
                end = len(block) if stop < 0 else stop + 1
                self._line(block[position : end if stop < 0 else stop], line, whole=stop >= 0)
                line += 1
            else:
                line += block.count(b"\n", position, end)
                if not self.in_counts:
                    self.found.status_line = line - 1
            position = end
        self.found.lines = line - 1

    def _bulk(self, block: bytes, position: int) -> int:
        """Read many lines of one kind at once; return where they end."""
        if self.in_counts:
            match = _MORE_COUNTS[self.found.counts_base].match(block, position)
            end = 0 if match is None else block.rfind(b"\n", position, match.end()) + 1
            if end > position:
                self._add_counts(block[position:end], self.found.lines + 1)
                return end
        elif block.startswith(b"endWr", position) and not (self.found.speeds or self.last_status == b"Wr"):
            match = _STATUS_PAIRS.match(block, position)
            if match is not None:
                self.running, self.last_status = True, b"Rd"
                self.found.status_pairs += block.count(b"\n", position, match.end()) // 2
                self.found.end_write, self.found.end_read = int(match[1], 16), int(match[2], 16)
                return match.end()
        return position

    def _line(self, text: bytes, line: int, *, whole: bool) -> None:
        """Read one line without its line feed; `whole` says whether it had one."""
        found = self.found
        if not text.strip():
            return
        glued = _GLUED.fullmatch(text)
        if glued is not None and not self.running and found.glued is None:
            found.glued = Line(glued[1].decode(), line)
            text = glued[2]
        if self._known(text, line):
            found.breaks_off_in_counts = self.in_counts and not whole
            return
        if not whole and any(word.startswith(text) or text.startswith(word) for word in _KEYWORDS):
            found.truncated = Line(_readable(text), line)
        elif any(word in text for word in _KEYWORDS):
            raise self._error("a status or speed line of Shuhai", _readable(text), line)
        elif self.running or found.speeds or self.in_counts:
            found.other_lines += 1
            if len(found.other) < MOST_OTHER_LINES:
                found.other.append(Line(_readable(text), line))

    def _known(self, text: bytes, line: int) -> bool:
        found = self.found
        if match := _STATUS.fullmatch(text):
            self._status(match, line)
        elif match := _SPEED.fullmatch(text):
            self._speed(match, line)
        elif _COUNTS.fullmatch(text):
            self._counts(text, line)
        elif self.running or found.speeds or self.in_counts:
            if text.startswith(_FIRST_LINE):
                raise self._error("one run a file", "the beginning of a second run", line)
            return False
        elif _ENABLES.fullmatch(text):
            found.enables.append(Line(text.decode(), line))
        elif _NUMBER.fullmatch(text):
            found.numbers.append(Line(text.decode(), line))
        elif match := _CONFIG.fullmatch(text):
            found.config = Line(match[1].decode(errors="replace"), line)
            found.config_opened = match[2] == b"succeed"
        elif match := _COMMAND.search(text):
            found.command = Line(text[match.start() :].decode(errors="replace").strip(), line)
        elif text.startswith(_FIRST_LINE):
            found.has_start = True
        else:
            return False
        found.has_start |= bool(
            found.enables or found.numbers or found.glued or found.config or found.command
        )
        return True

    def _status(self, match: re.Match[bytes], line: int) -> None:
        found = self.found
        if found.speeds or self.in_counts:
            raise self._error("one run a file", "a status after the results, as of a second run", line)
        if self.last_status == match[1]:
            other = "endRd" if match[1] == b"Wr" else "endWr"
            raise self._error(f"an {other} status", f"a second end{match[1].decode()} status", line)
        self.running, self.last_status = True, match[1]
        if match[1] == b"Wr":
            found.end_write = int(match[2], 16)
        else:
            found.end_read = int(match[2], 16)
            found.status_pairs += found.end_write is not None
        found.status_line = line

    def _speed(self, match: re.Match[bytes], line: int) -> None:
        channel, direction = int(match[1]), _DIRECTIONS[match[2]]
        if channel >= CHANNELS:
            raise self._error(f"a channel below {CHANNELS}", str(channel), line)
        if self.in_counts:
            raise self._error("latency counts after all speeds", "a speed after latency counts", line)
        for other in self.found.speeds:
            if (other.channel, other.direction) == (channel, direction):
                expected = f"one {direction} speed of channel {channel}, as in line {other.line}"
                raise self._error(expected, "a second one", line)
        text = match[3].decode()
        self.found.speeds.append(Speed(channel, direction, abs(float(text)), line))

    def _counts(self, text: bytes, line: int) -> None:
        if not self.in_counts:
            self.in_counts = True
            self.found.counts_line = line
            self.found.counts_base = 10 if self.found.speeds else 16
        self._add_counts(text, line)

    def _add_counts(self, text: bytes, line: int) -> None:
        if self.found.counts_base == 10 and text.translate(None, b"0123456789 \n"):
            raise self._error("decimal latency counts (speeds came before)", _readable(text), line)
        try:
            self.blocks.append(compact(parse_numbers(text, self.found.counts_base)))
        except ValueError as error:
            raise self._error("latency counts", str(error), line) from None

    def finish(self) -> Transcript:
        """Put the counts together."""
        if self.blocks:
            self.found.counts = np.concatenate(self.blocks)
            if self.found.breaks_off_in_counts and len(self.found.counts) < PRINTED_COUNTS:
                self.found.counts = self.found.counts[:-1]
        return self.found

    def _error(self, expected: str, got: str, line: int) -> InputError:
        return InputError(expected, got, file=self.found.path, line=line)


def _readable(text: bytes) -> str:
    return repr(text[:60].decode(errors="replace"))
