"""A fitted estimator on disk: JSON and arrays, nothing that executes.

A bundle is a folder with two files. ``bundle.json`` holds format version, estimator, settings,
library versions, feature schema, training data (MD5, rows, origins, ranges), metrics and the
predictor's values; ``arrays-HASH.npz`` holds its arrays. The first line of ``bundle.json`` has the
checksum of all that follows, which names the checksum of the arrays. Loading needs NumPy and SciPy;
nothing in a bundle is ever run, and what a bundle says is checked before it is believed.
"""

from accelperf.bundle.store import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    Bundle,
    load_bundle,
    save_bundle,
)
from accelperf.bundle.training import TrainingData

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "MANIFEST",
    "Bundle",
    "TrainingData",
    "load_bundle",
    "save_bundle",
]
