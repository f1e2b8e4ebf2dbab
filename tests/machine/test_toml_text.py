"""Machines written as machine files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.machine.loader import load_machine, machine_names
from ridgeline.machine.toml_text import machine_to_toml


@pytest.mark.parametrize("name", machine_names())
def test_what_is_written_is_read(name: str, tmp_path: Path) -> None:
    machine = load_machine(name)
    path = tmp_path / "machine.toml"
    path.write_text(machine_to_toml(machine), encoding="utf-8")
    assert load_machine(path) == machine


def test_any_text_is_kept(tmp_path: Path) -> None:
    strange = replace(load_machine("tiny-8"), description='a "b" \\ \x7f \n \u00e4')
    path = tmp_path / "machine.toml"
    path.write_text(machine_to_toml(strange), encoding="utf-8")
    assert load_machine(path) == strange
