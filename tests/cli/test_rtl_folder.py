"""`ridgeline rtl`: the folder for a board, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ridgeline.machine.loader import load_machine
from ridgeline.rtl.build import compiler

SMALL = ("--set", "array.rows=4", "--set", "array.cols=4", "--set", "vector.lanes=4",
         "--set", "unified_buffer.bytes=1024")  # fmt: skip
SETTINGS = SMALL[1::2]


def run(ridgeline: Any, path: Path, *options: str) -> Any:
    return ridgeline("rtl", "tiny-8", "-o", path, *SMALL, *options)


def test_a_folder_holds_all_that_a_board_needs(ridgeline: Any, tmp_path: Path) -> None:
    path = tmp_path / "board"
    path.mkdir()  # an empty folder is filled
    shown = run(ridgeline, path)
    assert shown.code == 0, shown.err
    names = {file.name for file in path.iterdir()}
    assert {line.split()[0] for line in shown.out.splitlines()[2:]} == names
    assert max(map(len, shown.out.splitlines()[1:])) <= 80
    manifest = json.loads((path / "ridgeline.json").read_text())
    assert manifest["files"] == sorted(names)
    readme = (path / "README.md").read_text()
    for name, ports in manifest["tops"].items():
        text = (path / f"{name}.v").read_text()
        top = text[text.index(f"module {name}(") :]
        top = top[: top.index("endmodule")]
        for port in ports:
            span = f"[{port['bits'] - 1}:0] " if port["bits"] > 1 else ""
            assert f"  {port['direction']} {span}{port['name']};\n" in top, port
            assert f"| {port['direction']} | {port['bits']} | `{port['name']}` |" in readme
        declared = [line for line in top.splitlines() if line.startswith(("  input", "  output"))]
        assert len(declared) == len(ports)
    assert load_machine(path / "machine.toml") == load_machine("tiny-8", SETTINGS)
    _check_header(path)


def _check_header(path: Path) -> None:
    """It is C, and says what the table says."""
    registers = json.loads((path / "registers.json").read_text())
    checks = [f'_Static_assert(RIDGELINE_{r["name"]} == {r["offset"]}, "");' for r in registers]
    source = path.with_name("use.c")
    source.write_text('#include "ridgeline_registers.h"\n' + "\n".join(checks) + "\n")
    command = [*compiler(), "-x", "c", "-fsyntax-only", "-I", str(path), str(source)]
    subprocess.run(command, check=True)


def test_one_top_replaces_what_was_made_before(ridgeline: Any, tmp_path: Path) -> None:
    path = tmp_path / "board"
    run(ridgeline, path, "--top", "core")
    manifest = json.loads((path / "ridgeline.json").read_text())
    manifest["files"].append("ridgeline_axi.v")
    (path / "ridgeline.json").write_text(json.dumps(manifest))
    (path / "ridgeline_axi.v").write_text("made before")
    (path / "pins.lpf").write_text("mine")
    shown = run(ridgeline, path, "--top", "core", "--json")
    assert json.loads(shown.out)["files"] == sorted(
        {file.name for file in path.iterdir()} - {"pins.lpf"}
    )
    assert not (path / "ridgeline_axi.v").exists()
    assert (path / "pins.lpf").read_text() == "mine"


def test_one_file_of_another_top(ridgeline: Any, tmp_path: Path) -> None:
    path = tmp_path / "axi.v"
    shown = run(ridgeline, path, "--top", "axi", "--bus-bits", "128", "--address-bits", "40",
                "--burst-beats", "256", "--no-counters", "--json")  # fmt: skip
    made = json.loads(shown.out)
    assert made["top"] == "ridgeline_axi"
    widths = {port["name"]: port["bits"] for port in made["ports"]}
    assert widths["m_axi_wdata"] == 128
    assert widths["m_axi_wstrb"] == 16
    assert widths["m_axi_araddr"] == 40
    assert "counter_0" not in path.read_text()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--top", "axy"), "there is no top 'axy'. Did you mean 'axi'?"),
        (("--top", "zzz"), "Known: axi, core, stream"),
        (
            ("--bus-bits", "48"),
            "an AXI data bus has a power of two of bits from 8 to 1024, not 48. Give --bus-bits",
        ),
        (
            ("--top", "core", "--bus-bits", "64", "--burst-beats", "8"),
            "--bus-bits and --burst-beats shape the AXI top only, and it is not generated",
        ),
        (("--top", "stream", "--address-bits", "64"), "--address-bits shapes the AXI top only"),
        (("--top", "core", "--no-counters"), "the bare core has no counters to leave out"),
        (("--bus-bits", "2048"), "not 2048. Give --bus-bits 1024"),
        (("--burst-beats", "257"), "a burst has from 1 to 256 beats, not 257"),
        (("--address-bits", "65"), "an address has from 16 to 64 bits, not 65"),
        (
            ("--address-bits", "20"),
            "device memory of 8,388,608 bytes has addresses of 23 bits, and the bus 20",
        ),
    ],
)
def test_refusals(ridgeline: Any, tmp_path: Path, options: tuple[str, ...], text: str) -> None:
    ended = run(ridgeline, tmp_path / "board", *options)
    assert ended.code == 2
    assert text in " ".join(ended.err.split())
    assert not (tmp_path / "board").exists()


def test_folders_that_are_not_ours_are_left_alone(ridgeline: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "ridgeline.json").write_text('{"files": ["thesis.txt"]}')
    (tmp_path / "mine" / "thesis.txt").write_text("text")
    ended = run(ridgeline, tmp_path / "mine")
    assert ended.code == 2
    assert "is a folder that ridgeline rtl did not make, and is left alone" in ended.err
    assert len(list((tmp_path / "mine").iterdir())) == 2
    ended = run(ridgeline, tmp_path / "mine" / "thesis.txt")
    assert ended.code == 2
    assert "is a file; the Verilog of a machine goes into a folder" in ended.err
    ended = run(ridgeline, tmp_path / "no" / "board")
    assert ended.code == 2
    assert "there is no folder" in ended.err


def test_a_folder_that_may_not_be_written(
    ridgeline: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(ridgeline, tmp_path / "board", "--top", "core")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    ended = run(ridgeline, tmp_path / "board")
    assert ended.code == 2
    assert "the folder may not be written" in ended.err
