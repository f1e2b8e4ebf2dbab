"""Emission: instructions in program order, with weight slots, parameter slots and accumulators."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ridgeline.machine.code import Code, Integers
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Instruction
from ridgeline.machine.order import touched_banks

WEIGHT_KEY = 4
"""What tells one tile in a slot from another: address, k, bytes of a row, and all that says how
they become weights, in one number (`lower_matmul`).
"""


_State = tuple[bytes, bytes]
State = tuple[_State, _State, int]
"""What the slots of weights and of parameters hold, and the next accumulator entry."""


class _Slots:
    """Slots of one kind: what they hold, and which was used longest ago."""

    def __init__(self, count: int, width: int) -> None:
        self.held: Integers = np.full((count, width), -1, np.int64)
        self.order: Integers = np.arange(count)

    @property
    def state(self) -> _State:
        return self.held.tobytes(), self.order.tobytes()

    def restore(self, state: _State) -> None:
        self.held = np.frombuffer(bytearray(state[0]), np.int64).reshape(self.held.shape)
        self.order = np.frombuffer(bytearray(state[1]), np.int64)

    def take(self, wishes: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """The slot [n] of each wish [n, width] in turn, and whether it must be loaded first."""
        from ridgeline.compiler import slots

        found, loaded = np.empty(len(wishes), np.int64), np.empty(len(wishes), np.bool_)
        slots.take(wishes, self.held, self.order, found, loaded)
        return found, loaded


class Builder:
    """Collects the instructions of one device segment and tracks what the slots hold."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._blocks: list[Code] = []
        self._single: list[Instruction] = []
        self._weights = _Slots(machine.array.weight_slots, WEIGHT_KEY)
        self._params = _Slots(machine.vector.parameter_slots, 1)
        self._entry = 0

    def add(self, instruction: Instruction) -> None:
        """Append an instruction; its masks of banks follow from what it touches."""
        self._single.append(instruction)

    def add_block(self, code: Code) -> None:
        """Append several, given as columns."""
        self._flush()
        self._blocks.append(code)

    def _flush(self) -> None:
        if self._single:
            self._blocks.append(Code.of(self._single))
            self._single = []

    @property
    def state(self) -> State:
        """All that decides what is emitted next, besides the layer."""
        return self._weights.state, self._params.state, self._entry

    def restore(self, state: State) -> None:
        """Go on from such a state."""
        weights, params, self._entry = state
        self._weights.restore(weights)
        self._params.restore(params)

    def taken(self) -> Code:
        """All instructions so far, in program order, which are no longer the builder's."""
        self._flush()
        blocks, self._blocks = self._blocks, []
        return Code.joined(blocks) if blocks else Code.of(())

    def code(self) -> Code:
        """`taken`, with the masks of the banks that each touches."""
        code = self.taken()
        return code.with_banks(*touched_banks(code, self.machine))

    def weights(self, wishes: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """The slot [n] of each tile [n, WEIGHT_KEY] in turn, and whether it must be loaded."""
        return self._weights.take(wishes)

    def params(self, addresses: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """The parameter slot [n] of the records at each address [n] in turn, and whether they must
        be loaded.
        """
        return self._params.take(addresses.reshape(-1, 1))

    def entries(self, sizes: Integers) -> Integers:
        """The first [n] of so many [n] accumulator entries, taken around the memory in turn."""
        from ridgeline.compiler import slots

        firsts = np.empty(len(sizes), np.int64)
        most = self.machine.array.accumulator_entries
        self._entry = int(slots.ring(sizes, self._entry, most, firsts))
        return firsts
