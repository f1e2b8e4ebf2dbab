"""The instruction set: each instruction's operands, meaning, time, accesses and encoding together.

The reference in docs/isa.md is generated from these classes.
"""

from ridgeline.machine.instructions.activity import Activity
from ridgeline.machine.instructions.array import MatMul
from ridgeline.machine.instructions.lookup import Lookup
from ridgeline.machine.instructions.real import RealElementwise
from ridgeline.machine.instructions.state import Accesses, Space, State
from ridgeline.machine.instructions.transfer import (
    HostRead,
    HostWrite,
    Load,
    Store,
)
from ridgeline.machine.instructions.vector import Elementwise, Requant, WindowReduce
from ridgeline.machine.instructions.weights import LoadParams, LoadWeights
from ridgeline.machine.instructions.word import NO_WAITS, Instruction, Timing, Unit, Waits

HALT_OPCODE = 0
"""Ends a device segment once every unit has drained everything; it has no operands."""

INSTRUCTIONS: dict[int, type[Instruction]] = {
    kind.opcode: kind
    for kind in (
        HostRead,
        HostWrite,
        Load,
        Store,
        LoadWeights,
        LoadParams,
        MatMul,
        Requant,
        Elementwise,
        WindowReduce,
        Lookup,
        RealElementwise,
    )
}

__all__ = [
    "HALT_OPCODE",
    "INSTRUCTIONS",
    "NO_WAITS",
    "Accesses",
    "Activity",
    "Elementwise",
    "HostRead",
    "HostWrite",
    "Instruction",
    "Load",
    "LoadParams",
    "LoadWeights",
    "Lookup",
    "MatMul",
    "RealElementwise",
    "Requant",
    "Space",
    "State",
    "Store",
    "Timing",
    "Unit",
    "Waits",
    "WindowReduce",
]
