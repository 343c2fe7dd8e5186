"""Why a stride is fast or slow: what an access pattern does in the DRAM under an address mapping.

Three figures explain most of it. Column commands to the bank group of the one before have to wait longer
(tCCD_L instead of tCCD_S), so a pattern that never leaves a bank group has about half the throughput.
A word that lies in another row of its bank needs a precharge and an activate first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelperf.errors import InputError
from accelperf.simulate.address_mapping import address_mapping
from accelperf.simulate.dram_timing import MEMORIES

WORDS = 8192
"""Words that are looked at: enough for every pattern to repeat itself or show its drift."""

WINDOW_WORDS = 32
"""Words that a controller is taken to look ahead, as in the DRAM model."""


@dataclass(frozen=True)
class AddressView:
    """What successive words of a pattern do.

    Attributes
    ----------
    group_changes : float
        Share of words in another bank group than the word before.
    new_rows : float
        Share of words in another row than the last word of their bank.
    banks : int
        Banks that `WINDOW_WORDS` successive words reach, as a median.
    """

    group_changes: float
    new_rows: float
    banks: int


def address_view(
    memory: str, policy: str, *, burst_bytes: int, stride_bytes: int, working_set_bytes: int
) -> AddressView | None:
    """Return what a pattern does in the DRAM.

    Parameters
    ----------
    memory, policy : str
        Memory and address mapping policy.
    burst_bytes, stride_bytes, working_set_bytes : int
        B, S and W [bytes].

    Returns
    -------
    AddressView or None
        None where the policy is not stated or its bits are not known.

    Examples
    --------
    With the default policy of HBM, bit 5 chooses between two bank groups: every second word of a burst of
    64 bytes lies in the other, a burst of one word with an even stride stays where it is.

    >>> address_view("hbm", "RGBCG", burst_bytes=64, stride_bytes=64, working_set_bytes=1 << 28).group_changes
    1.0
    >>> address_view("hbm", "RGBCG", burst_bytes=32, stride_bytes=64, working_set_bytes=4096).group_changes
    0.0
    """
    if memory not in MEMORIES or not policy:
        return None
    try:
        mapping = address_mapping(memory, policy)
    except InputError:
        return None
    word = MEMORIES[memory].beat_bytes
    offsets = np.arange(0, burst_bytes, word, dtype=np.int64)
    index = np.arange(-(-WORDS // len(offsets)) + 1, dtype=np.int64)
    addresses = (index[:, np.newaxis] * stride_bytes % working_set_bytes + offsets).ravel()
    place = mapping.locate(addresses % mapping.capacity_bytes)
    bank = place.bank_group * (int(place.bank.max()) + 1) + place.bank
    windows = np.sort(bank[: WORDS // WINDOW_WORDS * WINDOW_WORDS].reshape(-1, WINDOW_WORDS), axis=1)
    order = np.argsort(bank, kind="stable")
    same_bank = bank[order[1:]] == bank[order[:-1]]
    other_row = place.row[order[1:]] != place.row[order[:-1]]
    return AddressView(
        group_changes=float(np.mean(place.bank_group[1:] != place.bank_group[:-1])),
        new_rows=float(np.count_nonzero(same_bank & other_row) / len(addresses)),
        banks=int(np.median(1 + np.count_nonzero(np.diff(windows, axis=1), axis=1))),
    )
