"""The first divergence: the first layer whose bits differ, the instruction, the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.pipeline import Compiled
from ridgeline.divergence.blame import Change
from ridgeline.divergence.frames import Frame, expected_rows, frames, index_of, looked_at, stored
from ridgeline.divergence.references import Reference
from ridgeline.divergence.walk import Step, steps, walk
from ridgeline.ir import Value
from ridgeline.machine.execute import HostExecutor
from ridgeline.machine.instructions import State
from ridgeline.machine.program import HostSegment, HostTensor, Program

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """`value[index]` of layer number `layer` is `got`, not `expected`, after `step`."""

    layer: int
    value: Value
    step: Step
    index: tuple[int, ...]
    expected: Any
    got: Any
    wrong: int
    """Elements that differ, of the `checked` ones that had been made by then."""
    checked: int
    chain: tuple[Step, ...] = ()
    """Steps from which the value came, within the layer, in order; the last is `step`."""
    inputs: tuple[str, ...] = ()
    """Operands that were wrong on chip already when `step` was performed, in words."""
    changes: tuple[Change, ...] = ()
    """Steps up to `step` that are not as the compiler makes them of this model."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """A part of a value that differs, as the memories show it after `step`.

    `flat` are the places of the wrong elements in `expected` and `got`. With a frame these are rows
    [n, y, x, c] of its box, otherwise the whole tensor.
    """

    layer: int
    value: Value
    step: Step
    expected: Array
    got: Array
    flat: npt.NDArray[np.intp]
    frame: Frame | None = None
    tensor: HostTensor | None = None

    def at(self, place: int, step: Step) -> Divergence:
        """The divergence at one of the places, laid to `step`."""
        shape = self.value.type.shape
        if self.frame is None:
            index = tuple(int(i) for i in np.unravel_index(place, shape))
        else:
            index = index_of(place, self.frame.region.layout, self.frame.box, shape)
        return Divergence(
            self.layer,
            self.value,
            step,
            index,
            self.expected.reshape(-1)[place],
            self.got.reshape(-1)[place],
            len(self.flat),
            self.got.size,
        )


def by_last(every: Sequence[Frame]) -> dict[int, list[Frame]]:
    """Frames by the step after which they are whole."""
    table: dict[int, list[Frame]] = {}
    for frame in every:
        table.setdefault(frame.last, []).append(frame)
    return table


def executed_values(
    compiled: Compiled, inputs: Mapping[str, Array], host: HostExecutor
) -> dict[str, Array]:
    """Every layer's output as the program computes it, by name, in its storage format."""
    program = compiled.program
    table = by_last(frames(compiled.layers, steps(program), program.machine))
    found: dict[str, Array] = {}
    for step, state in walk(program, inputs, host):
        for frame in table.get(step.number, ()):
            value, layout = frame.value, frame.region.layout
            whole = found.setdefault(value.name, np.zeros(value.type.shape, value.type.dtype.numpy))
            target = expected_rows(whole, layout, frame.box)
            assert np.shares_memory(target, whole)
            made = stored(state.buffer, frame.region, frame.box, value)
            np.copyto(target, made, where=looked_at(frame))
        if isinstance(step.work, HostSegment):
            found |= {t.name: without_padding(t, state.host) for t in step.work.outputs}
    return found


def without_padding(tensor: HostTensor, memory: Array) -> Array:
    """The array in memory, the rows and columns left out that the host adds around it."""
    packing = tensor.packing
    if not any(packing.pads):
        return tensor.read(memory)
    top, left, bottom, right = packing.pads
    assert packing.channel_axis is not None
    axes = [i for i in range(len(tensor.shape)) if i != packing.channel_axis]
    shape, inner = list(tensor.shape), [slice(None)] * len(tensor.shape)
    added = ((axes[-1], left, right), (axes[-2], top, bottom)) if len(axes) > 1 else ()
    for axis, before, after in added:
        inner[axis] = slice(before, before + shape[axis])
        shape[axis] += before + after
    plain = replace(packing, pads=(0, 0, 0, 0))
    return replace(tensor, shape=tuple(shape), packing=plain).read(memory)[tuple(inner)]


class Search:
    """What is compared after which step."""

    def __init__(self, compiled: Compiled, program: Program, reference: Reference) -> None:
        self.program, self.reference = program, reference
        self.steps = steps(program)
        # Where the two have as many steps, the fresh one says which of them writes what: a wrong
        # operand may point anywhere.
        fresh = steps(compiled.program)
        self.trusted = fresh if len(fresh) == len(self.steps) else self.steps
        self._frames = by_last(frames(compiled.layers, self.trusted, program.machine))
        nodes = compiled.graph.nodes
        self._made = {v.name: (i, v) for i, n in enumerate(nodes) for v in n.outputs}

    def look(self, step: Step, state: State) -> Finding | None:
        """The first wrong value that `step` finished."""
        for frame in self._frames.get(step.number, ()):
            found = self._look_at(frame, step, state)
            if found is not None:
                return found
        for tensor, memory in self._tensors(step, state):
            found = self._look_at_tensor(tensor, memory, step)
            if found is not None:
                return found
        return None

    def _tensors(self, step: Step, state: State) -> list[tuple[HostTensor, Array]]:
        """Tensors that are whole after a step: of the host, and at the end those of the user."""
        found: list[tuple[HostTensor, Array]] = []
        if isinstance(step.work, HostSegment):
            found += [(t, state.host) for t in step.work.inputs + step.work.outputs]
        if step.number == len(self.steps) - 1:
            found += [(t, state.host) for t in self.program.outputs]
            found += [(t, state.device) for t in self.program.device_outputs]
        return found

    def _look_at(self, frame: Frame, step: Step, state: State) -> Finding | None:
        array = self.reference.get(id(frame.value))
        if array is None:
            return None
        expected = expected_rows(array, frame.region.layout, frame.box)
        got = stored(state.buffer, frame.region, frame.box, frame.value)
        flat = np.flatnonzero((expected != got) & looked_at(frame))
        if not flat.size:
            return None
        return Finding(frame.layer.plan.index, frame.value, step, expected, got, flat, frame)

    def _look_at_tensor(self, tensor: HostTensor, memory: Array, step: Step) -> Finding | None:
        layer, value = self._made.get(tensor.name, (-1, None))
        expected = None if value is None else self.reference.get(id(value))
        if value is None or expected is None:
            return None
        got = without_padding(tensor, memory)
        differs = (expected != got) & ~((expected != expected) & (got != got))  # NaN is itself
        flat = np.flatnonzero(differs)
        if not flat.size:
            return None
        return Finding(layer, value, step, expected, got, flat, tensor=tensor)
