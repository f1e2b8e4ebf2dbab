"""The unified buffer under the timeline: how much of it is occupied, as an area over time.

The area's full height is the fullest moment of the run, whose bytes stand beside it.
"""

from __future__ import annotations

from ridgeline.machine.occupancy import Occupancy
from ridgeline.render.html.elements import Markup, decimal, element, join
from ridgeline.render.units import percent, size

HEIGHT = 64
MOST_STEPS = 400


def lane(occupancy: Occupancy, width: int) -> Markup:
    """Label and chart of a lane whose whole length is `width` of the chart's own units."""
    label = element(
        "div", {"class": "lane"}, "unified buffer ", element("small", {}, _share(occupancy))
    )
    svg = element(
        "svg",
        {
            "class": "spans level",
            "viewBox": f"0 0 {width} {HEIGHT}",
            "preserveAspectRatio": "none",
            "width": "100%",
            "height": HEIGHT,
            "role": "img",
            "aria-label": f"unified buffer, {_words(occupancy)}",
            "data-bytes": occupancy.buffer_bytes,
            "data-peak": occupancy.peak_bytes,
        },
        element("path", {"d": _path(occupancy, width)}),
    )
    return join([label, svg])


def remark(occupancy: Occupancy) -> str:
    """What the area means, and its figures."""
    return (
        f" The unified buffer has {_words(occupancy)}: bytes written that something still reads,"
        " each from the start of its writing to the end of its last reading."
    )


def _share(occupancy: Occupancy) -> str:
    peak = occupancy.peak_bytes
    return f"to {size(peak)}, {percent(peak / occupancy.buffer_bytes, 0)}"


def _words(occupancy: Occupancy) -> str:
    whole, peak = occupancy.buffer_bytes, occupancy.peak_bytes
    average = percent(occupancy.average_bytes / whole, 0)
    return (
        f"at most {size(peak)} of {size(whole)} occupied ({percent(peak / whole, 0)}),"
        f" {average} on average"
    )


def _path(occupancy: Occupancy, width: int) -> str:
    """An area: across to where a step is, up or down to its level, and so on to the end."""
    cycles, used = occupancy.peaks(MOST_STEPS)
    across = width / occupancy.length_cycles
    parts = [f"M0 {HEIGHT}"]
    for cycle, level in zip(cycles.tolist(), used.tolist(), strict=True):
        height = HEIGHT * (1 - level / max(occupancy.peak_bytes, 1))
        parts.append(f"H{decimal(cycle * across)}V{decimal(height)}")
    return "".join([*parts, f"H{width}V{HEIGHT}Z"])
