"""`ridgeline debug`: what it prints and writes, its exit codes, what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.machine.instructions import LoadWeights
from ridgeline.machine.program import load_program

Run = Callable[..., Any]


@pytest.fixture
def debug(ridgeline: Run, shipped: Any, data: Path) -> Run:
    """`debug(...)` of the shipped model on tiny-8, in batches of two."""

    def run(*arguments: Any) -> Any:
        options = ("--calibrate", shipped.calibration, "--input", data, "--batch", 2)
        return ridgeline("debug", shipped.model, "-m", "tiny-8", *options, *arguments)

    return run


@pytest.fixture
def tampered(program: Path, tmp_path: Path) -> tuple[Path, LoadWeights]:
    """The program with one weight tile corrupted, and the instruction that loads it."""
    made = load_program(program)
    loads = [i for i in made.instructions if isinstance(i, LoadWeights)]
    tile = loads[len(loads) // 3]
    constants = made.constants.copy()
    constants[tile.address : tile.address + tile.n] ^= 0x40
    path = tmp_path / "tampered.rlp"
    replace(made, constants=constants).save(path)
    return path, tile


@pytest.mark.parametrize("against", ["integers", "onnxruntime"])
def test_a_sound_program_has_no_difference(debug: Run, program: Path, against: str) -> None:
    made = debug("--against", against, "--program", program)
    assert made.out == f"no difference from {against} in 4 samples\n"
    assert made.code == 0


def test_a_tampered_program_names_layer_instruction_and_value(
    debug: Run, tampered: tuple[Path, LoadWeights], tmp_path: Path
) -> None:
    path, tile = tampered
    layer = load_program(path).layers[tile.layer]
    made = debug("--program", path, "--json", tmp_path / "found.json")
    assert made.code == 1
    lines = made.out.splitlines()
    assert lines[0] == f"first difference from integers: layer '{layer.name}' ({layer.op})"
    assert lines[4].startswith("written by segment 1, instruction ")
    assert lines[-1].startswith("  segment 1, instruction ")
    assert "LoadWeights " in lines[-1]
    assert f" address={tile.address} " in lines[-1]
    assert f": {tile.n} of the constants that it reads are others, the first at" in lines[-1]
    found = json.loads((tmp_path / "found.json").read_text())["first_difference"]
    assert found["layer"] == layer.name
    assert found["expected"] != found["got"]
    assert found["changed"][0]["unit"].startswith("weights.")


def test_a_dump_of_a_sound_run_finds_the_fault(
    debug: Run, tampered: tuple[Path, LoadWeights], tmp_path: Path
) -> None:
    dump = tmp_path / "values.npz"
    assert debug("--dump", dump).code == 0
    with np.load(dump) as arrays:
        assert len(arrays.files) >= 12
    assert debug("--against", dump).out == f"no difference from {dump} in 2 samples\n"
    made = debug("--against", dump, "--program", tampered[0])
    assert made.code == 1
    assert made.out.startswith(f"first difference from {dump}: layer '")


def test_another_models_program_is_refused(debug: Run, program: Path, tmp_path: Path) -> None:
    made = load_program(program)
    other = replace(made, layers=tuple(replace(x, name=f"x{x.name}") for x in made.layers))
    other.save(tmp_path / "other.rlp")
    result = debug("--program", tmp_path / "other.rlp")
    assert result.err == (
        f"error: {tmp_path / 'other.rlp'}: has other layers than the model. Give the model,"
        " calibration and batch that it was compiled from\n"
    )
    assert result.code == 2


def test_an_unknown_reference_is_a_missing_file(debug: Run) -> None:
    made = debug("--against", "nowhere")
    assert made.err == (
        "error: nowhere: no such file. Make one with: numpy.savez('data.npz', NAME=array)\n"
    )
    assert made.code == 2
