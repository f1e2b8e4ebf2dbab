"""The roofline of several chips with the layers of one model on it, as SVG for pages and files.

Every precision is a ceiling, every memory a slope; a dot is a layer on one chip. Lengths along x
are per cent and along y pixels, as in `roofline`, so that the chart fits any width. A dot lies at
the layer's operations for each byte, every operand once, and at the operations a second of its
likely time. One whose bytes come from the chip's own memory may lie above the main memory's slope.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10, sqrt

from ridgeline.render.html.axes import Axes
from ridgeline.render.html.elements import Markup, element
from ridgeline.render.plain import shorten
from ridgeline.render.units import percent, quantity
from ridgeline.roofline.bound import Bound
from ridgeline.roofline.roof import Roof, roof_of
from ridgeline.roofline.what_if import UNUSED

HEIGHT = 420
SMALLEST, LARGEST = 3.5, 20.0
"""Radius of a dot of no time and of all the time, in pixels; its area is its share."""
LINE = 15
"""Pixels from a label to the next."""
USUAL_WIDTH = 900
"""For which labels of slopes are kept apart."""
LONGEST_NAME = 48
FARTHEST = 12
"""Pixels between a ceiling's name and its place beside the line; farther off it would be taken for
another's.
"""
NAMES = 0.9
"""Decades right of dots and ridges, where the names of ceilings stand."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One layer on one chip. `on_vector`: it multiplies nothing, so that its elementwise operations
    are counted.
    """

    layer: int
    name: str
    intensity: float
    per_s: float
    share: float
    limit: str
    on_vector: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A ceiling (operations a second) or the slope of a memory (bytes a second)."""

    name: str
    per_s: float
    is_slope: bool = False
    chosen: bool = False


def dots(bound: Bound) -> tuple[Dot, ...]:
    """The layers that compute something, move a known number of bytes and take time."""
    found: list[Dot] = []
    for place, one in enumerate(bound.layers):
        layer = one.layer
        work = layer.operations or layer.vector_operations
        time = one.seconds.likely
        if work and layer.moved_bytes and time:
            share = time / bound.seconds.likely
            intensity = work / layer.moved_bytes
            on_vector = not layer.operations
            found.append(
                Dot(place, layer.name, intensity, work / time, share, one.limit, on_vector)
            )
    return tuple(found)


def lines(roof: Roof) -> tuple[Line, ...]:
    """Ceilings of the chip's precisions, those of one height together, and slopes, fastest first.

    The precision that the layers are timed in is marked as chosen.
    """
    heights: dict[float, list[str]] = {}
    for precision in roof.chip.precisions():
        if precision not in (UNUSED, roof.peak.precision):
            heights.setdefault(roof.chip.peak(precision).dense.value, []).append(precision)
    chosen = roof.peak.dense.value
    own = [roof.precision, *heights.pop(chosen, ())]
    found = [Line(", ".join(own), chosen, chosen=True)]
    found += [Line(", ".join(names), height) for height, names in heights.items()]
    slopes = {roof.memory.name: roof.memory_bytes_per_s}
    if roof.on_chip is not None and isfinite(roof.near_bytes_per_s):
        slopes.setdefault(roof.on_chip.name, roof.near_bytes_per_s)
    if roof.link_bytes_per_s is not None:
        slopes["host link"] = roof.link_bytes_per_s
    main = roof.memory.name
    ordered = sorted(slopes.items(), key=lambda slope: -slope[1])
    return (*found, *(Line(name, rate, True, name == main) for name, rate in ordered))


def axes_of(bounds: Sequence[Bound], room: float = 1.0) -> Axes:
    """Wide enough for every dot and every corner; `room` times the highest peak fits as well."""
    roofs = [roof_of(bound.chip, bound.precision) for bound in bounds]
    shown = [dot for bound in bounds for dot in dots(bound)]
    highest = max(line.per_s for roof in roofs for line in lines(roof) if not line.is_slope)
    xs = [log10(roof.balance) for roof in roofs] + [log10(dot.intensity) for dot in shown]
    peaks = [log10(roof.peak.dense.value) for roof in roofs]
    ys = [*peaks, min(peaks) - 2, *(log10(dot.per_s) for dot in shown)]
    top = max(*ys, log10(highest), max(peaks) + log10(room))
    right = ceil(max(xs) + NAMES)
    return Axes(floor(min(xs) - 0.3), right, floor(min(ys) - 0.2), top + 0.35, HEIGHT)


