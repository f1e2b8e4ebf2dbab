"""Hardware broken on purpose: each comparison that the other tests make can fail."""

from __future__ import annotations

from typing import Any

import pytest

from ridgeline.errors import RidgelineError
from ridgeline.rtl import elementwise, operands, requantize
from ridgeline.rtl.array import MacArray
from ridgeline.rtl.array_unit import ArrayUnit
from ridgeline.rtl.build import build
from ridgeline.rtl.cosim import CosimCase, CosimResult, cosimulate_many
from ridgeline.rtl.holds import WriteHolds
from ridgeline.rtl.issue import Issue
from ridgeline.rtl.shape import Shape
from ridgeline.rtl.vector_unit import VectorUnit
from ridgeline.rtl.verilog import emit
from ridgeline.rtl.weight_rows import Columns
from rtl_cases import (
    bit_differences,
    cycle_differences,
    random_cases,
    square_machine,
)

PROGRAMS = 120


def broken(cases: list[CosimCase]) -> tuple[int, int]:
    """How many programs give other bits and how many other cycles."""
    machine = cases[0].program.machine
    # Built from the Verilog itself: the cache's note for the machine knows nothing of mutations.
    model = build(emit(machine), Shape(machine))
    results: list[CosimResult] = cosimulate_many(cases, simulate_with=model)
    pairs = list(zip(cases, results, strict=True))
    return (
        sum(bool(bit_differences(case, result)) for case, result in pairs),
        sum(bool(cycle_differences(case, result)) for case, result in pairs),
    )


def half_up(guard: Any, sticky: Any, odd: Any) -> Any:
    return guard


def swap_too_late(self: MacArray, m: Any, swap: Any, held: Any, shadow: Any) -> None:
    from ridgeline.rtl.registers import register

    with m.If(register(m, swap, f"{held.name}_late")):
        m.d.sync += held.eq(shadow)


def loader_rests(self: ArrayUnit, loading: Any, left: Any) -> Any:
    return ~loading


def never_held(self: WriteHolds, until: Any, count: Any) -> Any:
    return until != until


def idle_but_for_the_vector_unit(self: Issue, idle: list[Any]) -> Any:
    from amaranth.hdl import Cat

    return Cat(*idle[:-1]).all()


def column_stays(self: Columns, m: Any, columns: Any) -> None:
    """Every row of a block-diagonal tile goes to the column of the first."""


def overtakes(self: VectorUnit, until_drained: Any, latency: Any) -> Any:
    return until_drained == until_drained


Mutation = tuple[Any, str, Any, bool, bool]

HANGS = {"results overtake"}
"""Where two results come in one cycle, one is never counted, and what waits for it never starts."""

MUTATIONS: dict[str, Mutation] = {
    "half rounds up": (requantize, "rounds_up", half_up, True, False),
    "late swap": (MacArray, "take_over", swap_too_late, True, False),
    "loader rests": (ArrayUnit, "loader_free", loader_rests, False, True),
    "column stays": (Columns, "step", column_stays, True, False),
    "results overtake": (VectorUnit, "keeps_order", overtakes, True, True),
    "a real operand loses its sign": (elementwise, "OPERAND_BITS", 8, True, False),
    "taps outside are 0 to a maximum": (operands, "NO_TAP", 0, True, False),
    "no write holds": (WriteHolds, "is_held", never_held, False, True),
    "early halt": (Issue, "is_idle", idle_but_for_the_vector_unit, False, True),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, method, replacement, bits, cycles = MUTATIONS[name]
    cases = random_cases(square_machine(2), range(PROGRAMS))
    monkeypatch.setattr(owner, method, replacement)
    if name in HANGS:
        with pytest.raises(
            RidgelineError, match=r"the hardware did not finish segment \d+ in [\d,]+"
        ):
            broken(cases)
        return
    other_bits, other_cycles = broken(cases)
    assert bool(other_bits) >= bits
    assert bool(other_cycles) >= cycles


def test_small_machine_is_right() -> None:
    """What the mutations break is right before."""
    assert broken(random_cases(square_machine(2), range(PROGRAMS))) == (0, 0)
