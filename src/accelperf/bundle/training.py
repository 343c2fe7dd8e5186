"""What an estimator was trained on, as far as a prediction needs to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from accelperf.errors import InputError
from accelperf.features import FeatureMatrix
from accelperf.parameters import PARAMETER_NAMES

RANGED_COLUMNS: tuple[str, ...] = (
    *PARAMETER_NAMES,
    "stride_height",
    "stride_width",
    "pad_top",
    "pad_bottom",
    "pad_left",
    "pad_right",
    "groups",
    "memory_ports",
    "latency_ms",
)
"""Columns whose least and greatest value a bundle keeps."""


@dataclass(frozen=True)
class TrainingData:
    """The rows that an estimator was fitted to.

    Attributes
    ----------
    features_md5 : str
        MD5 of the file that they came from.
    rows : int
        Their number.
    origins : tuple of str
        Where their latencies come from: measured, simulated or estimated.
    ranges : Mapping of str to tuple
        Least and greatest value of each of `RANGED_COLUMNS` (units as in the features).
    accelerators, networks, unrolled_loops : tuple of str
        Those among the rows; empty in bundles of format 1, which do not say.
    """

    features_md5: str
    rows: int
    origins: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]]
    accelerators: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    unrolled_loops: tuple[str, ...] = field(default=())

    @property
    def simulated(self) -> bool:
        """Whether any of the rows was simulated."""
        return "simulated" in self.origins

    @classmethod
    def of(cls, features: FeatureMatrix, features_md5: str) -> TrainingData:
        """Return the description of some features."""
        table = features.table

        def names(column: str) -> tuple[str, ...]:
            return tuple(sorted({str(name) for name in table[column]}))

        return cls(
            features_md5=features_md5,
            rows=len(features),
            origins=names("origin"),
            ranges={
                name: (float(np.min(table[name])), float(np.max(table[name]))) for name in RANGED_COLUMNS
            },
            accelerators=names("accelerator"),
            networks=names("network"),
            unrolled_loops=names("unrolled_loop"),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the description as plain values for JSON."""
        return {
            "features_md5": self.features_md5,
            "rows": self.rows,
            "origins": list(self.origins),
            "accelerators": list(self.accelerators),
            "networks": list(self.networks),
            "unrolled_loops": list(self.unrolled_loops),
            "range": {name: list(bounds) for name, bounds in self.ranges.items()},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], path: Path) -> TrainingData:
        """Return the description that `as_json` gave, also that of format 1.

        Raises
        ------
        InputError
            If a part is missing or of another kind.
        """

        def names(key: str) -> tuple[str, ...]:
            found = content.get(key, [])
            if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
                raise InputError(f"training.{key}: a list of texts", _short(found), file=path)
            return tuple(found)

        digest, rows, ranges = (content.get(key) for key in ("features_md5", "rows", "range"))
        if not isinstance(digest, str):
            raise InputError("training.features_md5: a text", _short(digest), file=path)
        if type(rows) is not int or rows < 1:
            raise InputError("training.rows: a whole number of 1 or more", _short(rows), file=path)
        if not isinstance(ranges, dict) or not set(PARAMETER_NAMES) <= set(ranges):
            raise InputError("training.range: bounds of the 15 parameters", _short(ranges), file=path)
        for name, bounds in ranges.items():
            pair = isinstance(bounds, list) and len(bounds) == 2
            if not pair or not all(type(bound) in (int, float) for bound in bounds):
                raise InputError(f"training.range.{name}: two numbers", _short(bounds), file=path)
        return cls(
            features_md5=digest,
            rows=rows,
            origins=names("origins"),
            ranges={name: (float(low), float(high)) for name, (low, high) in ranges.items()},
            accelerators=names("accelerators"),
            networks=names("networks"),
            unrolled_loops=names("unrolled_loops"),
        )


def _short(value: object) -> str:
    return "nothing" if value is None else repr(value)[:60]
