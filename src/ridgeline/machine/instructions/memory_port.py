"""What a descriptor costs on the device-memory port: every burst it touches, at least a line slot.

An element costs every burst that it touches, but its first one is free where the element before
it ended in that same burst; and never less than its share of a cycle on the on-chip side. So
contiguous elements share bursts, scattered ones pay whole bursts, and layout matters.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np

from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.state import nested


def port_cycles(
    machine: Machine,
    address: int,
    element_bytes: int,
    counts: tuple[int, ...],
    strides: tuple[int, ...],
    elements_per_cycle: int = 1,
) -> int:
    """Cycles on the port: ceil of the sum over elements of max(1 / elements_per_cycle, bursts)."""
    burst = machine.device_memory.burst_bytes
    elements = _elements(burst, address % burst, element_bytes, counts, strides)
    return _port_cycles(machine.burst_cycles, elements, elements_per_cycle)


def burst_bytes(
    machine: Machine,
    address: int,
    element_bytes: int,
    counts: tuple[int, ...],
    strides: tuple[int, ...],
) -> int:
    """Bytes of all bursts that the elements cost, whole bursts."""
    burst = machine.device_memory.burst_bytes
    elements = _elements(burst, address % burst, element_bytes, counts, strides)
    return burst * sum(bursts * count for bursts, count in elements)


@lru_cache(maxsize=65536)
def _elements(
    burst_bytes: int,
    phase: int,
    element_bytes: int,
    counts: tuple[int, ...],
    strides: tuple[int, ...],
) -> tuple[tuple[int, int], ...]:
    """(bursts, number of elements that cost so many)."""
    addresses = nested(phase, counts, strides)
    first = addresses // burst_bytes
    last = (addresses + element_bytes - 1) // burst_bytes
    fresh = last - first + 1
    fresh[1:] -= first[1:] == last[:-1]
    return tuple((bursts, int(n)) for bursts, n in enumerate(np.bincount(fresh)) if n)


@lru_cache(maxsize=65536)
def _port_cycles(
    burst_cycles: Fraction, elements: tuple[tuple[int, int], ...], elements_per_cycle: int
) -> int:
    # Few distinct numbers of bursts, each priced exactly: Python's fractions do not overflow.
    least = Fraction(1, elements_per_cycle)
    return ceil(sum(count * max(bursts * burst_cycles, least) for bursts, count in elements))
