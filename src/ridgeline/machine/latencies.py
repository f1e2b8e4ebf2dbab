"""Every pipeline depth of the machine, in cycles, in one place: the timing and the RTL read it.

Conventions. An instruction *starts* in the cycle in which its unit accepts it; its first element is
addressed one cycle later. `drained` is the first cycle in which the unit's count shows it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latencies:
    """Cycles from an instruction's last issued element until its count shows it as drained.

    load, weights, params: on top of the device memory's latency: response register, write, count.
    store: unified-buffer read, write request, count.
    array: unified-buffer read, zero-point stage, accumulate and write, count; the array's own
      rows + cols come on top.
    weights_from_buffer: unified-buffer read, write, count.
    vector: of a Requant: accumulator read, the pipeline of a lane, write, count.
    vector_from_buffer: of what reads integers from the unified buffer and requantises a sum:
      the five stages from there to the sum come on top.
    vector_real: of QLinearAdd and QLinearMul: two fused multiply-adds in place of requantising.
      Results never overtake each other: an instruction that follows one of a deeper pipeline
      starts that much later.
    link: acknowledgement, on top of the link's latency.
    """

    load: int = 3
    store: int = 3
    weights: int = 3
    weights_from_buffer: int = 3
    link: int = 2
    array: int = 6
    vector: int = 14
    vector_from_buffer: int = 19
    vector_real: int = 31


LATENCIES = Latencies()
