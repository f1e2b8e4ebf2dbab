"""The accelerator as Verilog text."""

from __future__ import annotations

from ridgeline.machine.description import Machine

TOP = "ridgeline_accelerator"


def emit(machine: Machine) -> str:
    """One Verilog file whose top module is TOP. Raises RidgelineError for what is not covered."""
    from amaranth.back import verilog

    from ridgeline.rtl.accelerator import Accelerator

    accelerator = Accelerator(machine)
    return verilog.convert(accelerator, name=TOP, ports=accelerator.pins, emit_src=False)
