"""The roofline of several chips as an SVG file: complete in itself, light or dark as the reader's
system is, and drawn with plain colours so that programs which make bitmaps of it need no browser.
"""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.render.html import chips_roofline as chart
from ridgeline.render.html.elements import Markup, element
from ridgeline.render.plain import shorten
from ridgeline.roofline.bound import Bound

WIDTH = 1000
LEFT, TOP, RIGHT = 64, 64, 24
KEY_LINE = 20
LIGHT = ("#2a6fb0", "#b8541a", "#2e7d54", "#a0397f", "#6b5bb5", "#86690a")
DARK = ("#66a9ee", "#f0965a", "#63c193", "#e383c5", "#a99cf2", "#d3b347")
"""A colour for each chip, as on the pages."""
LONGEST_KEY = 130


def render(bounds: Sequence[Bound]) -> str:
    """One model on one or more chips, as text of an SVG file."""
    axes = chart.axes_of(bounds)
    plot_width = WIDTH - LEFT - RIGHT
    bottom = TOP + chart.HEIGHT
    height = bottom + 50 + KEY_LINE * (len(bounds) + 1)
    title = f"Roofline of {shorten(bounds[0].workload.name, 60)}, batch {bounds[0].batch}"
    drawn = [
        element("title", {}, title),
        Markup(f"<style>{_style()}</style>"),
        element("rect", {"class": "paper", "width": WIDTH, "height": height}),
        element("text", {"class": "title", "x": LEFT, "y": 26}, title),
        element("text", {"x": 8, "y": 50}, "operations a second"),
        _part(0, TOP, LEFT - 8, chart.HEIGHT, chart.y_ticks(axes), "ticks"),
        _part(LEFT, TOP, plot_width, chart.HEIGHT, chart.parts(bounds, axes), "plot"),
        element("path", {"class": "edge", "d": f"M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}"}),
        _part(LEFT, bottom + 2, plot_width, 18, chart.x_ticks(axes), "ticks"),
        element(
            "text",
            {"x": LEFT + plot_width / 2, "y": bottom + 36, "text-anchor": "middle"},
            "operations for each byte that a layer moves, every operand once",
        ),
        *_key(bounds, bottom + 50),
    ]
    attributes = {
        "xmlns": "http://www.w3.org/2000/svg",
        "width": WIDTH,
        "height": height,
        "viewBox": f"0 0 {WIDTH} {height}",
    }
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{element("svg", attributes, *drawn)}\n'


def _part(x: int, y: int, width: int, height: int, content: list[Markup], kind: str) -> Markup:
    shape = {"x": x, "y": y, "width": width, "height": height, "class": kind}
    return element("svg", shape, *content)


def _key(bounds: Sequence[Bound], top: int) -> list[Markup]:
    made: list[Markup] = []
    for index, bound in enumerate(bounds):
        y = top + KEY_LINE * index
        mark = element("circle", {"cx": LEFT + 6, "cy": y + 5, "r": 6})
        text = shorten(chart.key_of(bound), LONGEST_KEY)
        made.append(element("g", {"class": f"dots k{index}"}, mark))
        made.append(element("text", {"x": LEFT + 18, "y": y + 10}, text))
    remark = (
        "A dot is a layer, its area the share of the time; hollow: elementwise work."
        " Above a slope: its bytes are in a faster memory."
    )
    y = top + KEY_LINE * len(bounds) + 10
    return [*made, element("text", {"x": LEFT, "y": y}, remark)]


def _style() -> str:
    """Plain colours, and others where the system is dark."""
    rules = [
        "text{font:12px system-ui,'Noto Sans','DejaVu Sans',sans-serif;fill:#565c64}",
        ".title{font-size:17px;fill:#1b1d20}",
        ".paper{fill:#fff}.edge{fill:none;stroke:#868d96}.grid line{stroke:#d5d9de}",
        ".plot{overflow:hidden}.ticks{overflow:visible}",
        ".ceiling,.slope{stroke-width:1;stroke-dasharray:5 4}",
        ".main{stroke-width:2.5;stroke-dasharray:none}",
        ".roofs text{paint-order:stroke;stroke:#fff;stroke-width:4px}",
        "circle{fill-opacity:.5;stroke-width:1.5}circle.elementwise{fill-opacity:.1}",
        *_coloured(LIGHT),
        "@media (prefers-color-scheme:dark){",
        "text{fill:#a9b0b9}.title{fill:#e9ebee}.paper{fill:#15171a}.edge{stroke:#7a828c}",
        ".grid line{stroke:#353a41}.roofs text{stroke:#15171a}",
        *_coloured(DARK),
        "}",
    ]
    return "".join(rules)


def _coloured(colours: Sequence[str]) -> list[str]:
    return [
        f".k{index} line{{stroke:{colour}}}.k{index} text{{fill:{colour}}}"
        f".k{index} circle{{fill:{colour};stroke:{colour}}}"
        for index, colour in enumerate(colours)
    ]
