"""The roofline: how many operations a second each layer reaches, over its operations for each byte.

Lengths along x are per cent and along y pixels, so that the chart fits any width and its text keeps
its size. The model is Williams, Waterman and Patterson 2009 (CACM 52(4)).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10, sqrt

from ridgeline.machine.description import Machine
from ridgeline.render.html.axes import Axes
from ridgeline.render.html.elements import Markup, element, join
from ridgeline.render.units import percent, quantity
from ridgeline.results.rows import LIMITS, LayerRow, Limit, Report

HEIGHT = 400
SMALLEST, LARGEST = 4.0, 22.0
"""Radius of a dot of no time and of all the time, in pixels; its area is its share."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One layer: operations for each byte, operations a second.

    `on_vector`: the vector unit's operations, one a lane and cycle, in which a multiply-accumulate
    is one; else of the array, in which it is two.
    """

    layer: int
    row: LayerRow
    on_vector: bool
    intensity: float
    per_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Roof:
    """A ceiling (operations a second) or a slope (bytes a second)."""

    key: str
    name: str
    ceiling_per_s: float = 0.0
    slope_bytes_per_s: float = 0.0

    @property
    def text(self) -> str:
        if self.ceiling_per_s:
            return f"{self.name}: {quantity(self.ceiling_per_s, 'OPS')}"
        return f"{self.name}: {quantity(self.slope_bytes_per_s, 'B/s')}"


def roofs(machine: Machine) -> tuple[Roof, ...]:
    """The limits of this machine."""
    return (
        Roof("array", "array", ceiling_per_s=2 * machine.peak_macs_per_s),
        Roof("vector", "vector unit", ceiling_per_s=machine.vector.lanes * machine.clock_hz),
        Roof("memory", "device memory", slope_bytes_per_s=machine.device_memory.bytes_per_s),
        Roof("link", "host link", slope_bytes_per_s=machine.host_link.bytes_per_s),
    )


def dots(report: Report) -> tuple[Dot, ...]:
    """The layers that compute, move bytes and have cycles of their own.

    Their time is at least that of what they need most, so that none lies above its roof: a layer
    that works while others do has fewer cycles of its own.
    """
    found: list[Dot] = []
    for layer, row in enumerate(report.rows):
        on_vector = row.placed != "array"
        work = max(row.macs, row.vector_operations) if on_vector else row.operations
        work = work or row.vector_operations
        if work and row.device_memory_bytes and row.cycles >= 1:
            per_s = work / max(row.cycles, row.bound_cycles) * report.clock_hz
            intensity, share = work / row.device_memory_bytes, row.cycles / report.cycles
            found.append(Dot(layer, row, on_vector, intensity, per_s, share))
    return tuple(found)


def _axes(shown: tuple[Dot, ...], machine: Machine) -> Axes:
    """Wide enough for every dot and for the corner of the array's ceiling."""
    peak = 2 * machine.peak_macs_per_s
    xs = [log10(2 * machine.balance_macs_per_byte), *(log10(d.intensity) for d in shown)]
    ys = [log10(peak), log10(peak) - 2, *(log10(d.per_s) for d in shown)]
    return Axes(
        floor(min(xs) - 0.3), ceil(max(xs) + 0.3), floor(min(ys) - 0.2), max(ys) + 0.35, HEIGHT
    )


def chart(report: Report, machine: Machine) -> Markup:
    """The figure with axes, roofs and dots, and below it what the lines are."""
    shown = dots(report)
    axes = _axes(shown, machine)
    limits = roofs(machine)
    drawn = [_grid(axes), *(_roof(roof, axes, limits[0]) for roof in limits)]
    circles = [_dot(dot, axes) for dot in sorted(shown, key=lambda dot: -dot.share)]
    plot = element(
        "svg",
        {"class": "plot", "height": HEIGHT, "width": "100%"},
        *drawn,
        element("g", {"role": "list", "aria-label": "layers", "class": "dots"}, *circles),
    )
    frame = element(
        "div",
        {"class": "axes", "role": "group", "aria-label": "Roofline", "data-choose": "circle"},
        _y_ticks(axes),
        plot,
        _x_ticks(axes),
    )
    up = element("p", {"class": "axis up"}, "↑ operations a second")
    along = element("p", {"class": "axis"}, "operations for each byte of device memory →")
    return join([up, frame, along, _key(limits), _colours(shown), _left_out(report, shown)])


def _grid(axes: Axes) -> Markup:
    lines = [
        element("line", {"x1": f"{axes.x(10.0**d):.2f}%", "x2": f"{axes.x(10.0**d):.2f}%",
                         "y1": 0, "y2": HEIGHT})
        for d in range(int(axes.x_low), int(axes.x_high) + 1)
    ] + [
        element("line", {"x1": 0, "x2": "100%", "y1": axes.y(10.0**d), "y2": axes.y(10.0**d)})
        for d in range(int(axes.y_low), floor(axes.y_high) + 1)
    ]  # fmt: skip
    return element("g", {"class": "grid"}, *lines)


