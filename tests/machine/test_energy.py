"""Joules by hand, power by brute force over every cycle, limits, and the figures' origin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import energy_figures as published
from energy_figures import PICO
from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine, Power
from ridgeline.machine.energy import (
    NAMES,
    activity_table,
    counts_by_layer,
    joules_by_level,
    work_joules,
)
from ridgeline.machine.fuzz import random_program
from ridgeline.machine.instructions import Activity, Load, LoadWeights, MatMul
from ridgeline.machine.loader import load_machine, machine_from_dict, machine_to_dict
from ridgeline.machine.power import energy_curve, power_facts
from ridgeline.machine.program import DeviceSegment, Layer, Program
from ridgeline.machine.simulate import Trace, simulate
from ridgeline.machine.tabulate import report
from ridgeline.results.energy import COUNTS, LEVELS
from ridgeline.results.rows import Report

LAYER = Layer("layer", "MatMul", "array", 4 * 8 * 8, 0, 64, 32, 32, (4, 8))

ROUND_FIGURES = {
    "mac_joules": {"int8": 1e-12, "int16": 3e-12},
    "array_register_joules_per_byte": 2e-12,
    "accumulator_joules_per_byte": 5e-12,
    "unified_buffer_joules_per_byte": 7e-12,
    "slot_joules_per_byte": 11e-12,
    "device_memory_joules_per_byte": 100e-12,
    "host_link_joules_per_byte": 1000e-12,
    "vector_operation_joules": 13e-12,
    "idle_watts": 1.0,
}


def _machine(**power: Any) -> Machine:
    data = machine_to_dict(load_machine("tiny-8"))
    data["energy"] = ROUND_FIGURES
    data["power"] = {"window_seconds": 1e-7, **power}
    return machine_from_dict(data)


def _program(machine: Machine) -> Program:
    """One load of four lines of 8 bytes, one weight tile of 8 x 8, one MatMul of 4 rows."""
    instructions = (
        Load(element_bytes=8, count_0=4, device_stride_0=8, line_stride_0=1, banks=1, layer=0),
        LoadWeights(k=8, n=8, row_stride=8, address=64, layer=0),
        MatMul(
            count_0=4, stride_0=1, k=8, n=8, x_limit=4, x_step=1, banks=1, layer=0,
            waits=(0, 1, 0, 1, 0, 0),
        ),
    )  # fmt: skip
    segments = (DeviceSegment(instructions),)
    return Program("small", machine, segments, (LAYER,), np.zeros(128, np.uint8), 128, 0, (), ())


def _report(program: Program, **known: Any) -> Report:
    return report(program, simulate(program), **known)


def test_a_layer_by_hand() -> None:
    program = _program(_machine())
    trace = simulate(program)
    made = report(program, trace)
    (row,) = made.rows
    assert dict(row.counts) == {
        "array_macs_int8": 4 * 8 * 8,
        # 64 weights twice, 4 rows of 8 past 8 columns, 4 x 8 sums of 4 bytes past 8 rows.
        "array_register_bytes": 2 * 64 + 4 * 8 * 8 + 4 * 8 * 8 * 4,
        "accumulator_write_bytes": 4 * 8 * 4,
        "buffer_reads": 4,
        "buffer_writes": 4,
        "slot_read_bytes": 64,
        "slot_write_bytes": 64,
        "device_read_bytes": 4 * 8 + 64,
    }
    assert row.joules is not None
    wanted = {
        "multiply": 256 * 1,
        "registers": 1408 * 2,
        "accumulators": 128 * 5,
        "unified buffer": 8 * 8 * 7,
        "slots": 128 * 11,
        "device memory": 96 * 100,
        "host link": 0,
        "vector": 0,
        "idle": 1e12 * trace.cycles / 100e6,
    }
    assert {k: v / PICO for k, v in row.joules.items()} == pytest.approx(wanted)
    assert list(row.joules) == list(LEVELS)
    assert made.energy_joules == pytest.approx(PICO * sum(wanted.values()))
    assert made.average_watts == pytest.approx(made.energy_joules / (trace.cycles / 100e6))
    assert made.inferences_per_joule == pytest.approx(1 / made.energy_joules)


def test_every_count_has_a_name() -> None:
    assert set(COUNTS) < set(NAMES)
    # One Activity in which every figure differs: no two of them are mixed up.
    figures = {field: 10 + n for n, field in enumerate(Activity.__slots__) if field != "mac_format"}
    figures["vector_operations"] = 99

    class One:
        def activity(self, machine: Machine) -> Activity:
            return Activity(mac_format="int16", **figures)  # pyright: ignore[reportArgumentType]

    (counts, _) = counts_by_layer(activity_table([One()], _machine()), [0], 1)  # type: ignore[list-item]
    renamed = {"macs": "array_macs_int16", "vector_operations": "lane_operations"}
    assert counts == {renamed.get(field, field): n for field, n in figures.items()}


def test_a_machine_without_figures_reports_no_energy() -> None:
    machine = replace(_machine(), energy=None, power=None)
    program = _program(machine)
    made = report(program, simulate(program))
    assert made.rows[0].counts["array_macs_int8"] == 256  # counted, not priced
    assert made.rows[0].joules is None
    assert made.power is None
    assert (made.energy_joules, made.average_watts, made.inferences_per_joule) == (None,) * 3
    assert joules_by_level({"buffer_reads": 3}, machine, 5) is None


def _watts_by_cycle(trace: Trace) -> Any:
    """Work of every cycle in watts, without idle power: brute force."""
    machine = trace.program.machine
    joules = np.zeros(trace.cycles)
    for segment in trace.segments:
        for event in segment.events:
            begin, end = segment.begin + event.start, segment.begin + event.issued
            (counts, _) = counts_by_layer(activity_table([event.instruction], machine), [0], 1)
            levels = joules_by_level(counts, machine, 0)
            assert levels is not None
            work = sum(levels.values())
            joules[begin : max(end, begin + 1)] += work / max(end - begin, 1)
    return joules * machine.clock_hz


@pytest.mark.parametrize("seed", range(8))
def test_the_busiest_window_by_brute_force(seed: int) -> None:
    machine = _machine()
    trace = simulate(random_program(machine, np.random.default_rng(seed)))
    watts = _watts_by_cycle(trace)
    assert machine.energy is not None
    table = activity_table(trace.program.instructions, machine)
    curve = energy_curve(trace, work_joules(table, machine.energy, machine))
    for window in (1, 7, 100, trace.cycles, 10 * trace.cycles):
        size = min(window, trace.cycles)
        sums = np.convolve(watts, np.ones(size), "valid") / size
        assert curve.watts(window, machine.clock_hz) == pytest.approx(sums.max(), rel=1e-9)
    facts = power_facts(trace, table)
    assert facts is not None
    assert facts.peak_watts is not None
    assert watts.mean() + 1 <= facts.peak_watts + 1e-9 <= watts.max() + 1 + 2e-9


def test_a_limit_is_told() -> None:
    program = _program(_machine(limit_watts=1.02))
    made = report(program, simulate(program), notes=("first",))
    assert made.power is not None
    assert made.power.slowdown == 1
    assert made.power.above_limit
    assert made.notes[0] == "first"
    told = "the busiest 0.1 µs draw 1.09 W at full clock, above the limit of 1.02 W"
    assert made.notes[1] == told + " (power.limit_watts)"
    roomy = replace(program, machine=_machine(limit_watts=2.0))
    assert report(roomy, simulate(roomy)).notes == ()


@pytest.mark.parametrize("limit", [1.01, 1.05, 1.3])
def test_a_limit_slows_the_clock(limit: float) -> None:
    program = _program(_machine(limit_watts=limit, policy="throttle"))
    trace = simulate(program)
    made = report(program, trace)
    free = _report(_program(_machine()))
    assert made.cycles == free.cycles == trace.cycles
    power = made.power
    assert power is not None
    if limit == 1.3:
        assert power.slowdown == 1
        assert made.notes == ()
        return
    assert power.slowdown > 1
    assert made.seconds == pytest.approx(free.seconds * power.slowdown)
    assert f"the clock is lowered from 100 to {100 / power.slowdown:.4g} MHz" in made.notes[0]
    # By brute force at the lower clock, where the window holds fewer cycles and each draws less.
    parts = 500  # of a cycle
    slowed = np.repeat(_watts_by_cycle(trace) / power.slowdown, parts)
    window = round(10 * parts / power.slowdown)
    drawn = np.convolve(slowed, np.ones(window), "valid").max() / window
    assert drawn + 1 == pytest.approx(limit, rel=1e-4)
    # Idle power lasts longer, work stays what it was.
    assert made.work_joules == pytest.approx(free.work_joules)
    assert made.total.joules is not None
    assert made.total.joules["idle"] == pytest.approx(made.seconds * 1.0)


def test_runs_behind_each_other_keep_to_the_limit_too() -> None:
    program = _program(_machine(limit_watts=1.05, policy="throttle"))
    trace = simulate(program)
    made = report(program, trace, steady_cycles=10)
    assert made.steady_watts == pytest.approx(1.05)
    assert made.steady_seconds == pytest.approx(made.work_joules / 0.05)
    free = _report(_program(_machine()), steady_cycles=10)
    assert free.steady_seconds == pytest.approx(10 / 100e6)
    assert free.steady_watts == pytest.approx(1 + free.work_joules / (10 / 100e6))


FAULTS = [
    ("energy.idle_watts=-1", "energy.idle_watts: must lie in 0 to 100000, not -1"),
    ("energy.mac_joules.int8=1", r"energy.mac_joules.int8: must lie in 0 to 0.001, not 1"),
    ("energy.mac_joules.int4=1e-12", "energy.mac_joules.int4: 'int4' is not a format"),
    ("power.policy=melt", "power.policy: 'melt' is not a policy. Use one of flag, throttle"),
    ("power.window_seconds=0", "power.window_seconds: must lie in 1e-09 to 1000, not 0"),
    ("power.limit_watts=0.1", r"0.1 is not above energy.idle_watts \(0.2\), so no clock keeps"),
    ("power.limit_wats=3", "no field 'power.limit_wats'. Did you mean 'power.limit_watts'"),
]


@pytest.mark.parametrize(("setting", "text"), FAULTS)
def test_figures_that_cannot_be(setting: str, text: str) -> None:
    with pytest.raises(RidgelineError, match=text):
        load_machine("tiny-8", [setting])


def test_figures_belong_together() -> None:
    data = machine_to_dict(load_machine("tiny-8"))
    del data["energy"]
    with pytest.raises(RidgelineError, match=r"needs the figures of \[energy\], which are missing"):
        machine_from_dict(data)
    del data["power"]
    assert machine_from_dict(data).energy is None
    assert "energy" not in machine_to_dict(machine_from_dict(data))
    data["energy"] = {**ROUND_FIGURES, "mac_joules": {"int16": 1e-12}}
    with pytest.raises(RidgelineError, match="is missing: the array takes this format"):
        machine_from_dict(data)
    data["energy"] = {"idle_watts": 1.0}
    with pytest.raises(RidgelineError, match="is missing"):
        machine_from_dict(data)


def test_a_setting_changes_one_figure() -> None:
    machine = load_machine("tiny-8", ["energy.mac_joules.int8=1e-9", "power.policy=throttle"])
    assert machine.energy is not None
    assert machine.energy.mac_joules["int8"] == 1e-9
    assert machine.power == Power(1e-5, 2.5, "throttle")
    assert machine.sources["energy.mac_joules.int8"] == "set by the user"
    assert machine_from_dict(machine_to_dict(machine)) == machine


# Node, KiB of a column's accumulators, of a bank of the unified buffer and of a column's slots;
# how much more energy the logic of an FPGA takes (Kuon and Rose, TCAD 26(2), 2007).
CHIPS = {
    "tpu-v1": (28, 16, 1536, 1, 1),
    "edge-4tops": (7, 6, 256, 1, 1),
    "server-hbm": (7, 24, 8192, 4, 1),
    "tiny-8": (45, 2, 2, 2, 14),
    "tiny-16": (28, 2, 2, 2, 14),
}
MEMORIES = {
    "tpu-v1": published.DDR3_JOULES_PER_BYTE,
    "edge-4tops": published.LPDDR4_JOULES_PER_BYTE,
    "server-hbm": published.HBM2_JOULES_PER_BYTE,
    "tiny-8": published.LPDDR4_JOULES_PER_BYTE,
    "tiny-16": published.DDR3_JOULES_PER_BYTE,
}


@pytest.mark.parametrize("name", sorted(CHIPS))
def test_the_figures_follow_from_the_published_ones(name: str) -> None:
    node, sums, bank, slot, logic = CHIPS[name]
    energy = load_machine(name).energy
    assert energy is not None
    add = published.at(node, published.INT32_ADD) * logic
    mac = published.at(node, published.INT8_MULTIPLY) + add
    floats = published.at(node, published.FLOAT32_ADD) * logic
    wanted = {
        "array_register_joules_per_byte": published.at(node, published.REGISTER) * logic,
        "accumulator_joules_per_byte": published.sram(node, sums),
        "unified_buffer_joules_per_byte": published.sram(node, bank),
        "slot_joules_per_byte": published.sram(node, slot),
        "vector_operation_joules": published.at(node, published.FLOAT32_MULTIPLY) + floats,
    }
    assert dict(energy.mac_joules) == pytest.approx(
        {"int8": mac * PICO, "int16": 2 * mac * PICO}, rel=1e-3
    )
    for key, value in wanted.items():
        assert getattr(energy, key) == pytest.approx(value * PICO, rel=1e-3), key
    assert energy.device_memory_joules_per_byte == pytest.approx(MEMORIES[name], rel=1e-3)
