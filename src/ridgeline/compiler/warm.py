"""Compile every kernel ahead of its first use, which then takes no time: part of `make setup`."""

from __future__ import annotations

import numpy as np

from ridgeline.compiler.builder import Builder
from ridgeline.machine.code import Code
from ridgeline.machine.instructions import MatMul
from ridgeline.machine.loader import load_machine
from ridgeline.machine.order import is_ordered, last_conflicts, synchronise_code, touched_banks
from ridgeline.machine.simulate import simulate_code


def main() -> None:
    """Take a program of one instruction through all of them."""
    machine = load_machine("tiny-8")
    code = Code.of([MatMul()])
    code = code.with_banks(*touched_banks(code, machine))
    last_conflicts(code, machine, 0, 0)
    code = synchronise_code(code, machine, 0, 0)
    assert is_ordered(code, machine, 0, 0)
    simulate_code(code, machine)
    builder = Builder(machine)
    builder.weights(np.ones((1, 4), np.int64))
    builder.params(np.ones(1, np.int64))
    builder.entries(np.ones(1, np.int64))


if __name__ == "__main__":
    main()
