"""Options that contradict the model, each other or the files: one message; exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refusals import refused, written

Run = Callable[..., Any]

BAD_OPTIONS: dict[str, tuple[list[str], str]] = {
    "machine": (
        ["--machine", "tiny-15"],
        "there is no machine 'tiny-15'. Did you mean 'tiny-16' or 'tiny-8'?",
    ),
    "field": (
        ["--set", "array.row=3"],
        "--set: a machine has no field 'array.row'. Did you mean 'array.rows'",
    ),
    "value": (
        ["--set", "array.rows=0"],
        "machine tiny-16: array.rows: must be greater than 0, not 0",
    ),
    "kind of value": (
        ["--set", "array.rows=many"],
        "machine tiny-16: array.rows: must be a whole number, not 'many'",
    ),
    "setting": (
        ["--set", "rows"],
        "--set: 'rows' is not KEY=VALUE. For example: --set array.rows=32",
    ),
    "float": (
        ["--float", "bf16"],
        "--float: the array of machine tiny-16 has no bf16. It has: int8. Leave --float out to"
        " quantise the model",
    ),
    "not a float": (
        ["--float", "int8"],
        "--float: 'int8' is not a floating-point format. Known: bf16, fp16, fp32, fp64, fp8_e4m3fn,"
        " fp8_e5m2",
    ),
    "int16": (
        ["--activations", "int16"],
        "--activations: the array of machine tiny-16 has no int16. It has: int8. Or add it:"
        " --set array.macs_per_pe_per_cycle.int16=0.5",
    ),
    "column": (
        ["--columns", "layer,cycels"],
        "--columns: there is no column 'cycels'. Did you mean 'cycles'",
    ),
    "shape without numbers": (
        ["--shape", "image"],
        "--shape: 'image' is not NAME=D0,D1,.... For example: --shape image=1,3,224,224",
    ),
    "no column": (["--columns", ""], "--columns: names no column. Known: all, layer, "),
    "no columns": (["--columns", " ,", "--columns", ","], "--columns: names no column. Known: "),
    "empty float": (["--float", ""], "--float: '' is not a floating-point format. Known: bf16, "),
    "shape twice": (
        ["--shape", "image=1,1,8,8", "--shape", "image=2,1,8,8"],
        "--shape: 'image' is given twice: 1,1,8,8 and 2,1,8,8. Give one shape for each input",
    ),
    "batch and shape": (
        ["--batch", "3", "--shape", "image=2,1,8,8"],
        "--batch 3 and --shape image=2,1,8,8 differ in the number of samples, the first dimension."
        " Leave one of them out",
    ),
    "one file for two": (
        ["--json", "no-x", "--trace", "./no-x"],
        "no-x: is given for both --trace and --json. Choose another path for one of them",
    ),
    "a file and a folder": (
        ["--dump-stages", "no-x", "--html", "no-x"],
        "no-x: is given for both --html and --dump-stages. Choose another path for one of them",
    ),
    "shape of no input": (["--shape", "img=1,1,8,8"], "{model}: --shape names 'img', which is no"),
    "rank": (["--shape", "image=1,3"], "{model}: --shape image=1,3 has 2 dimensions, but the"),
    "labels alone": (
        ["--labels"],
        "--labels: needs samples to execute. Give them with --input DATA.npz",
    ),
    "output alone": (
        ["--output", "out.npz"],
        "--output: needs samples to execute. Give them with --input DATA.npz",
    ),
    "no folder": (
        ["--json", "/no/such/folder/r.json"],
        "/no/such/folder/r.json: cannot be written (there is no folder '/no/such/folder'). Choose"
        " another path with --json",
    ),
    "folder": (
        ["--trace", "/"],
        "/: cannot be written (it is a folder). Choose another path with --trace",
    ),
    "stages": (
        ["--dump-stages", "/dev/null/stages"],
        "/dev/null/stages: cannot be made (Not a directory). Choose another --dump-stages",
    ),
}


@pytest.mark.parametrize("kind", sorted(BAD_OPTIONS))
def test_bad_options(kind: str, ridgeline: Run, shipped: Any) -> None:
    options, text = BAD_OPTIONS[kind]
    result = ridgeline("run", shipped.model, *options)
    assert result.err.startswith("error: " + text.format(model=shipped.model))
    assert result.err.count("\n") == 1
    assert (result.code, result.out) == (2, "")


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["run"], ["run", "m.onnx", "--batch", "0"], ["run", "m.onnx", "--colour"]],
)
def test_usage_errors_show_usage(arguments: list[str], ridgeline: Run) -> None:
    result = ridgeline(*arguments)
    assert result.code == 2
    assert result.err.startswith("Usage: ")
    assert "Traceback" not in result.err


def test_a_device_takes_two_outputs(ridgeline: Run, program: Path) -> None:
    made = ridgeline("simulate", program, "--json", "/dev/null", "--trace", "/dev/null")
    assert made.code == 0, made.err


def test_one_file_for_two_outputs_of_simulate(ridgeline: Run, program: Path) -> None:
    text = "no-x: is given for both --json and --html. Choose another path for one of them"
    refused(ridgeline("simulate", program, "--json", "no-x", "--html", "no-x"), text)


def _file_options(shipped: Any) -> dict[str, tuple[list[str], list[str], str]]:
    """By command: arguments, options that write, and what the first argument is called."""
    samples, model = str(shipped.calibration), str(shipped.model)
    report = ["--json", "--html", "--trace"]
    return {
        "run": ([model, "--input", samples], [*report, "--output"], "MODEL.onnx"),
        "compile": ([model], ["--output"], "MODEL.onnx"),
        "quantize": ([model, "--calibrate", samples], ["--output"], "MODEL.onnx"),
        "debug": ([model, "--input", samples], ["--dump", "--json"], "MODEL.onnx"),
    }


@pytest.mark.parametrize("command", ["run", "compile", "quantize", "debug", "execute", "simulate"])
def test_nothing_is_written_over_what_is_read(
    command: str, ridgeline: Run, shipped: Any, program: Path, tmp_path: Path
) -> None:
    """Each file that a command reads, as each file that it writes, under another spelling."""
    known = _file_options(shipped)
    known["execute"] = ([str(program), "--input", str(shipped.calibration)], ["--output"], "P.rlp")
    known["simulate"] = ([str(program)], ["--json", "--html", "--trace"], "P.rlp")
    arguments, options, called = known[command]
    given = [called, *arguments[1::2]]
    files = [Path(file).read_bytes() for file in arguments[::2]]
    copies = [written(tmp_path / f"read{i}", data) for i, data in enumerate(files)]
    arguments[::2] = [str(copy) for copy in copies]
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    for option in options:
        for name, copy in zip(given, copies, strict=True):
            before = copy.read_bytes()
            path = str(link / copy.name)
            text = f"{path}: is read as {name}, and {option} would write over it."
            refused(
                ridgeline(command, *arguments, option, path),
                f"{text} Choose another path with {option}",
            )
            assert copy.read_bytes() == before


def test_a_machine_file_is_not_written_over(
    ridgeline: Run, shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    machine = written(tmp_path / "m.toml", b"kept")
    text = "m.toml: is read as --machine, and --output would write over it. Choose another path"
    made = ridgeline("compile", shipped.model, "--machine", machine, "--output", "m.toml")
    refused(made, f"{text} with --output")
    assert machine.read_bytes() == b"kept"
    # The name of a shipped machine is that of no file.
    made = ridgeline("compile", shipped.model, "--output", "tiny-16")
    assert made.code == 0, made.err
