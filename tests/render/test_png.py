"""The roofline as PNG: resvg's pixels beside Chromium's, and what is said where it cannot draw."""

from __future__ import annotations

import importlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import browser
from ridgeline.render import png, svg
from ridgeline.roofline.estimate import bound_of
from ridgeline.workload.read import read_workloads


@pytest.fixture(scope="module")
def picture(shipped: Any) -> str:
    (workload,) = read_workloads(shipped.model)
    return svg.render([bound_of(workload, name, "int8") for name in ("l4", "t4")])


@pytest.fixture
def resvg() -> None:
    """The extra `png`; without it the test is skipped, or fails in CI."""
    try:
        importlib.import_module("resvg_py")
    except ImportError:
        text = f"no PNG was tested: {png.INSTALL}"
        pytest.fail(text) if os.environ.get("CI") else pytest.skip(text)


def _pixels(data: bytes) -> Any:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.int16)


@pytest.mark.usefixtures("resvg")
def test_its_pixels_are_those_of_a_browser(picture: str, tmp_path: Path) -> None:
    """But for the edges of letters; a picture without its dots or words is further away."""
    path = tmp_path / "roofline.svg"
    path.write_text(picture, encoding="utf-8")
    made = _pixels(png.png(picture))
    with browser() as chromium:
        page = chromium.new_page(
            viewport={"width": svg.WIDTH, "height": made.shape[0] // png.ZOOM},
            device_scale_factor=png.ZOOM,
        )
        page.goto(path.as_uri())
        shown = _pixels(page.screenshot())
    assert made.shape == shown.shape

    def apart(one: Any) -> float:
        return float((np.abs(one - shown).max(axis=2) > 96).mean())

    whole = apart(made)
    assert whole < 0.01
    for part in ("circle", "text"):
        assert (
            apart(_pixels(png.png(picture.replace(f"{part}{{", f"{part}{{display:none;", 1))))
            > 2 * whole
        )
