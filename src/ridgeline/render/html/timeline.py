"""The timeline: what each unit did when. Instructions are merged into spans until there are few
enough of them for a page, so that a run of any length stays light.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ridgeline.machine import occupancy
from ridgeline.machine.instructions import Unit
from ridgeline.machine.program import HostSegment
from ridgeline.machine.simulate import Trace
from ridgeline.render.html import occupancy as level
from ridgeline.render.html.elements import Markup, element, join
from ridgeline.render.units import percent, seconds

MOST_SPANS = 800
WIDTH = 100_000
"""The chart's own units along the whole run; the page stretches them to its width."""
LANE_HEIGHT = 26
COLOURS = 6
LANES = (Unit.LINK, Unit.LOAD, Unit.WEIGHTS, Unit.ARRAY, Unit.VECTOR, Unit.STORE)
HOST = "host"


@dataclass(frozen=True, slots=True)
class Span:
    """Cycles [begin, end) in which a unit was busy for `busy_cycles`, mostly for `layer`.

    The host has no instructions.
    """

    begin: int
    end: int
    layer: int
    busy_cycles: int
    instructions: int


def lanes(trace: Trace, most: int = MOST_SPANS) -> dict[str, tuple[Span, ...]]:
    """The spans of every unit that did something, together about `most` or fewer."""
    single = {unit.name.lower(): list(_of_unit(trace, unit)) for unit in LANES}
    single[HOST] = list(_of_host(trace))
    gap = 0
    while True:
        merged = {name: _merge(spans, gap) for name, spans in single.items() if spans}
        count = sum(len(spans) for spans in merged.values())
        if count <= most or gap > trace.cycles:
            return {name: tuple(spans) for name, spans in merged.items()}
        single = merged
        gap = 2 * gap or max(trace.cycles // (64 * most), 1)


def _of_unit(trace: Trace, unit: Unit) -> Iterator[Span]:
    for segment in trace.segments:
        for event in segment.events:
            if event.instruction.unit is unit and event.issued > event.start:
                begin, end = segment.begin + event.start, segment.begin + event.issued
                yield Span(begin, end, event.instruction.layer, end - begin, 1)


def _of_host(trace: Trace) -> Iterator[Span]:
    """The layers of a segment one after the other, with equal parts of its time as in the table."""
    for segment, timed in zip(trace.program.segments, trace.segments, strict=True):
        if isinstance(segment, HostSegment):
            layers = segment.layers or (-1,)
            ends = [timed.begin + timed.cycles * n // len(layers) for n in range(len(layers) + 1)]
            for layer, (begin, end) in zip(layers, pairwise(ends), strict=True):
                if end > begin:
                    yield Span(begin, end, layer, end - begin, 0)


def _merge(spans: Sequence[Span], gap: int) -> list[Span]:
    """Neighbours of one layer joined over up to `gap` idle cycles, of two where both are as short.

    A joined span belongs to the layer of the part that was busy longer.
    """
    found: list[Span] = []
    for span in spans:
        last = found[-1] if found else None
        near = last is not None and span.begin - last.end <= gap
        if last is not None and near and (last.layer == span.layer or _short(last, span, gap)):
            found[-1] = Span(
                last.begin,
                span.end,
                last.layer if last.busy_cycles >= span.busy_cycles else span.layer,
                last.busy_cycles + span.busy_cycles,
                last.instructions + span.instructions,
            )
        else:
            found.append(span)
    return found


def _short(last: Span, span: Span, gap: int) -> bool:
    return span.end - last.begin <= gap


def chart(trace: Trace) -> Markup:
    """A lane for each unit, buttons that zoom, and an axis that the page's script labels."""
    found = lanes(trace)
    if not trace.cycles or not found:
        return element("p", {}, "The run takes no time.")
    buffer = occupancy.occupancy(trace)
    rows = [_lane(trace, name, spans) for name, spans in found.items()]
    rows.append(level.lane(buffer, WIDTH))
    axis = element("svg", {"class": "ticks", "width": "100%", "height": 18, "id": "time-axis"})
    chart = element(
        "div",
        {
            "class": "lanes",
            "role": "group",
            "aria-label": "Timeline",
            "data-choose": "rect",
            "data-cycles": trace.cycles,
            "data-hz": str(trace.program.machine.clock_hz),
            "data-width": WIDTH,
            "id": "lanes",
        },
        *rows,
        element("span", {}),
        axis,
    )
    return join([_buttons(), chart, _remark(trace, found, buffer)])


def _buttons() -> Markup:
    buttons = [
        ("in", "+", "zoom in"),
        ("out", "\u2212", "zoom out"),
        ("left", "\u2190", "earlier"),
        ("right", "\u2192", "later"),
        ("all", "whole run", ""),
    ]
    made = [
        element(
            "button",
            {"type": "button", "data-zoom": key, **({"aria-label": name} if name else {})},
            text,
        )
        for key, text, name in buttons
    ]
    return element("div", {"class": "buttons", "role": "group", "aria-label": "Zoom"}, *made)


def _lane(trace: Trace, name: str, spans: Sequence[Span]) -> Markup:
    busy = sum(span.busy_cycles for span in spans) / trace.cycles
    label = element("div", {"class": "lane"}, name, " ", element("small", {}, percent(busy, 0)))
    rects = [_rect(trace, name, span) for span in spans]
    svg = element(
        "svg",
        {
            "class": "spans",
            "viewBox": f"0 0 {WIDTH} {LANE_HEIGHT}",
            "preserveAspectRatio": "none",
            "width": "100%",
            "height": LANE_HEIGHT,
            "role": "list",
            "aria-label": f"{name}, busy {percent(busy, 0)} of the time",
        },
        *rects,
    )
    return join([label, svg])


def _rect(trace: Trace, name: str, span: Span) -> Markup:
    scale = WIDTH / trace.cycles
    density = span.busy_cycles / (span.end - span.begin)
    return element(
        "rect",
        {
            "x": span.begin * scale,
            "width": max((span.end - span.begin) * scale, 0.01),
            "height": LANE_HEIGHT,
            "class": f"c{span.layer % COLOURS}" if span.layer >= 0 else "cx",
            "fill-opacity": 0.4 + 0.6 * density,
            "data-layer": span.layer,
            "data-span": f"{span.begin} {span.end} {span.busy_cycles} {span.instructions}",
        },
    )


def _remark(
    trace: Trace, found: dict[str, tuple[Span, ...]], buffer: occupancy.Occupancy
) -> Markup:
    count = sum(len(segment.events) for segment in trace.segments)
    spans = sum(len(one) for one in found.values())
    whole = seconds(trace.seconds)
    return element(
        "p",
        {"class": "remark"},
        f"{count:,} instructions in {spans:,} spans of {trace.cycles:,} cycles ({whole}); a colour"
        " is a layer, the same in every lane, and a paler span was busy for a part of its time."
        + level.remark(buffer)
        + " Keys: + \u2212 0 zoom, \u2190 \u2192 choose a span, \u2191 \u2193 a unit; drag to move."
        " Every single instruction: --trace FILE.",
    )
