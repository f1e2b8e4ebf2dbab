"""`ridgeline analyze --png`: the file, and one message where it cannot be drawn."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline.render import png, svg
from ridgeline.roofline.estimate import bound_of
from ridgeline.workload.read import read_workloads

Run = Any


def test_the_command_writes_what_resvg_draws(
    ridgeline: Run, shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That resvg draws is held in tests/render; here, that its bytes land in the file."""

    def draw(svg_string: str, zoom: int = 1) -> bytes:
        return f"{zoom} x {svg_string}".encode()

    monkeypatch.setitem(sys.modules, "resvg_py", SimpleNamespace(svg_to_bytes=draw))
    path = tmp_path / "roofline.png"
    chips = ("--chip", "l4", "--chip", "t4", "--precision", "int8")
    shown = ridgeline("analyze", shipped.model, *chips, "--png", path)
    assert shown.code == 0
    (workload,) = read_workloads(shipped.model)
    picture = svg.render([bound_of(workload, name, "int8") for name in ("l4", "t4")])
    assert path.read_bytes() == f"{png.ZOOM} x {picture}".encode()


def _refused(ridgeline: Run, shipped: Any, folder: Path) -> str:
    """What `--png` says; nothing else that was asked for may have been written."""
    files = ("--png", folder / "a.png", "--svg", folder / "a.svg")
    shown = ridgeline("analyze", shipped.model, "--chip", "l4", *files)
    assert (shown.code, shown.out) == (2, "")
    assert list(folder.iterdir()) == []
    return shown.err


def test_without_the_extra(
    ridgeline: Run, shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    assert _refused(ridgeline, shipped, tmp_path) == (
        "error: --png: needs the package resvg-py. Install it with: pip install 'ridgeline[png]'\n"
    )


def test_without_fonts(
    ridgeline: Run, shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = SimpleNamespace(svg_to_bytes=lambda **_: b"nothing drawn")
    monkeypatch.setitem(sys.modules, "resvg_py", blank)
    assert _refused(ridgeline, shipped, tmp_path) == (
        "error: --png: this computer has no font, and the picture would have no words. Install one"
        " (Debian: apt-get install fonts-dejavu-core), or write it with --svg\n"
    )
