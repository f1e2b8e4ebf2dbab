"""A pipeline beside the array: cycles and energy of one image on each, at the same prices."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.compiler import compile
from ridgeline.ir import Graph
from ridgeline.machine.description import Machine
from ridgeline.machine.energy import activity_table, counts_by_layer, joules_by_level
from ridgeline.machine.simulate import simulate
from ridgeline.results.energy import ARRAY_MACS
from ridgeline.rtl.pipeline.choose import interval_cycles
from ridgeline.rtl.pipeline.layers import ADD, DEPTHWISE, MATRIX
from ridgeline.rtl.pipeline.plan import PARAMETER_BITS, Plan, Stage
from ridgeline.rtl.pipeline.timing import times


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of one image from first to last pixel, from image to image, and its joules.

    `joules` is None where the machine file has no figures of energy.
    """

    latency_cycles: int
    interval_cycles: int
    joules: float | None


def array_cost(part: Graph, machine: Machine) -> Cost:
    """The same layers as a program of the machine, without the host."""
    program = compile(part, machine, host_link=False)
    cycles = simulate(program).cycles
    table = activity_table(program.instructions, machine)
    counts = counts_by_layer(table, [-1] * len(program.instructions), 0)[-1]
    joules = joules_by_level(counts, machine, cycles)
    return Cost(cycles, cycles, None if joules is None else sum(joules.values()))


def pipeline_cost(plan: Plan, machine: Machine) -> Cost:
    """At the machine's prices: multiplications as in its array, weights and parameters as from its
    slots, pixels as through its unified buffer, stored integers as from its vector unit; idle power
    for an interval. No price for the wires between stages.
    """
    one, interval = times(plan), interval_cycles(plan)
    counts: dict[str, int] = {}
    for stage in plan.stages:
        for name, count in _counts(stage, machine).items():
            counts[name] = counts.get(name, 0) + count
    joules = joules_by_level(counts, machine, interval)
    total = None if joules is None else sum(joules.values())
    return Cost(one.latency_cycles, interval, total)


def macs(stage: Stage) -> int:
    """Multiply-accumulates of an image, those with padding too."""
    return stage.image_cycles * stage.multipliers


def _counts(stage: Stage, machine: Machine) -> dict[str, int]:
    """What an image costs in a stage, counted as `machine.energy` counts instructions."""
    layer, steps = stage.layer, stage.image_cycles
    together = stage.fold.inputs if layer.kind == MATRIX else stage.fold.outputs
    operand_bits = together * layer.given[0].element.bits
    outputs = layer.made.pixels * layer.made.channels
    line_bits = 8 * machine.unified_buffer.line_bytes
    given = sum(image.pixels * image.pixel_bits for image in layer.given)
    weights = stage.multipliers * layer.weight_bits * steps
    parameters = PARAMETER_BITS * outputs if layer.scale.size else 0
    vector = outputs * (2 if layer.kind == ADD else 1)
    if layer.kind not in (MATRIX, DEPTHWISE, ADD):
        vector += steps * stage.fold.outputs
    return {
        ARRAY_MACS + "int8": macs(stage),
        "array_register_bytes": -(-steps * (operand_bits + weights // max(steps, 1)) // 8),
        "accumulator_write_bytes": steps * stage.fold.outputs * layer.sum_bits // 8,
        "buffer_writes": -(-given // line_bits),
        "buffer_reads": -(-steps * operand_bits // line_bits),
        "slot_read_bytes": (weights + parameters) // 8,
        "lane_operations": vector,
    }