def parts(bounds: Sequence[Bound], axes: Axes) -> list[Markup]:
    """Grid, roofs and dots, a group for each chip, for an SVG element of any width."""
    roofs = [roof_of(bound.chip, bound.precision) for bound in bounds]
    places = _label_heights(bounds, roofs, axes)
    taken: list[tuple[float, float, float]] = []
    drawn = [_grid(axes)]
    made = [
        [_line(line, roof, axes, places[index], taken) for line in lines(roof)]
        for index, roof in enumerate(roofs)
    ]
    # Names after all lines, so that none is struck through.
    for part in range(2):
        for index, pairs in enumerate(made):
            group = {"class": f"roofs k{index}", "data-chip": index}
            drawn.append(element("g", group, *(pair[part] for pair in pairs)))
    for index, bound in enumerate(bounds):
        ordered = sorted(dots(bound), key=lambda dot: -dot.share)
        circles = [_dot(dot, bound, axes) for dot in ordered]
        names = f"layers on {bound.chip.title}, {bound.precision}"
        group = {"class": f"dots k{index}", "data-chip": index, "role": "list"}
        drawn.append(element("g", {**group, "aria-label": names}, *circles))
    return drawn


def _grid(axes: Axes) -> Markup:
    upright = [
        element("line", {"x1": f"{x:.2f}%", "x2": f"{x:.2f}%", "y1": 0, "y2": HEIGHT})
        for x in (axes.x(10.0**d) for d in range(int(axes.x_low), int(axes.x_high) + 1))
    ]
    across = [
        element("line", {"x1": 0, "x2": "100%", "y1": y, "y2": y})
        for y in (axes.y(10.0**d) for d in range(int(axes.y_low), floor(axes.y_high) + 1))
    ]
    return element("g", {"class": "grid"}, *upright, *across)


def y_ticks(axes: Axes) -> list[Markup]:
    """Powers of ten of operations a second, right-aligned in their element."""
    decades = range(int(axes.y_low), floor(axes.y_high) + 1)
    return [
        element(
            "text",
            {"x": "100%", "y": axes.y(10.0**d) + 4, "text-anchor": "end"},
            _power(d),
        )
        for d in decades
    ]


def x_ticks(axes: Axes) -> list[Markup]:
    """Powers of ten of operations for each byte."""
    first, last = int(axes.x_low), int(axes.x_high)
    texts: list[Markup] = []
    for d in range(first, last + 1):
        anchor = "start" if d == first else "end" if d == last else "middle"
        where = {"x": f"{axes.x(10.0**d):.2f}%", "y": 14, "text-anchor": anchor}
        texts.append(element("text", where, _power(d)))
    return texts


def _power(decade: int) -> str:
    if decade < 3:
        return f"{10.0**decade:g}"
    return quantity(10.0**decade, "").strip() if decade < 15 else f"{10 ** (decade - 12):,} T"


def _label_heights(
    bounds: Sequence[Bound], roofs: Sequence[Roof], axes: Axes
) -> list[dict[float, float]]:
    """Where the names of ceilings stand, none on another: for each chip, by the ceiling.

    Those that layers are timed with have theirs in any case, of the others who find room beside
    their own line; the key has all.
    """
    found: list[dict[float, float]] = [{} for _ in bounds]
    ceilings = [
        (axes.y(line.per_s) - 5, index, line)
        for index, roof in enumerate(roofs)
        for line in lines(roof)
        if not line.is_slope
    ]
    ceilings.sort(key=lambda one: one[0])
    chosen = [one for one in ceilings if one[2].chosen]
    taken = apart([y for y, *_ in chosen])
    for (_, index, line), y in zip(chosen, taken, strict=True):
        found[index][line.per_s] = y
    for wanted, index, line in ceilings:
        shifts = (0, *(sign * step for step in range(1, FARTHEST + 1) for sign in (-1, 1)))
        for y in () if line.chosen else (wanted + shift for shift in shifts):
            if y >= LINE and all(abs(y - other) >= LINE for other in taken):
                found[index][line.per_s] = y
                taken.append(y)
                break
    return found


def apart(wanted: Sequence[float]) -> list[float]:
    """Heights LINE or more from each other and from the top, as near as can be to those wanted.

    Those too near form a block, whose middle is the mean of what its members want (the pooling of
    adjacent violators: the least sum of squares). `wanted` rises.
    """
    blocks: list[tuple[float, int]] = []  # where it would begin, and the names in it
    for place, y in enumerate(wanted):
        start, count = y - place * LINE, 1
        while blocks and blocks[-1][0] > start:
            before, others = blocks.pop()
            start = (before * others + start * count) / (others + count)
            count += others
        blocks.append((start, count))
    starts = [start for start, count in blocks for _ in range(count)]
    return [max(start, LINE) + place * LINE for place, start in enumerate(starts)]


