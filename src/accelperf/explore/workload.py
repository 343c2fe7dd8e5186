"""The layers of some networks, each distinct one once, and their features on designs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.explore.designs import Designs
from accelperf.features import FEATURE_COLUMNS, FeatureMatrix
from accelperf.layers import GEOMETRY_COLUMNS
from accelperf.models.base import Predictor
from accelperf.platforms import Platform
from accelperf.predict.workload import Unsupported
from accelperf.predict.workload import make_workload as supported_layers

Integers = NDArray[np.int64]

_ENDS = ("is_first", "is_last")
_OF_DESIGN = (
    "filter_parallelism",
    "channel_parallelism",
    "transfer_width_bits",
    "data_width_bits",
    "unrolled_loop",
)
_CLOCKS = ("logic_clock_mhz", "memory_clock_mhz")


@dataclass(frozen=True)
class Workload:
    """Distinct layers of some networks.

    Attributes
    ----------
    networks : tuple of str
        Names of the networks.
    layers : DataFrame
        One row a distinct layer, in the order of their first appearance: network, layer and operator
        (where it appears first), geometry, ``is_first`` and ``is_last``. Layers that do not differ in
        geometry and place are one, as a network's 53 convolutions may have 23 shapes.
    counts : array of int, shape [networks, layers]
        How often each network has each of them.
    unsupported : Mapping of str to tuple of Unsupported
        For each network its layers that cannot be predicted, which no total holds.
    """

    networks: tuple[str, ...]
    layers: pd.DataFrame
    counts: Integers
    unsupported: Mapping[str, tuple[Unsupported, ...]]

    def __len__(self) -> int:
        """Return the number of distinct layers."""
        return len(self.layers)


def make_workload(networks: Mapping[str, pd.DataFrame], platform: Platform, predictor: Predictor) -> Workload:
    """Return the distinct layers of some networks that an estimator can predict.

    Which these are, and as what, is what `accelperf.predict.workload` says: convolutions, and fully
    connected layers as convolutions of 1 x 1.

    Parameters
    ----------
    networks : Mapping of str to DataFrame
        Network tables by name (`accelperf.networks.read_network`).
    platform : Platform
        Any one: no layer depends on it.
    predictor : Predictor
        What is to predict.

    Raises
    ------
    InputError
        If no layer of a network can be predicted.
    """
    anywhere = platform.model_copy(update={"memory_efficiency": 1.0})
    parts, unsupported = [], {}
    for name, table in networks.items():
        found = supported_layers(name, table, anywhere, None, predictor)
        parts.append(found.features.table.assign(operator=list(found.operators), network=name))
        unsupported[name] = found.unsupported
    # Dilated layers are among the unsupported ones; the features have no column for it.
    everything = pd.concat(parts, ignore_index=True).assign(dilation_height=1, dilation_width=1)
    key = [*GEOMETRY_COLUMNS, *_ENDS]
    place = everything.groupby(key, sort=False).ngroup().to_numpy()
    layers = everything.drop_duplicates(key)[["network", "layer", "operator", *key]].reset_index(drop=True)
    counts = np.zeros((len(networks), len(layers)), dtype=np.int64)
    names = tuple(networks)
    np.add.at(counts, (everything["network"].map(names.index).to_numpy(), place), 1)
    return Workload(names, layers, counts, unsupported)


def features_on(workload: Workload, designs: Designs, index: Integers) -> FeatureMatrix:
    """Return the features of all distinct layers on some designs, to predict for.

    They are those of `accelperf.features.network_features`, for many platforms at once.

    Parameters
    ----------
    workload : Workload
        The layers.
    designs : Designs
        The designs.
    index : array of int
        Which of them.

    Returns
    -------
    FeatureMatrix
        One row a layer and design: all layers of the first design, then those of the next.

    Raises
    ------
    InputError
        If a parameter of a layer is out of its bounds.
    """
    count = len(workload)
    columns = {
        str(name): np.tile(workload.layers[name].to_numpy(), len(index))
        for name in workload.layers.columns
        if name in FEATURE_COLUMNS
    }
    columns["position"] = np.tile(np.arange(count), len(index))
    platforms = [designs.platforms[place] for place in index]
    columns["accelerator"] = np.repeat([platform.name for platform in platforms], count)
    for name in _OF_DESIGN:
        columns[name] = np.repeat([getattr(platform, name) for platform in platforms], count)
    for name in _CLOCKS:
        columns[name] = np.repeat([float(getattr(platform, name)) for platform in platforms], count)
    columns["memory_ports"] = np.repeat([platform.ports for platform in platforms], count)
    width = np.searchsorted(designs.widths, workload.layers["input_width"].to_numpy())
    columns["memory_efficiency"] = designs.efficiency[index][:, width].ravel()
    table = pd.DataFrame(columns).assign(origin="estimated", latency_ms=np.nan)
    return FeatureMatrix(table, source=", ".join(workload.networks))
