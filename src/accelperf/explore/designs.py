"""Designs: the platforms that the values of some axes make of a base platform."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from accelperf.errors import InputError
from accelperf.explore.axes import AXIS_KINDS, PER_FILTER, Axis, Value
from accelperf.memory.profiles import layer_efficiency, platform_efficiency
from accelperf.platforms import MemoryPattern, Platform
from accelperf.yaml_input import first_problem

Floats = NDArray[np.float64]

MOST_DESIGNS = 100_000
"""Most combinations of one exploration."""

_OF_PATTERN = {"memory_profile": "profile", "memory_channels": "channels"}


@dataclass(frozen=True)
class Designs:
    """The valid platforms of a design space.

    Attributes
    ----------
    base : Platform
        What was varied.
    axes : tuple of Axis
        How.
    platforms : tuple of Platform
        The valid combinations, in the order of the axes' values, the last axis fastest.
    settings : tuple of tuple
        The value of every axis for each platform.
    efficiency : array of shape [designs, widths]
        Memory efficiency of each platform for layers of each input width [1].
    widths : array of int, shape [widths]
        Different input widths of the layers, ascending [pixel].
    invalid : Mapping of str to int
        Number of combinations that are no platform, by reason.
    """

    base: Platform
    axes: tuple[Axis, ...]
    platforms: tuple[Platform, ...]
    settings: tuple[tuple[Value, ...], ...]
    efficiency: Floats
    widths: NDArray[np.int64]
    invalid: Mapping[str, int]

    def __len__(self) -> int:
        """Return the number of valid platforms."""
        return len(self.platforms)

    def column(self, name: str) -> NDArray[Any]:
        """Return an attribute of all platforms, shape [designs]."""
        return np.array([getattr(platform, name) for platform in self.platforms])


def make_designs(
    base: Platform, axes: Sequence[Axis], memory: pd.DataFrame | None, input_widths: Sequence[int]
) -> Designs:
    """Return all combinations of the axes' values that are valid platforms.

    Parameters
    ----------
    base : Platform
        Where everything that is not varied comes from. ``memory_ports`` that it gives stay what they
        are when PF is varied; those that it leaves out follow PF.
    axes : sequence of Axis
        What is varied.
    memory : DataFrame or None
        Memory table, where efficiencies are looked up there.
    input_widths : sequence of int
        Input widths of the layers [pixel], for platforms whose access pattern follows the layer.

    Returns
    -------
    Designs
        At least one.

    Raises
    ------
    InputError
        If there are too many combinations or no valid one, or a memory profile is to be varied of a
        platform that names none.
    """
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST_DESIGNS:
        raise InputError(f"at most {MOST_DESIGNS} combinations", f"{count}")
    names = [axis.name for axis in axes]
    for name in names:
        if name in _OF_PATTERN and not isinstance(base.memory_efficiency, MemoryPattern):
            got = f"{base.memory_efficiency:g}"
            raise InputError(f"{base.name} with a memory profile as memory_efficiency, to vary {name}", got)
    widths = np.unique(np.asarray(input_widths, dtype=np.int64))
    found: list[tuple[Platform, tuple[Value, ...], Floats]] = []
    invalid: Counter[str] = Counter()
    lookup = _EfficiencyLookup(base.name, memory, widths)
    choices = [axis.values for axis in axes]  # noqa: PD011 - no data frame
    for values in itertools.product(*choices):
        try:
            platform = _platform(base, dict(zip(names, values, strict=True)))
            found.append((platform, values, lookup(platform)))
        except ValidationError as error:
            problem = first_problem(error)
            invalid[f"{'.'.join(problem.path)}: {problem.message}"] += 1
        except InputError as error:
            invalid[error.expected] += 1
    if not found:
        reasons = ", ".join(f"{reason} ({number})" for reason, number in invalid.items())
        raise InputError("at least one combination that is a valid platform", f"none of {count}: {reasons}")
    platforms, settings, efficiencies = zip(*found, strict=True)
    return Designs(base, tuple(axes), platforms, settings, np.array(efficiencies), widths, dict(invalid))


def _platform(base: Platform, values: Mapping[str, Value]) -> Platform:
    """Return the base platform with some values in place of its own, checked."""
    content = base.model_dump()
    for name, value in values.items():
        if name in _OF_PATTERN:
            content["memory_efficiency"][_OF_PATTERN[name]] = value
        else:
            content[name] = None if name == "memory_ports" and value == PER_FILTER else value
    content["name"] = design_name(base.name, values)
    return Platform.model_validate(content)


def design_name(base: str, values: Mapping[str, Value]) -> str:
    """Return a design's name: the base platform's, and what is varied.

    Examples
    --------
    >>> design_name("board", {"filter_parallelism": 32, "logic_clock_mhz": 200.0})
    'board+PF32+LCLK200'
    """
    words = [base]
    for name, value in values.items():
        text = f"{value:.12g}" if isinstance(value, float) else str(value)
        words.append(re.sub(r"[^A-Za-z0-9_.+-]", "-", AXIS_KINDS[name].symbol + text))
    return "+".join(words)


class _EfficiencyLookup:
    """Looks each access pattern up once: designs that share it differ in what it does not depend on.

    Messages carry the base platform's name, so that the same reason is one reason.
    """

    def __init__(self, name: str, memory: pd.DataFrame | None, widths: NDArray[np.int64]) -> None:
        self.name = name
        self.memory = memory
        self.widths = widths
        self._known: dict[tuple[object, ...], Floats | InputError] = {}

    def __call__(self, platform: Platform) -> Floats:
        """Return the efficiency for layers of each width, shape [widths]."""
        pattern = platform.memory_efficiency
        if not isinstance(pattern, MemoryPattern):
            return np.full(len(self.widths), pattern)
        key = (
            pattern,
            platform.memory_clock_mhz,
            platform.transfer_width_bits,
            platform.ports,
            platform.data_width_bits if pattern.follows_layer else None,
        )
        if key not in self._known:
            try:
                self._known[key] = self._look_up(platform.model_copy(update={"name": self.name}), pattern)
            except InputError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, InputError):
            raise found
        return found

    def _look_up(self, platform: Platform, pattern: MemoryPattern) -> Floats:
        if not pattern.follows_layer:
            return np.full(len(self.widths), platform_efficiency(platform, self.memory).value)
        rows = [math.ceil(int(width) * platform.data_width_bits / 8) for width in self.widths]
        return np.array([layer_efficiency(platform, self.memory, row).value for row in rows])
