"""Queues, issue and accumulators proved equal to plain models, and broken ones refuted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proof_cases import PROVED, REFUTED, AccumulatorsProof, IssueProof, QueueProof, prove
from rewritten import rewritten
from ridgeline.machine.instructions import Unit
from ridgeline.rtl import issue, words
from ridgeline.rtl.issue import InstructionQueue, Issue
from ridgeline.rtl.memories import Accumulators
from ridgeline.rtl.shape import Shape
from rtl_cases import square_machine

COUNT_BITS = 3
"""Counts that wrap after 8 instead of 2^20: the proof is of the same text with other widths."""

WORD_BITS = 24
"""An opcode and the waits; a queue moves words whole, whatever else is in them."""

MOST_CYCLES = 5

Design = Callable[[], Any]

DESIGNS: dict[str, Design] = {
    **{
        f"queue of {depth}": lambda depth=depth: QueueProof(Unit.LOAD, depth, COUNT_BITS)
        for depth in (1, 2, 3, 4, 8)
    },
    "queue of the array": lambda: QueueProof(Unit.ARRAY, 3, COUNT_BITS),
    "issue": lambda: IssueProof(Shape(square_machine(2, "queue_depth=2")), COUNT_BITS),
    "accumulators": lambda: AccumulatorsProof(
        Shape(square_machine(2, "array.accumulator_entries=4")), 19
    ),
}

Broken = tuple[str, Any, str, str, str]

BROKEN: dict[str, Broken] = {
    "never full": (
        "queue of 2", InstructionQueue, "elaborate", "self.full.eq(level == self.depth)",
        "self.full.eq(0)",
    ),
    "wraps late": (
        "queue of 3", InstructionQueue, "elaborate", "place == self.depth - 1",
        "place == self.depth",
    ),
    "what leads goes to the memory": (
        "queue of 2", InstructionQueue, "elaborate", "(level == 0) | (self.pop & ~behind)",
        "level == 0",
    ),
    "a word is left out": (
        "queue of 3", InstructionQueue, "elaborate", "(first, self.pop & behind)",
        "(first, self.pop)",
    ),
    "waits of the head before": (
        "queue of 2", InstructionQueue, "_compare", "Mux(moves, comes, stays)", "stays",
    ),
    "waits of all units for the array": (
        "queue of the array", InstructionQueue, "_compare", "comes_met", "comes_met\") & named(m, "
        "waits_met(after, self.following, UNITS), \"all_met",
    ),
    "a full queue takes a word": ("issue", Issue, "elaborate", " & ~queue.full", ""),
    "a drain is missed": (
        "issue", Issue, "elaborate", "self.counts[unit] + self.drained[unit]",
        "self.counts[unit] + (self.drained[unit] & ~push)",
    ),
    "Halt before the vector unit": (
        "issue", Issue, "is_idle", "Cat(*idle).all()", "Cat(*idle[:-1]).all()",
    ),
    "Halt while queues hold words": (
        "issue", Issue, "elaborate", "dispatched + push", "dispatched + queue.pop",
    ),
    "an opcode of no unit is taken": (
        "issue", Issue, "elaborate", "Cat(*pushes).any() | halts",
        "Cat(*pushes).any() | halts | (code == 15)",
    ),
    "the sum of the cycle before is not there": (
        "accumulators", Accumulators, "elaborate", "first = valid & (self.entry == entry)",
        "first = valid & 0",
    ),
    "nor that of two cycles before": (
        "accumulators", Accumulators, "elaborate", "written & (self.entry == entry_written)",
        "written & 0",
    ),
    "overwriting adds": (
        "accumulators", Accumulators, "elaborate", "self.accumulate & ~first & ~second",
        "~first & ~second",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issue, "COUNT_BITS", COUNT_BITS)
    monkeypatch.setattr(words, "COUNT_BITS", COUNT_BITS)
    monkeypatch.setattr(issue, "word_bits", lambda _: WORD_BITS)


@pytest.mark.parametrize("name", DESIGNS)
def test_proved(name: str, tmp_path: Path) -> None:
    assert prove(DESIGNS[name](), tmp_path, MOST_CYCLES) == PROVED


@pytest.mark.parametrize("name", BROKEN)
def test_broken_is_refuted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a run from reset, not for want of an invariant: so no proof above is vacuous."""
    design, owner, method, old, new = BROKEN[name]
    monkeypatch.setattr(owner, method, rewritten(getattr(owner, method), old, new))
    assert prove(DESIGNS[design](), tmp_path, 12) == REFUTED
