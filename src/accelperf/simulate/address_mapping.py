"""Address mapping policies: which bits of an address choose row, bank group, bank and column.

A policy is the list of its fields from the most significant bit down, as the Shuhai paper prints
it: ``14R-1BG-2B-5C-1BG`` takes 14 row bits from the top. A field that is split keeps its order: its
higher piece holds the higher bits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError, known

Integers = NDArray[np.int64]

FIELDS: tuple[str, ...] = ("R", "BG", "B", "C")
"""Row, bank group, bank (within its group) and column."""


class Location(NamedTuple):
    """Where addresses lie in the DRAM; arrays of one shape."""

    row: Integers
    bank_group: Integers
    bank: Integers
    column: Integers


@dataclass(frozen=True)
class AddressMapping:
    """One policy of one memory.

    Attributes
    ----------
    memory : str
        ``hbm`` or ``ddr4``.
    name : str
        Name of the policy in ``run.yaml``.
    pattern : str
        Fields from the most significant bit down.
    lowest_bit : int
        Address bit of the least significant field bit; the bits below choose the byte in a beat.
    status : {"V", "R"}
        Whether the bit order was verified in a source.
    default : bool
        Whether the vendor's controller has it by default.
    """

    memory: str
    name: str
    pattern: str
    lowest_bit: int
    status: str
    default: bool = False

    def pieces(self) -> list[tuple[str, int]]:
        """Return the fields and their bits from the most significant down."""
        pieces = []
        for piece in self.pattern.split("-"):
            match = re.fullmatch(r"(\d+)(R|BG|B|C)", piece)
            if match is None:
                raise ValueError(f"a piece such as 14R in an address mapping, got {piece!r}")
            pieces.append((match[2], int(match[1])))
        return pieces

    @property
    def capacity_bytes(self) -> int:
        """Bytes that the mapped bits reach; addresses repeat above."""
        return 1 << (self.lowest_bit + sum(bits for _, bits in self.pieces()))

    def locate(self, addresses: Integers) -> Location:
        """Return row, bank group, bank and column of byte addresses.

        Parameters
        ----------
        addresses : ndarray of int64
            Byte addresses, any shape, each 0 or more.

        Returns
        -------
        Location
            Arrays of the same shape.
        """
        rest = addresses >> self.lowest_bit
        found = {name: np.zeros_like(rest) for name in FIELDS}
        filled = dict.fromkeys(FIELDS, 0)
        for name, bits in reversed(self.pieces()):
            found[name] |= (rest & ((1 << bits) - 1)) << filled[name]
            filled[name] += bits
            rest = rest >> bits
        return Location(found["R"], found["BG"], found["B"], found["C"])

    def address(self, location: Location) -> Integers:
        """Return the byte addresses of locations: the inverse of `locate` at beat boundaries."""
        rest = dict(zip(FIELDS, location, strict=True))
        address = np.zeros_like(location.row)
        shift = self.lowest_bit
        for name, bits in reversed(self.pieces()):
            address |= (rest[name] & ((1 << bits) - 1)) << shift
            rest[name] = rest[name] >> bits
            shift += bits
        return address


_HBM_LOWEST_BIT = 5
_DDR4_LOWEST_BIT = 6

POLICIES: tuple[AddressMapping, ...] = (
    AddressMapping("hbm", "RGBCG", "14R-1BG-2B-5C-1BG", _HBM_LOWEST_BIT, "R", default=True),
    AddressMapping("hbm", "RBC", "14R-2BG-2B-5C", _HBM_LOWEST_BIT, "V"),
    AddressMapping("hbm", "RCB", "14R-5C-2BG-2B", _HBM_LOWEST_BIT, "V"),
    AddressMapping("hbm", "BRC", "2BG-2B-14R-5C", _HBM_LOWEST_BIT, "V"),
    AddressMapping("hbm", "BRGCG", "2B-14R-1BG-5C-1BG", _HBM_LOWEST_BIT, "V"),
    AddressMapping("ddr4", "RCB", "17R-7C-2B-2BG", _DDR4_LOWEST_BIT, "V", default=True),
    AddressMapping("ddr4", "RBC", "17R-2BG-2B-7C", _DDR4_LOWEST_BIT, "V"),
    AddressMapping("ddr4", "BRC", "2BG-2B-17R-7C", _DDR4_LOWEST_BIT, "V"),
    AddressMapping("ddr4", "RCBI", "17R-6C-2B-1C-2BG", _DDR4_LOWEST_BIT, "R"),
)
"""Policies of both memories (Shuhai, FCCM 2020; V and R as in `accelperf.simulate.dram_timing`)."""


def address_mapping(memory: str, policy: str | None = None) -> AddressMapping:
    """Return a policy by name.

    Parameters
    ----------
    memory : {"hbm", "ddr4"}
        The memory.
    policy : str, optional
        Name of the policy; the controller's default where it is not given.

    Returns
    -------
    AddressMapping
        The policy.

    Raises
    ------
    InputError
        If the memory has no policy of this name.
    """
    for mapping in POLICIES:
        if mapping.memory == memory and (mapping.default if policy is None else mapping.name == policy):
            return mapping
    names = [mapping.name for mapping in POLICIES if mapping.memory == memory]
    if not names:
        raise InputError("memory hbm or ddr4", repr(memory))
    raise InputError(f"an address mapping policy of {memory} ({known(names)})", repr(policy))