def _y_ticks(axes: Axes) -> Markup:
    texts = [
        element("text", {"x": "100%", "y": axes.y(10.0**d) + 4, "text-anchor": "end"},
                quantity(10.0**d, ""))
        for d in range(int(axes.y_low), floor(axes.y_high) + 1)
    ]  # fmt: skip
    return element("svg", {"class": "ticks", "width": "100%", "height": HEIGHT}, *texts)


def _x_ticks(axes: Axes) -> Markup:
    first, last = int(axes.x_low), int(axes.x_high)
    texts: list[Markup] = []
    for d in range(first, last + 1):
        anchor = "start" if d == first else "end" if d == last else "middle"
        label = f"{10.0**d:g}" if d < 3 else quantity(10.0**d, "")
        where = {"x": f"{axes.x(10.0**d):.2f}%", "y": 14, "text-anchor": anchor}
        texts.append(element("text", where, label))
    return element("svg", {"class": "ticks x", "width": "100%", "height": 18}, *texts)


def _roof(roof: Roof, axes: Axes, array: Roof) -> Markup:
    """A ceiling right of the memory's slope, or a slope up to the array's ceiling; and its name."""
    left, right = 10.0**axes.x_low, 10.0**axes.x_high
    if roof.ceiling_per_s:
        ends = ((left, roof.ceiling_per_s), (right, roof.ceiling_per_s))
        at = {"x": "99%", "y": axes.y(roof.ceiling_per_s) - 6, "text-anchor": "end"}
    else:
        corner = min(right, array.ceiling_per_s / roof.slope_bytes_per_s)
        start = max(left, 10.0**axes.y_low / roof.slope_bytes_per_s)
        if start >= corner:
            return Markup("")
        ends = ((start, start * roof.slope_bytes_per_s), (corner, corner * roof.slope_bytes_per_s))
        # Above the steeper one and below the other, so that close slopes keep their names apart.
        above = roof.key == "memory"
        place = start * (corner / start) ** (0.45 if above else 0.2)
        side, lift = (-1.5, -4) if above else (2, 12)
        at = {
            "x": f"{axes.x(place) + side:.2f}%",
            "y": axes.y(place * roof.slope_bytes_per_s) + lift,
            "text-anchor": "end" if above else "start",
        }
    (x1, y1), (x2, y2) = ends
    line = element(
        "line",
        {
            "x1": f"{axes.x(x1):.2f}%",
            "y1": axes.y(y1),
            "x2": f"{axes.x(x2):.2f}%",
            "y2": axes.y(y2),
        },
    )
    return element("g", {"class": f"roof {roof.key}"}, line, element("text", at, roof.name))


def _dot(dot: Dot, axes: Axes) -> Markup:
    radius = sqrt(SMALLEST**2 + (LARGEST**2 - SMALLEST**2) * min(dot.share, 1))
    return element(
        "circle",
        {
            "cx": f"{axes.x(dot.intensity):.2f}%",
            "cy": axes.y(dot.per_s),
            "r": radius,
            "class": _class(dot.row.bound),
            "data-layer": dot.layer,
            "tabindex": -1,
            "role": "listitem",
            "aria-label": _say(dot),
        },
    )


def _class(limit: Limit) -> str:
    """The class that gives a limit its colour."""
    return "limit-" + limit.replace(" ", "-")


def _say(dot: Dot) -> str:
    kind = "vector operations" if dot.on_vector else "operations"
    rate = quantity(dot.per_s, "OPS") + (" of vector work" if dot.on_vector else "")
    return (
        f"{dot.row.name}: {rate}, {dot.intensity:.3g} {kind} for each byte,"
        f" {percent(dot.share)} of the time, limited by {LIMITS[dot.row.bound]}"
    )


def _key(limits: tuple[Roof, ...]) -> Markup:
    items = [
        element(
            "li",
            {},
            element("svg", {"class": "swatch", "width": 26, "height": 12, "aria-hidden": "true"},
                    element("g", {"class": f"roof {roof.key}"},
                            element("line", {"x1": 1, "x2": 25, "y1": 6, "y2": 6}))),
            " " + roof.text,
        )
        for roof in limits
    ]  # fmt: skip
    return element("ul", {"class": "key"}, *items)


def _colours(shown: tuple[Dot, ...]) -> Markup:
    """What the dots' colours mean."""
    occurring = {dot.row.bound for dot in shown}
    items = [
        element(
            "li",
            {},
            element("svg", {"class": "swatch", "width": 14, "height": 14, "aria-hidden": "true"},
                    element("circle", {"cx": 7, "cy": 7, "r": 6, "class": _class(limit)})),
            f" limited by {meaning}",
        )
        for limit, meaning in LIMITS.items()
        if limit in occurring
    ]  # fmt: skip
    return element("ul", {"class": "key"}, *items)


def _left_out(report: Report, shown: tuple[Dot, ...]) -> Markup:
    """How to read the chart, and how many layers have no place in it."""
    missing = len(report.rows) - len(shown)
    text = (
        "A dot is a layer, its area the share of the time. Vector layers count vector operations."
        " A layer that works while others do is timed by what it needs most: it lies on its roof."
    )
    if missing:
        text += (
            f" {missing} of {len(report.rows)} layers have no dot: they compute nothing, move no"
            " byte through device memory, or work wholly while others do."
        )
    return element("p", {"class": "remark"}, text)
