"""What each command does when all is well."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import ridgeline as package
from ridgeline.cli.model import RANDOM_SAMPLES
from ridgeline.machine.loader import known_keys, machine_names

Run = Callable[..., Any]
Golden = Callable[[str, str], None]


def _children_seconds() -> float:
    """Processor time of all children so far: unlike the clock, it is not what others do."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_is_quick_and_lists_every_command() -> None:
    seconds: list[float] = []
    for _ in range(3):
        start = _children_seconds()
        made = subprocess.run(
            [sys.executable, "-m", "ridgeline", "--help"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        seconds.append(_children_seconds() - start)
    assert min(seconds) < 0.4
    commands = (
        "run quantize compile disassemble check execute simulate machines chips gemm diff doctor"
        " worth rtl cosim"
    )
    for command in commands.split():
        assert f"\n  {command} " in made.stdout
    assert max(map(len, made.stdout.splitlines())) <= 80


def test_nothing_slow_is_imported_before_a_command_runs() -> None:
    code = "import sys, ridgeline.cli.app; print('numpy' in sys.modules, 'onnx' in sys.modules)"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "False False\n"


def test_version(ridgeline: Run) -> None:
    assert ridgeline("--version").out == f"ridgeline {package.__version__}\n"


def test_run_prints_the_report(ridgeline: Run, shipped: Any, data: Path, tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("out.npz", "report.json", "trace.json")}
    result = ridgeline(
        "run", shipped.model, "--machine", "tiny-8", "--calibrate", shipped.calibration,
        "--input", data, "--labels", "--output", paths["out.npz"],
        "--json", paths["report.json"], "--trace", paths["trace.json"],
        "--dump-stages", tmp_path / "stages",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert "for one inference" in result.out
    assert "accuracy   float 100.00 %, int8 100.00 % (+0.00 points) of 4 images" in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    with np.load(paths["out.npz"]) as outputs, np.load(data) as given:
        assert outputs["probabilities"].shape == (4, 10)
        assert (outputs["probabilities"].argmax(1) == given["labels"]).all()
    report = json.loads(paths["report.json"].read_text())
    assert report["batch"] == 1
    assert report["accuracy"] == {
        "images": 4,
        "float_right": 4,
        "quantised_right": 4,
        "number_format": "int8",
    }
    slices = json.loads(paths["trace.json"].read_text())["traceEvents"]
    assert {e["ph"] for e in slices} == {"M", "X", "C"}
    stages = {p.name for p in (tmp_path / "stages").iterdir()}
    assert {"01-read.txt", "01-read.onnx"} <= stages
    assert [name for name in stages if name.endswith("-quantize.onnx")]
    assert any(name.endswith("-emit.txt") for name in stages)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_batch_changes_no_bit(
    batch: int, ridgeline: Run, shipped: Any, data: Path, tmp_path: Path
) -> None:
    common = ["run", shipped.model, "--calibrate", shipped.calibration, "--input", data]
    for name, options in (("whole.npz", []), ("parts.npz", ["--batch", batch])):
        assert ridgeline(*common, *options, "-o", tmp_path / name).code == 0
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "parts.npz") as parts:
        assert np.array_equal(whole["probabilities"], parts["probabilities"])


def test_int16_activations_are_called_so(ridgeline: Run, shipped: Any, data: Path) -> None:
    result = ridgeline(
        "run", shipped.model, "--machine", "edge-4tops", "--activations", "int16",
        "--calibrate", shipped.calibration, "--input", data, "--labels",
    )  # fmt: skip
    assert "accuracy   float 100.00 %, int16 100.00 % (+0.00 points) of 4 images" in result.out


def test_without_data_it_warns_and_times(ridgeline: Run, shipped: Any) -> None:
    result = ridgeline("run", shipped.model, "--batch", 1)
    assert result.code == 0
    assert "note: WARNING: calibrated on random numbers" in result.out
    assert RANDOM_SAMPLES > 1


def test_calibrating_on_the_input_is_said(ridgeline: Run, shipped: Any, data: Path) -> None:
    result = ridgeline("run", shipped.model, "--input", data)
    assert "note: calibrated on --input itself" in result.out


@pytest.mark.parametrize(("form", "start"), [("markdown", "**digits"), ("csv", "layer,op,")])
def test_formats(form: str, start: str, ridgeline: Run, program: Path) -> None:
    result = ridgeline("simulate", program, "--format", form)
    assert result.code == 0
    assert result.out.startswith(start)


def test_json_on_stdout_is_the_file(ridgeline: Run, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    result = ridgeline("simulate", program, "--format", "json", "--json", path)
    assert result.out == path.read_text()


def test_the_web_page(ridgeline: Run, program: Path, shipped: Any, tmp_path: Path) -> None:
    simulated, ran = tmp_path / "s.html", tmp_path / "r.html"
    assert ridgeline("simulate", program, "--html", simulated).code == 0
    made = ridgeline(
        "run", shipped.model, "--machine", "tiny-8", "--batch", 2,
        "--calibrate", shipped.calibration, "--html", ran,
    )  # fmt: skip
    assert made.code == 0, made.err
    assert ran.read_text(encoding="utf-8") == simulated.read_text(encoding="utf-8")


def test_pipelined_runs_are_timed_too(ridgeline: Run, program: Path) -> None:
    alone, both = ridgeline("simulate", program), ridgeline("simulate", program, "--pipelined")
    assert "pipelined" not in alone.out
    assert "\npipelined  one run every " in both.out


def test_columns_are_chosen(ridgeline: Run, program: Path) -> None:
    result = ridgeline("simulate", program, "--format", "csv", "--columns", "layer,cycles")
    assert result.out.splitlines()[0] == "layer,cycles"


def test_a_quantised_file_is_taken_as_it_is(
    ridgeline: Run, shipped: Any, data: Path, tmp_path: Path
) -> None:
    quantised, out, again = (tmp_path / n for n in ("q.onnx", "a.npz", "b.npz"))
    common = ["--calibrate", shipped.calibration]
    made = ridgeline("quantize", shipped.model, *common, "-o", quantised, "--batch", 4)
    assert made.code == 0, made.err
    assert made.out.startswith(f"{quantised}: ")
    assert ridgeline("run", quantised, "-i", data, "-o", out, "--labels").code == 0
    assert ridgeline("run", shipped.model, *common, "-i", data, "-o", again).code == 0
    with np.load(out) as a, np.load(again) as b:
        assert np.array_equal(a["probabilities"], b["probabilities"])
    session = onnxruntime.InferenceSession(str(quantised), providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].name == "image"


def test_program_files(ridgeline: Run, program: Path, data: Path, tmp_path: Path) -> None:
    checked = ridgeline("check", program)
    assert checked.code == 0
    assert checked.out.startswith(f"{program}: legal: digits_cnn for tiny-8, ")
    result = ridgeline("execute", program, "-i", data, "-o", tmp_path / "o.npz", "--labels")
    assert result.code == 0
    assert "probabilities: float32[4, 10], " in result.out
    assert "accuracy: 100.00 % (4 of 4)\n" in result.out
    with np.load(tmp_path / "o.npz") as outputs:
        assert outputs["probabilities"].shape == (4, 10)


def test_disassembly(ridgeline: Run, program: Path) -> None:
    lines = ridgeline("disassemble", program).out.splitlines()
    assert lines[0] == "program digits_cnn for tiny-8, numeric mode onnxruntime"
    assert any(line == "  stem/conv:" for line in lines)
    assert any(" array.1  MatMul " in line for line in lines)


def test_compiling_twice_gives_the_same_file(
    ridgeline: Run, shipped: Any, program: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again.rlp"
    ridgeline(
        "compile", shipped.model, "--machine", "tiny-8", "--batch", 2,
        "--calibrate", shipped.calibration, "-o", again,
    )  # fmt: skip
    assert again.read_bytes() == program.read_bytes()


def test_machines_table(ridgeline: Run, golden: Golden) -> None:
    result = ridgeline("machines")
    assert max(map(len, result.out.splitlines())) <= 80
    golden("cli/machines.txt", result.out)


@pytest.mark.parametrize("name", machine_names())
def test_machines_shows_every_field_with_its_source(name: str, ridgeline: Run) -> None:
    shown = ridgeline("machines", name).out
    for key in known_keys():
        if key not in ("name", "description"):
            assert f"\n{key} = " in shown
    assert "no source given" not in shown
    assert json.loads(ridgeline("machines", name, "--json").out)["name"] == name


def test_machines_with_a_setting(ridgeline: Run) -> None:
    shown = ridgeline("machines", "tiny-16", "--set", "array.rows=32").out
    assert "array.rows = 32\n    set by the user" in shown
    assert json.loads(ridgeline("machines", "--json").out)[0]["rows"] == 64


def test_the_python_interface(shipped: Any, data: Path) -> None:
    machine = package.load_machine("tiny-16")
    graph = package.read_onnx(shipped.model, batch=4)
    with np.load(shipped.calibration) as samples:
        quantised = package.quantize(graph, dict(samples))
    program = package.compile(quantised, machine)
    with np.load(data) as arrays:
        outputs = package.execute(program, {"image": arrays["image"]})
        assert (outputs["probabilities"].argmax(1) == arrays["labels"]).all()
    report = package.report(program, package.simulate(program))
    assert sum(row.cycles for row in report.rows) == pytest.approx(report.cycles)
    assert sorted(dir(package)) == sorted(package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'kompile'"):
        _ = package.kompile
