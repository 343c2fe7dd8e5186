"""Sample profiling logs: the tile-level accelerator run over a network, written in the native format.

Needed where no accelerator is at hand: for the sample data and for trying the pipeline. Every file
that comes from here says SIMULATED in its first line.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from accelperf.errors import InputError
from accelperf.layers import CONVOLUTION, GEOMETRY_COLUMNS
from accelperf.networks import NETWORK_COLUMNS
from accelperf.platforms import Platform
from accelperf.simulate.accelerator import DEFAULT_TIMING, AcceleratorTiming, noise_sigma, simulate_layer
from accelperf.yaml_input import read_mapping

PROFILE_COLUMNS: tuple[str, ...] = ("network", *NETWORK_COLUMNS, "latency_ms")
"""Columns of a profile in the native format, as `write_profile` writes it."""

LATENCY_DECIMALS = 6
"""Latencies are rounded to nanoseconds: finer than any profiler, and the same on every machine."""

RUN_FILE = "run.yaml"


def simulate_profile(
    network: pd.DataFrame,
    platform: Platform,
    memory_efficiency: float,
    *,
    seed: int,
    timing: AcceleratorTiming = DEFAULT_TIMING,
) -> pd.DataFrame:
    r"""Return a SIMULATED profile of a network on a platform.

    Latencies are those of `simulate_layer` times log-normal noise,
    :math:`y = t \exp(\sigma z)` with z standard normal and :math:`\sigma` from `noise_sigma`.

    Parameters
    ----------
    network : DataFrame
        A network table as `read_network` returns it. Rows other than convolutions are left out; the
        first and last convolution count as the first and last layer.
    platform : Platform
        The accelerator.
    memory_efficiency : float
        Share of the platform's peak memory rate that long transfers reach, in (0, 1]. It is the
        caller's to look up, since the platform may only name a memory profile.
    seed : int
        Seed of the noise, 0 or more. Equal arguments give equal profiles; another network or platform
        draws other noise from the same seed.
    timing : AcceleratorTiming
        Constants of the simulated engine.

    Returns
    -------
    DataFrame
        The convolutions of the network table and ``latency_ms``.

    Raises
    ------
    InputError
        If the network has no convolution, the seed is negative or the efficiency is out of bounds.
    """
    if seed < 0:
        raise InputError("a seed of 0 or more", str(seed))
    profile = network.loc[network["operator"] == CONVOLUTION, list(NETWORK_COLUMNS)].reset_index(drop=True)
    if profile.empty:
        raise InputError("a network with a convolution", "none")
    geometry = profile[list(GEOMETRY_COLUMNS)].astype(int)
    # Networks and platforms of one seed must not share their noise, or one would foretell another's.
    own = [zlib.crc32(text.encode()) for text in (platform.name, geometry.to_csv(lineterminator="\n"))]
    normal = np.random.default_rng([seed, *own]).standard_normal(len(profile))
    last = len(profile) - 1
    latency = []
    for position, row in enumerate(geometry.to_dict("records")):
        layer = simulate_layer(
            {str(name): value for name, value in row.items()},
            platform,
            memory_efficiency,
            is_first=position == 0,
            is_last=position == last,
            timing=timing,
        )
        sigma = noise_sigma(layer.memory_bound_share, timing)
        latency.append(layer.latency_ms * np.exp(sigma * normal[position]))
    return profile.assign(latency_ms=np.round(latency, LATENCY_DECIMALS))


def write_profile(
    profile: pd.DataFrame,
    folder: Path,
    *,
    network: str,
    platform: Platform,
    memory_efficiency: float,
    seed: int,
) -> Path:
    """Write a SIMULATED profile and the ``run.yaml`` that a reader needs beside it.

    Parameters
    ----------
    profile : DataFrame
        What `simulate_profile` returned.
    folder : Path
        Folder of one platform's profiles; made if it does not exist.
    network : str
        Name of the network; the file is ``folder/NETWORK.csv``.
    platform : Platform
        The accelerator.
    memory_efficiency, seed : float, int
        What the profile was made with; they stand in its first line.

    Returns
    -------
    Path
        The file, in the native format with one comment line above the header.

    Raises
    ------
    InputError
        If the name is no file name, or the folder holds another platform's or measured profiles.
        Nothing is written then.
    """
    if not network or network.startswith(".") or Path(network).name != network:
        raise InputError("a network's name, without folders or a leading dot", repr(network))
    run_file = folder / RUN_FILE
    run = {
        "origin": "simulated",
        "platform": platform.name,
        "source": "SIMULATED with `accelperf simulate profile`; no accelerator was measured",
    }
    if run_file.exists():
        there, lines = read_mapping(run_file)
        for key in ("origin", "platform"):
            if there.get(key) != run[key]:
                raise InputError(
                    f"{key}: {run[key]} beside a simulated profile of it",
                    repr(there.get(key)),
                    file=run_file,
                    line=lines.get((key,)),
                )
    comment = (
        f"# SIMULATED, not measured (accelperf simulate profile): network {network}, platform "
        f"{platform.name}, memory efficiency {memory_efficiency:.6g}, seed {seed}\n"
    )
    table = profile.assign(network=network)[list(PROFILE_COLUMNS)]
    text = table.to_csv(index=False, lineterminator="\n", float_format=f"%.{LATENCY_DECIMALS}f")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{network}.csv"
    _replace(path, comment + text)
    _replace(run_file, "# SIMULATED\n" + yaml.safe_dump(run, sort_keys=False, width=100))
    return path


def _replace(path: Path, text: str) -> None:
    """Write a file through a temporary one, so that an interruption leaves the old one."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    temporary.replace(path)
