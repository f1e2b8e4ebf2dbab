"""What a descriptor costs on the device-memory port: every burst it touches, at least a line slot.

An element costs the bursts that it touches beyond the last one that the element before it touched,
and never less than its share of a cycle on the on-chip side. So contiguous elements share bursts,
scattered ones pay whole bursts, and layout matters.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

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
    return _port_cycles(
        machine.burst_cycles,
        burst,
        address % burst,
        element_bytes,
        counts,
        strides,
        elements_per_cycle,
    )


@lru_cache(maxsize=65536)
def _port_cycles(
    burst_cycles: Fraction,
    burst_bytes: int,
    phase: int,
    element_bytes: int,
    counts: tuple[int, ...],
    strides: tuple[int, ...],
    elements_per_cycle: int,
) -> int:
    addresses = nested(phase, counts, strides)
    first = addresses // burst_bytes
    last = (addresses + element_bytes - 1) // burst_bytes
    fresh = last - first + 1
    fresh[1:] -= first[1:] == last[:-1]
    # Exact rational arithmetic: everything in ticks of 1 / denominator of a cycle.
    least = Fraction(1, elements_per_cycle)
    denominator = np.lcm(burst_cycles.denominator, least.denominator)
    burst_ticks = burst_cycles.numerator * (denominator // burst_cycles.denominator)
    least_ticks = least.numerator * (denominator // least.denominator)
    ticks = int(np.maximum(fresh * burst_ticks, least_ticks).sum())
    return -(-ticks // int(denominator))