def _line(
    line: Line,
    roof: Roof,
    axes: Axes,
    heights: dict[float, float],
    taken: list[tuple[float, float, float]],
) -> tuple[Markup, Markup]:
    """A ceiling right of the fastest memory's slope, or a slope up to the highest ceiling; and its
    name.
    """
    all_lines = lines(roof)
    left, right, bottom = 10.0**axes.x_low, 10.0**axes.x_high, 10.0**axes.y_low
    if line.is_slope:
        top = max(one.per_s for one in all_lines if not one.is_slope)
        start, end = max(left, bottom / line.per_s), min(right, top / line.per_s)
        ends = ((start, start * line.per_s), (end, end * line.per_s))
    else:
        fastest = max(one.per_s for one in all_lines if one.is_slope)
        start, end = max(left, line.per_s / fastest), right
        ends = ((start, line.per_s), (end, line.per_s))
    if start >= end:
        return Markup(""), Markup("")
    (x1, y1), (x2, y2) = ends
    figures = {"y1": axes.y(y1), "y2": axes.y(y2)}
    across = {"x1": f"{axes.x(x1):.2f}%", "x2": f"{axes.x(x2):.2f}%"}
    chosen = " main" if line.chosen else ""
    kind = ("slope" if line.is_slope else "ceiling") + chosen
    drawn = element("line", {**across, **figures, "class": kind})
    title = f"{shorten(roof.chip.title, 24)} "
    if line.is_slope:
        label = _slope_label(
            title + line.name, (axes.x(x1), axes.y(y1)), (axes.x(x2), axes.y(y2)), taken
        )
    else:
        label = _ceiling_label(title, line, heights.get(line.per_s))
    return drawn, label


def _ceiling_label(title: str, line: Line, y: float | None) -> Markup:
    if y is None:
        return Markup("")
    # On narrow pages the colour says whose it is.
    whose = element("tspan", {"class": "whose"}, title)
    kind = "chosen-peak" if line.chosen else "other-peak"
    at = {"x": "99%", "y": y, "text-anchor": "end", "class": kind}
    return element("text", at, whose, f"{line.name}: {quantity(line.per_s, 'OPS')}")


def _slope_label(
    name: str,
    start: tuple[float, float],
    end: tuple[float, float],
    taken: list[tuple[float, float, float]],
) -> Markup:
    """Right of its slope, at the first place that no other name takes; without one, nowhere."""
    width = 100 * 7.0 * len(name) / USUAL_WIDTH
    for step in range(1, 18):
        share = step / 20
        x = start[0] + share * (end[0] - start[0]) + 1
        y = start[1] + share * (end[1] - start[1]) + 10
        near = any(
            abs(y - other) < LINE and x < right and left < x + width for left, right, other in taken
        )
        if not near and x + width < 100 and LINE < y < HEIGHT - 4:
            taken.append((x, x + width, y))
            return element("text", {"x": f"{x:.2f}%", "y": y, "class": "along"}, name)
    return Markup("")


def _dot(dot: Dot, bound: Bound, axes: Axes) -> Markup:
    return element(
        "circle",
        {
            "cx": f"{axes.x(dot.intensity):.2f}%",
            "cy": axes.y(dot.per_s),
            "r": radius(dot.share),
            "class": "elementwise" if dot.on_vector else "product",
            "data-layer": dot.layer,
            "tabindex": -1,
            "role": "listitem",
            "aria-label": _say(dot, bound),
        },
        element("title", {}, _say(dot, bound)),
    )


def radius(share: float) -> float:
    """Pixels: a dot's area grows with its share of the time."""
    return sqrt(SMALLEST**2 + (LARGEST**2 - SMALLEST**2) * min(share, 1))


def _say(dot: Dot, bound: Bound) -> str:
    kind = "elementwise operations" if dot.on_vector else "operations"
    return (
        f"{shorten(dot.name, LONGEST_NAME)} on {bound.chip.title}: {quantity(dot.per_s, 'OPS')},"
        f" {dot.intensity:.3g} {kind} for each byte, {percent(dot.share)} of the time,"
        f" limited by {dot.limit}"
    )


def key_of(bound: Bound) -> str:
    """What a chip's colour stands for, with its roofs."""
    roof = roof_of(bound.chip, bound.precision)
    slopes = [f"{one.name} {quantity(one.per_s, 'B/s')}" for one in lines(roof) if one.is_slope]
    dense = quantity(roof.peak.dense.value, "OPS")
    unit = dense.split()[-1]
    others = [
        f"{one.name} {quantity(one.per_s, 'OPS').removesuffix(' ' + unit)}"
        for one in lines(roof)
        if not one.is_slope and not one.chosen
    ]
    beside = f" ({'; '.join(others)})" if others else ""
    return f"{bound.chip.title}, {bound.precision}: {dense} dense{beside}, {', '.join(slopes)}"


def left_out(bounds: Iterable[Bound]) -> int:
    """How many layers have no dot: nothing to compute, or no known bytes."""
    return max((len(bound.layers) - len(dots(bound)) for bound in bounds), default=0)
