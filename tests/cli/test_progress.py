"""What a person at a terminal gets besides results: progress on stderr, completion in the shell."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def _at_a_terminal(*arguments: Any) -> tuple[str, str, int]:
    """(stdout, what a terminal behind stderr was sent, exit code)."""
    watcher, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "ridgeline.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as process:
        os.close(terminal)
        shown = bytearray()
        while True:
            try:
                shown += os.read(watcher, 4096)
            except OSError:  # Linux tells of the other end's closing so
                break
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(watcher)
    return out, shown.decode(), process.returncode


def test_bars_while_samples_are_calibrated_and_executed(shipped: Any, data: Path) -> None:
    options = ("--calibrate", shipped.calibration, "--input", data, "-m", "tiny-8")
    out, shown, code = _at_a_terminal("run", shipped.model, *options)
    assert code == 0
    for what in ("reading", "quantising", "compiling", "executing", "simulating"):
        assert what in shown
    assert "64/64" in shown
    assert "4/4" in shown
    layers = {int(total) for total in re.findall(r"compiling.*?\d+/(\d+)", shown)}
    assert len(layers) == 1
    assert min(layers) > 5
    assert "\x1b" not in out.split("\n", 1)[1]


def test_nothing_of_it_when_nobody_watches(ridgeline: Run, program: Path, data: Path) -> None:
    made = ridgeline("execute", program, "--input", data)
    assert made.code == 0
    assert made.err == ""
    assert made.out.startswith("probabilities: float32[4, 10], ")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("ridgeline ma", ["machines"]),
        ("ridgeline d", ["disassemble", "diff", "debug", "doctor"]),
        ("ridgeline run --obs", ["--observer"]),
        ("ridgeline run -m tiny", ["tiny-16", "tiny-8"]),
    ],
)
def test_the_shell_completes(words: str, wanted: list[str]) -> None:
    made = subprocess.run(
        [Path(sys.executable).with_name("ridgeline")],  # completion knows it by this name
        env={
            **os.environ,
            "_RIDGELINE_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.stdout.split() == wanted
