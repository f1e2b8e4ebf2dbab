"""From a Trace to a Report: what each layer had to do, what it needed and where time went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from math import isfinite

from ridgeline.machine import energy
from ridgeline.machine.code import Integers
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import (
    HostRead,
    HostWrite,
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    MatMul,
    Store,
    Unit,
)
from ridgeline.machine.instructions.array import planes
from ridgeline.machine.instructions.weights import PARAMETER_BYTES
from ridgeline.machine.ledger import ledger
from ridgeline.machine.power import power_facts, remarks
from ridgeline.machine.program import HostSegment, Layer, Program
from ridgeline.machine.simulate import Trace, host_cycles
from ridgeline.results.energy import PowerFacts
from ridgeline.results.rows import Accuracy, LayerRow, Limit, MachineFacts, Report

NO_LAYER = Layer("(no layer)", "", "move", 0, 0, 0, 0, 0, (), "transfers that belong to no layer")
"""The row of what no layer accounts for, so that rows always sum to the whole."""


def report(
    program: Program,
    trace: Trace,
    *,
    batch: int | None = None,
    warm_cycles: int | None = None,
    steady_cycles: int | None = None,
    accuracy: Accuracy | None = None,
    sqnr_db: Mapping[str, float] | None = None,
    notes: tuple[str, ...] = (),
) -> Report:
    """The Report of a simulated run.

    `batch`: inferences in one run, the first dimension of the first input unless given. `sqnr_db`:
    by layer name, what is known of its error against the float model.
    """
    activity = energy.activity_table(program.instructions, program.machine)
    power = power_facts(trace, activity)
    make = partial(_row, program.machine, sqnr_db=sqnr_db or {}, power=power)
    return Report(
        model=program.name,
        machine=machine_facts(program.machine),
        numeric_mode=program.numeric_mode,
        batch=batch if batch is not None else _batch(program),
        cycles=trace.cycles,
        device_cycles=trace.device_cycles,
        rows=_rows(program, trace, activity, make),
        warm_cycles=warm_cycles,
        steady_cycles=steady_cycles,
        accuracy=accuracy,
        power=power,
        notes=(*notes, *remarks(power, program.machine)),
    )


def _rows(
    program: Program, trace: Trace, activity: Integers, make: Callable[..., LayerRow]
) -> tuple[LayerRow, ...]:
    """A row for each layer, and one of what belongs to none where anything does."""
    layers = [one.layer for one in program.instructions]
    counts = energy.counts_by_layer(activity, layers, len(program.layers))
    needs = _needs(program)
    account = ledger(trace)
    rows = [
        make(layer, needs[index], account.layer_cycles(index), counts[index])
        for index, layer in enumerate(program.layers)
    ]
    other = {name: n / account.slots_per_cycle for name, n in account.other.items()}
    if any(other.values()):
        rows.append(make(NO_LAYER, needs[-1], other, counts[-1]))
    return tuple(rows)


def machine_facts(machine: Machine) -> MachineFacts:
    """What a report says about the machine."""
    return MachineFacts(
        name=machine.name,
        description=machine.description,
        clock_hz=machine.clock_hz,
        rows=machine.array.rows,
        cols=machine.array.cols,
        dataflow=machine.array.dataflow,
        device_memory_bytes_per_s=machine.device_memory.bytes_per_s,
    )


def _batch(program: Program) -> int:
    inputs = program.inputs + program.device_inputs
    return inputs[0].shape[0] if inputs and len(inputs[0].shape) > 1 else 1


def busy_cycles(program: Program) -> list[dict[Limit, float]]:
    """What each layer needs of each resource if it never waits; the last is of no layer.

    Of a program on another machine that can run it, what it would need there.
    """
    return [{name: float(c) for name, c in need.busy.items()} for need in _needs(program)]


class _Need:
    """Sums over one layer's instructions: cycles of each resource, array work and bytes moved."""

    def __init__(self) -> None:
        self.busy: dict[Limit, Fraction] = {}
        self.array_work = 0
        self.bytes = 0

    def add(self, limit: Limit, cycles: Fraction | int) -> None:
        if cycles:
            self.busy[limit] = self.busy.get(limit, Fraction(0)) + cycles


def _needs(program: Program) -> list[_Need]:
    """Of each layer; the last is of the instructions that belong to none."""
    needs = [_Need() for _ in range(len(program.layers) + 1)]
    for instruction in program.instructions:
        _count(needs[instruction.layer], instruction, program.machine)
    for segment in program.segments:
        if isinstance(segment, HostSegment) and segment.layers:
            share = Fraction(host_cycles(segment, program.machine), len(segment.layers))
            for layer in segment.layers:
                needs[layer].add("fallback", share)
    return needs


def _count(need: _Need, instruction: Instruction, machine: Machine) -> None:
    timing = instruction.timing(machine)
    need.add("memory", timing.port_cycles)
    if instruction.unit is Unit.LINK:
        need.add("host link", timing.issue_cycles)
    elif instruction.unit is Unit.VECTOR:
        need.add("vector", timing.issue_cycles)
    elif isinstance(instruction, MatMul):
        need.add("compute", timing.issue_cycles)
        need.array_work += instruction.macs * planes(instruction.format)
    need.bytes += bytes_moved(instruction)


def bytes_moved(instruction: Instruction) -> int:
    """Payload bytes between device memory and the rest, bursts not rounded up."""
    if isinstance(instruction, (HostRead, HostWrite)):
        return instruction.length_bytes
    if isinstance(instruction, (Load, Store)):
        count_0, count_1, count_2 = instruction.counts
        return instruction.element_bytes * count_0 * count_1 * count_2
    if isinstance(instruction, LoadWeights):
        return 0 if instruction.from_buffer else instruction.k * instruction.n
    if isinstance(instruction, LoadParams):
        return instruction.count * PARAMETER_BYTES
    return 0


def _row(
    machine: Machine,
    layer: Layer,
    need: _Need,
    entries: Mapping[str, float],
    counts: Mapping[str, int],
    *,
    sqnr_db: Mapping[str, float],
    power: PowerFacts | None,
) -> LayerRow:
    cycles = sum(entries.values())
    slowed = power.slowdown if power else 1.0
    per_cycle = machine.device_memory.bytes_per_s / machine.clock_hz
    peak = machine.array.rows * machine.array.cols
    return LayerRow(
        name=layer.name,
        op=layer.op,
        placed=layer.placed,
        shape=layer.shape,
        macs=layer.macs,
        vector_operations=layer.vector_operations,
        weight_bytes=layer.weight_bytes,
        input_bytes=layer.input_bytes,
        output_bytes=layer.output_bytes,
        device_memory_bytes=need.bytes,
        cycles=cycles,
        ideal_array_cycles=need.array_work / peak,
        ideal_memory_cycles=need.bytes / per_cycle,
        busy_cycles={limit: float(cycles) for limit, cycles in need.busy.items()},
        ledger={name: part for name, part in entries.items() if part},
        counts=counts,
        joules=energy.joules_by_level(counts, machine, cycles * slowed),
        sqnr_db=_finite(sqnr_db.get(layer.name)),
        reason=layer.reason,
        origin=layer.origin,
    )


def _finite(sqnr_db: float | None) -> float | None:
    """None for an error of exactly nothing, or of everything: a table has no infinity."""
    return sqnr_db if sqnr_db is not None and isfinite(sqnr_db) else None
