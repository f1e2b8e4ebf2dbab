"""The core with its counters in co-simulation, before the memory of the machine file."""

from __future__ import annotations

from pathlib import Path

from ridgeline.machine.description import Machine
from ridgeline.rtl.build import build_program, harness_defines, require_tools
from ridgeline.rtl.bus.register_map import COUNTERS
from ridgeline.rtl.shape import Shape
from ridgeline.rtl.verilog import TOP, zeros_in_loops


def counted_simulator(machine: Machine) -> Path:
    """The model for `cosimulate_many(cases, model, len(COUNTERS))`.

    Raises RidgelineError for a machine that is not covered, or where there are no tools.
    """
    require_tools()
    from amaranth.back import verilog

    from ridgeline.rtl.accelerator import Accelerator
    from ridgeline.rtl.bus.counters import CountedCore

    counted = CountedCore(Accelerator(machine, counts=True))
    text = verilog.convert(counted, name=TOP, ports=counted.pins, emit_src=False)
    defines = [*harness_defines(Shape(machine)), f"-DCOUNTERS={len(COUNTERS)}"]
    return build_program(zeros_in_loops(text), "harness.cpp", defines)
