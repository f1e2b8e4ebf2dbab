"""Which instructions a wrong byte came from, and which are not as the compiler makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from ridgeline.divergence.frames import written_lanes
from ridgeline.divergence.walk import Step, steps
from ridgeline.machine.instructions import Instruction, Load, LoadParams, LoadWeights, Space
from ridgeline.machine.instructions.state import GRANULE_BYTES, Accesses
from ridgeline.machine.instructions.weights import PARAMETER_BYTES
from ridgeline.machine.order import space_sizes
from ridgeline.machine.program import HostSegment, Program

Index = npt.NDArray[np.int32]


@dataclass(slots=True)
class Ledger:
    """The step that wrote each place last. Of the unified buffer, byte by byte."""

    program: Program
    last: dict[str, Index] = field(default_factory=dict[str, Index])

    def __post_init__(self) -> None:
        machine = self.program.machine
        sizes = space_sizes(machine, self.program.host_bytes, self.program.device_bytes)
        for space, size in sizes.items():
            wide = machine.unified_buffer.line_bytes if space == Space.BUFFER else 1
            self.last[space] = np.full((size, wide), -1, np.int32)

    def record(self, step: Step, accesses: Accesses) -> None:
        """Note what a step writes."""
        assert not isinstance(step.work, HostSegment)
        for space, found in accesses.writes.items():
            lanes = written_lanes(step.work) if space == Space.BUFFER else slice(0, 1)
            self.last[space][found, lanes] = step.number

    def record_host(self, step: Step) -> None:
        assert isinstance(step.work, HostSegment)
        for tensor in step.work.outputs:
            end = tensor.address + max(tensor.bytes, 1) - 1
            granules = slice(tensor.address // GRANULE_BYTES, end // GRANULE_BYTES + 1)
            self.last[Space.HOST][granules] = step.number

    def sources(self, accesses: Accesses) -> set[int]:
        """Steps that wrote last what a step is about to read."""
        found: set[int] = set()
        for space, places in accesses.reads.items():
            found |= {int(n) for n in np.unique(self.last[space][places])}
        return found - {-1}


def ancestors(sources: Sequence[set[int]], step: int, every: Sequence[Step]) -> list[int]:
    """Steps of the same layer from which a step's result came, itself included, in order."""
    layer = every[step].layer
    seen, left = {step}, [step]
    while left:
        for source in sources[left.pop()]:
            if source not in seen and every[source].layer == layer:
                seen.add(source)
                left.append(source)
    return sorted(seen)


@dataclass(frozen=True, slots=True)
class Change:
    """A step that is not what the compiler makes of the model, and how."""

    step: Step
    text: str


def changes(program: Program, fresh: Program, mine: Sequence[Step]) -> list[Change]:
    """Where a program differs from one compiled afresh; empty when the two cannot be compared."""
    theirs = steps(fresh)
    if len(theirs) != len(mine):
        return []
    found: list[Change] = []
    bad = _changed_bytes(program, fresh)
    for step, other in zip(mine, theirs, strict=True):
        text = _difference(step, other)
        if not text and bad.size:
            text = _constants_text(step, bad)
        if text:
            found.append(Change(step, text))
    return found


def _changed_bytes(program: Program, fresh: Program) -> npt.NDArray[np.int64]:
    if program.constants.size != fresh.constants.size:
        return np.empty(0, np.int64)
    return np.flatnonzero(program.constants != fresh.constants)


def _difference(step: Step, other: Step) -> str:
    mine, theirs = step.work, other.work
    if isinstance(mine, HostSegment) or isinstance(theirs, HostSegment):
        same = isinstance(mine, HostSegment) == isinstance(theirs, HostSegment)
        changed = same and getattr(mine, "model", b"") != getattr(theirs, "model", b"")
        return "its operators are others" if changed or not same else ""
    if type(mine) is not type(theirs):
        return f"it is a {type(mine).__name__}, not a {type(theirs).__name__}"
    parts = [
        f"{f.name} is {getattr(mine, f.name)}, not {getattr(theirs, f.name)}"
        for f in fields(mine)
        if getattr(mine, f.name) != getattr(theirs, f.name)
    ]
    return "; ".join(parts)


def _constants_text(step: Step, bad: npt.NDArray[np.int64]) -> str:
    if isinstance(step.work, HostSegment):
        return ""
    hit = np.intersect1d(_bytes_read(step.work), bad)
    if not hit.size:
        return ""
    return f"{hit.size} of the constants that it reads are others, the first at address {hit[0]:#x}"


def _bytes_read(instruction: Instruction) -> npt.NDArray[np.int64]:
    """Device addresses of the bytes that an instruction reads."""
    if isinstance(instruction, Load):
        starts, count = instruction.addresses(), instruction.element_bytes
    elif isinstance(instruction, LoadWeights) and not instruction.from_buffer:
        starts = instruction.rows()
        count = instruction.k if instruction.transposed else instruction.n
    elif isinstance(instruction, LoadParams):
        starts = np.asarray([instruction.device_address], np.int64)
        count = instruction.count * PARAMETER_BYTES
    else:
        return np.empty(0, np.int64)
    return (starts[:, None] + np.arange(count)).reshape(-1)
