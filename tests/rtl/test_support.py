"""What is refused, and with which words."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.errors import RidgelineError
from ridgeline.machine.fuzz import random_inputs, random_program
from ridgeline.machine.instructions import (
    Elementwise,
    Instruction,
    MatMul,
    Requant,
    WindowReduce,
)
from ridgeline.machine.latencies import LATENCIES
from ridgeline.machine.loader import load_machine
from ridgeline.rtl import build
from ridgeline.rtl.cosim import cosimulate
from ridgeline.rtl.depths import DEPTHS, depth, spare, table
from ridgeline.rtl.support import (
    unsupported,
    unsupported_instruction,
    unsupported_instructions,
)
from ridgeline.rtl.verilog import TOP, emit
from rtl_cases import square_machine

REASONS = {
    "array.dataflow=output-stationary": "only weight-stationary is built",
    "array.cols=4": "must be equal: nearest 8 for all",
    "array.rows=1": "from 2 to 64 are built",
    "array.weight_rows_per_cycle=2": "only 1 is built",
    "array.macs_per_pe_per_cycle.int16=0.5": "only int8 is built",
    "array.accumulator_bits=48": "only 32 is built",
    "device_memory.lines_per_cycle=2": "only 1 is built",
    "device_memory.bytes_per_s=500e6": "takes 1.6 cycles: only whole cycles are built; nearest"
    " device_memory.bytes_per_s=4e+08",
    "device_memory.latency_cycles=5000": "at most 1024",
    "unified_buffer.bytes=96": "a bank of 3 lines is not a power of two: nearest"
    " unified_buffer.bytes=64",
}


@pytest.mark.parametrize("setting", REASONS)
def test_machine_is_refused_with_the_reason(setting: str) -> None:
    machine = load_machine("tiny-8", [setting])
    assert any(REASONS[setting] in text for text in unsupported(machine))
    with pytest.raises(RidgelineError, match="no hardware is generated for this machine: "):
        emit(machine)


@pytest.mark.parametrize("name", ["tiny-8", "tiny-16"])
def test_small_machines_are_covered(name: str) -> None:
    assert unsupported(load_machine(name)) == []


def test_instructions_are_refused_with_the_reason() -> None:
    rng = np.random.default_rng(0)
    program = random_program(load_machine("tiny-8"), rng, length=300)
    reasons = {re.sub(r"by [\d.e+-]+,", "by S,", r) for r in unsupported_instructions(program)}
    assert reasons == {
        "HostRead is not built",
        "HostWrite is not built",
        "RealElementwise is not built",
        "Elementwise that divides, by S, is not built",
        "WindowReduce that averages in float32 is not built",
        "LoadWeights of a transposed tile is not built",
    }
    with pytest.raises(RidgelineError, match="the hardware cannot run this program: "):
        cosimulate(program, random_inputs(program, rng))


FORMS: dict[str, Instruction] = {
    "MatMul of int16 is not built": MatMul(format=2),
    "Requant of int16 is not built": Requant(out_format=2),
    "Elementwise of int16 is not built": Elementwise(format=2),
    "Elementwise with 1e-30, beyond 2^64 or its reciprocal, is not built": Elementwise(
        scale_b=1e-30
    ),
    "Elementwise with -1e+30, beyond 2^64 or its reciprocal, is not built": Elementwise(
        operation=1, offset=-1e30
    ),
    "Elementwise that divides, by 0.5, is not built": Elementwise(operation=2, scale_b=0.5),
    "Elementwise with the scale -1, below 0, is not built": Elementwise(operation=2, scale_a=-1.0),
    "WindowReduce with the scale -2, below 0, is not built": WindowReduce(
        operation=1, scale_a=-2.0
    ),
}


@pytest.mark.parametrize("reason", FORMS)
def test_a_form_is_refused_with_the_reason(reason: str) -> None:
    assert unsupported_instruction(FORMS[reason]) == reason


def test_extra_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RidgelineError, match=r"needs the package amaranth. .*'ridgeline\[rtl\]'"):
        build.simulator(square_machine(2))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def without_zig(name: str) -> Any:
        return None if name == "ziglang" else found(name)

    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", without_zig)
    with pytest.raises(RidgelineError, match=r"needs a C\+\+ compiler.*'ridgeline\[rtl\]'"):
        build.compiler()


def test_zig_where_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert build.compiler()[1:] == ["-m", "ziglang", "c++"]


def test_broken_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(RidgelineError, match="the simulation model does not build"):
        build.simulator(square_machine(2))
    assert not [p for p in (tmp_path / "cosim").iterdir() if p.is_file()]


def test_model_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = square_machine(2)
    first = build.simulator(machine)
    monkeypatch.setattr(build, "emit", lambda machine: pytest.fail("generated again"))
    assert build.simulator(machine) == first


def test_unwritable_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    monkeypatch.setenv("RIDGELINE_CACHE", str(occupied))
    with pytest.raises(RidgelineError, match="Name a writable folder in RIDGELINE_CACHE"):
        build.simulator(square_machine(2))


def test_verilog_is_the_same_twice_and_has_no_long_memories() -> None:
    text = emit(square_machine(2))
    assert text == emit(square_machine(2))
    assert f"module {TOP}(" in text
    assert "place = 0" in text
    assert len(text) < 600_000


def test_depths_are_the_latencies() -> None:
    for name, stages in DEPTHS.items():
        assert depth(stages) + spare(name) == getattr(LATENCIES, name)
    documented = Path(__file__).parents[2] / "docs" / "rtl.md"
    assert table() in documented.read_text(encoding="utf-8")
