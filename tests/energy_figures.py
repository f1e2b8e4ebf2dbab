"""How the energy figures of the machine files follow from published ones: the tests' own sums.

Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, gives 45 nm;
Jouppi et al., "Ten lessons from three generations shaped Google's TPUv4i", ISCA 2021, table 2,
gives the same operations at 45 and at 7 nm. Between the two a figure is interpolated as a power of
the node; a memory's, between sizes, as a power of the size. Beyond 45 nm all scales with Stillmaker
and Baas, Integration 58 (2017), whose quadratics in the supply voltage are below.
"""

from __future__ import annotations

from math import log

PICO = 1e-12

# Picojoules at 45 nm and at 7 nm.
INT8_ADD = (0.03, 0.007)
INT32_ADD = (0.1, 0.03)
INT8_MULTIPLY = (0.2, 0.07)
FLOAT32_ADD = (0.9, 0.38)
FLOAT32_MULTIPLY = (3.7, 1.31)
# 64 bits of SRAM of so many KiB.
SRAM = {8: (10, 7.5), 32: (20, 8.5), 1024: (100, 14)}

# A flip-flop's clock and data, a byte: assumed between an 8-bit and a 32-bit add (45 nm), and
# scaled as the 8-bit add.
REGISTER = (0.05, 0.05 * 0.007 / 0.03)

DDR3_JOULES_PER_BYTE = 1300 * PICO / 8  # Horowitz 2014: 1.3 to 2.6 nJ for 64 bits
HBM2_JOULES_PER_BYTE = 3.92 * PICO * 8  # O'Connor et al., MICRO 2017: 3.92 pJ a bit
LPDDR4_JOULES_PER_BYTE = 8 * PICO * 8  # Accelergy's LPDDR4: 512 pJ for 64 bits

# Energy is a * v**2 + b * v + c in arbitrary units, by node.
STILLMAKER = {65: (3.755, -4.398, 1.975), 45: (1.103, -0.362, 0.2767)}


def at(node_nm: float, pair: tuple[float, float]) -> float:
    """Picojoules at a node between 45 and 7 nm."""
    part = log(45 / node_nm) / log(45 / 7)
    return pair[0] * (pair[1] / pair[0]) ** part


def sram(node_nm: float, kib: float) -> float:
    """Picojoules a byte of an SRAM of this size; below 8 KiB as 8 KiB."""
    sizes = sorted(SRAM)
    low, high = (8, 32) if kib <= 32 else (32, 1024)
    first, last = at(node_nm, SRAM[low]), at(node_nm, SRAM[high])
    power = log(last / first) / log(high / low)
    return first * (max(kib, sizes[0]) / low) ** power / 8


def int8_mac(node_nm: float) -> float:
    return at(node_nm, INT8_MULTIPLY) + at(node_nm, INT32_ADD)


def vector_operation(node_nm: float) -> float:
    """A float32 multiplication and addition: what requantising one sum takes."""
    return at(node_nm, FLOAT32_MULTIPLY) + at(node_nm, FLOAT32_ADD)


def stillmaker(node_nm: int, volts: float, volts_at_45: float = 0.9) -> float:
    """Energy at a node over that at 45 nm and Horowitz's 0.9 V."""

    def quadratic(node: int, supply: float) -> float:
        a, b, c = STILLMAKER[node]
        return a * supply**2 + b * supply + c

    return quadratic(node_nm, volts) / quadratic(45, volts_at_45)
