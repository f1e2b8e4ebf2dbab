"""From a wrong value back to the instruction that wrote it and to those that it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.pipeline import Compiled
from ridgeline.compiler.plan import Operand
from ridgeline.divergence.blame import Ledger, ancestors, changes
from ridgeline.divergence.find import Divergence, Finding, Search
from ridgeline.divergence.frames import (
    Frame,
    buffer_writes,
    expected_rows,
    places,
    stored,
    written_lanes,
)
from ridgeline.divergence.references import Reference
from ridgeline.divergence.walk import Step, walk
from ridgeline.machine.execute import HostExecutor
from ridgeline.machine.instructions import Space, State
from ridgeline.machine.instructions.state import GRANULE_BYTES
from ridgeline.machine.instructions.vector import OutputFields
from ridgeline.machine.program import HostSegment, Program

Array = npt.NDArray[Any]


def first_divergence(
    compiled: Compiled,
    program: Program,
    inputs: Mapping[str, Array],
    reference: Reference,
    host: HostExecutor,
) -> Divergence | None:
    """Where `program`, executed, first differs from `reference`; None when it never does.

    `compiled` is the same model for the same machine, compiled afresh: it says where layers keep
    what they make. `inputs` are one batch, by name, as `execute` takes them. Values that the
    reference lacks are not compared.
    """
    search = Search(compiled, program, reference)
    for step, state in walk(program, inputs, host):
        found = search.look(step, state)
        if found is not None:
            return _Explanation(search, found).divergence(compiled, inputs, host)
    return None


def _computes(step: Step, frame: Frame) -> bool:
    """Whether a step makes a part of the frame, rather than bringing what is needed."""
    return step.layer == frame.layer.plan.index and isinstance(step.work, OutputFields)


class _Explanation:
    """A second execution, up to the finding, with a record of who wrote what."""

    def __init__(self, search: Search, finding: Finding) -> None:
        self.program, self.steps = search.program, search.steps
        self.reference, self.trusted = search.reference, search.trusted
        self.finding = finding
        self.ledger = Ledger(self.program)
        self.sources: list[set[int]] = []
        # The last stands for places that nobody wrote.
        self.layers = np.asarray([*(step.layer for step in self.steps), -2])
        self.inputs: dict[int, tuple[str, ...]] = {}

    def divergence(
        self, compiled: Compiled, inputs: Mapping[str, Array], host: HostExecutor
    ) -> Divergence:
        for step, state in walk(self.program, inputs, host):
            if isinstance(step.work, HostSegment):
                self.sources.append(set())
                self.ledger.record_host(step)
            else:
                accesses = step.work.accesses(self.program.machine)
                self.sources.append(self.ledger.sources(accesses))
                self.ledger.record(step, accesses)
                frame = self.finding.frame
                if frame is not None and frame.first <= step.number and _computes(step, frame):
                    self.inputs[step.number] = self._wrong_inputs(frame, state)
            if step.number == self.finding.step.number:
                break
        place, number = self._writer()
        chain = ancestors(self.sources, number, self.steps)
        every = changes(self.program, compiled.program, self.steps)
        return replace(
            self.finding.at(place, self.steps[number]),
            chain=tuple(self.steps[n] for n in chain),
            inputs=self.inputs.get(number, ()),
            changes=tuple(c for c in every if c.step.number <= number),
        )

    def _writer(self) -> tuple[int, int]:
        """The wrong element that was written first, and the step that wrote it, or should have."""
        finding = self.finding
        flat = finding.flat
        if finding.frame is None:
            return int(flat[0]), self._writer_of_tensor()
        lines, lanes = (
            p.reshape(-1)[flat] for p in places(finding.frame.region, finding.frame.box)
        )
        writers = self.ledger.last[Space.BUFFER][lines, lanes]
        for place in np.flatnonzero(writers < finding.frame.first):
            writers[place] = self._due(finding.frame, int(lines[place]), int(lanes[place]))
        first = int(writers.argmin())
        return int(flat[first]), int(writers[first])

    def _due(self, frame: Frame, line: int, lane: int) -> int:
        """The step that should have written a place of a frame, as the compiler makes it."""
        for step in reversed(self.trusted[frame.first : frame.last + 1]):
            if isinstance(step.work, HostSegment):
                continue
            span = written_lanes(step.work)
            if span.start <= lane < span.stop and line in buffer_writes(
                step.work, self.program.machine
            ):
                return step.number
        return frame.last

    def _writer_of_tensor(self) -> int:
        """The step that wrote a tensor in host or device memory last, as far as is known."""
        tensor, last = self.finding.tensor, self.finding.step
        assert tensor is not None
        if isinstance(last.work, HostSegment) and tensor in last.work.outputs:
            return last.number
        space = Space.DEVICE if tensor in self.program.device_outputs else Space.HOST
        end = tensor.address + max(tensor.bytes, 1) - 1
        span = slice(tensor.address // GRANULE_BYTES, end // GRANULE_BYTES + 1)
        writer = int(self.ledger.last[space][span].max())
        return writer if writer >= 0 else last.number

    def _wrong_inputs(self, frame: Frame, state: State) -> tuple[str, ...]:
        """Operands of the frame's layer that lie on chip with other bits than they should have."""
        layer = frame.layer
        number = layer.outputs.index(frame.region)
        texts: list[str] = []
        for operand, region in zip(layer.plan.inputs, layer.inputs[number], strict=True):
            rows = self._expected(operand)
            if rows is None:
                continue
            box, value = region.box, operand.root
            expected = expected_rows(rows, operand.layout, box)
            got = stored(state.buffer, region, box, value)
            lines, lanes = places(region, box)
            writers = self.ledger.last[Space.BUFFER][lines, lanes]
            wrong = np.flatnonzero((expected != got) & self._own(writers, layer.plan.index))
            if wrong.size:
                writer = self.steps[int(writers.reshape(-1)[wrong[0]])]
                texts.append(
                    f"'{value.name}' is wrong on chip already: {wrong.size} of {got.size} elements,"
                    f" written by {writer}"
                )
        return tuple(texts)

    def _own(self, writers: npt.NDArray[np.int32], layer: int) -> npt.NDArray[np.bool_]:
        """Whether a place was last written by the layer itself: by one of its loads."""
        return self.layers[writers] == layer

    def _expected(self, operand: Operand) -> Array | None:
        """The whole operand, where it lies on chip as it is and the reference has it."""
        if operand.gather is not None or operand.constant:
            return None
        array = self.reference.get(id(operand.root))
        layout = operand.layout
        fits = array is not None and array.size == layout.n * layout.h * layout.w * layout.c
        return array if fits else None
