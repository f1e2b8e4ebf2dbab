"""Ctrl-C, at any moment: one word, exit code 130, and nothing left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ridgeline import api

Run = Callable[..., Any]


def test_ctrl_c_leaves_nothing_behind(
    ridgeline: Run, shipped: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "simulate", press)
    result = ridgeline("run", shipped.model, "-i", data, "-o", tmp_path / "out.npz")
    assert (result.code, result.out, result.err) == (130, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == []


def _heeds_ctrl_c() -> None:
    """For a child of tests that run in the background, where SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _started(*arguments: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ridgeline.cli", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heeds_ctrl_c,
    )  # fmt: skip


def test_a_real_ctrl_c(
    shipped: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stages = tmp_path_factory.mktemp("stages")
    process = _started(
        "run", shipped.model, "-i", shipped.test, "-o", tmp_path / "out.npz",
        "--dump-stages", stages,
    )  # fmt: skip
    end = time.monotonic() + 120
    while not list(stages.glob("*.txt")) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_at_any_moment(shipped: Any) -> None:
    """From the first import of Ridgeline on, through those of a command."""
    code = "import sys\nfrom ridgeline.cli import main\nprint('!', flush=True)\nmain()"
    for milliseconds in (0, 2, 5, 10, 20, 30, 50, 80, 120, 200, 300, 500, 800):
        process = subprocess.Popen(
            [sys.executable, "-c", code, "run", shipped.model, "-i", shipped.test],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heeds_ctrl_c,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "!\n"
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err
        if process.returncode:
            assert (process.returncode, out, err) == (130, "", "interrupted\n"), milliseconds


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from ridgeline.cli import interrupts\n"
        "interrupts.before_work(); interrupts.work_begins(); signal.raise_signal(signal.SIGINT)\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (made.returncode, made.stderr) == (0, b"")


def test_a_ctrl_c_that_a_destructor_swallows_comes_again() -> None:
    code = (
        "import signal, time\n"
        "from ridgeline.cli import interrupts\n"
        "interrupts.before_work(); interrupts.work_begins()\n"
        "class Deaf:\n"
        "    def __del__(self): signal.raise_signal(signal.SIGINT)\n"
        "try:\n"
        "    Deaf(); print('deaf', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    print('heard', interrupts.seen())\n"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, preexec_fn=_heeds_ctrl_c,
    )  # fmt: skip
    assert (made.returncode, made.stdout, made.stderr) == (0, "deaf\nheard True\n", "")
