"""A picture of this project as PNG, by resvg: the extra `png`. Light, since resvg asks no system.

A computer without fonts would get a picture without words; it is refused.
"""

from __future__ import annotations

import importlib
from typing import Any

from ridgeline.errors import RidgelineError

INSTALL = "pip install 'ridgeline[png]'"
ZOOM = 2
"""Pixels for each unit of the SVG, so that the text is sharp on today's screens."""
_WORD = (
    "<svg xmlns='http://www.w3.org/2000/svg' width='32' height='16'><text y='14'"
    " font-size='14' font-family=\"system-ui,'Noto Sans','DejaVu Sans',sans-serif\">{}</text></svg>"
)


def require_png() -> None:
    """Raise RidgelineError where no PNG can be drawn: before the work, not after it."""
    draw = _resvg().svg_to_bytes
    if draw(svg_string=_WORD.format("Mg")) == draw(svg_string=_WORD.format("")):
        raise RidgelineError(
            "this computer has no font, and the picture would have no words",
            where="--png",
            fix="Install one (Debian: apt-get install fonts-dejavu-core), or write it with --svg",
        )


def png(svg: str) -> bytes:
    """The file of an SVG picture. Raises RidgelineError without the extra `png`."""
    return bytes(_resvg().svg_to_bytes(svg_string=svg, zoom=ZOOM))


def _resvg() -> Any:
    try:
        return importlib.import_module("resvg_py")
    except ImportError as error:
        raise RidgelineError(
            "needs the package resvg-py", where="--png", fix=f"Install it with: {INSTALL}"
        ) from error
