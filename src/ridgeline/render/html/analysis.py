"""The page of an analysis: chips side by side, their roofline, what-if, layers and causes.

`more` takes sections that others make, such as a list of advice: key, title, content.
"""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.render.analysis import UNKNOWN, explained, main_cause, totals
from ridgeline.render.html import chips_roofline as chart
from ridgeline.render.html import shell, what_if
from ridgeline.render.html.elements import Markup, element, join
from ridgeline.render.html.table import shown_key
from ridgeline.render.plain import shorten
from ridgeline.render.units import per_second, percent, quantity, seconds
from ridgeline.roofline.bound import Bound, LayerTime
from ridgeline.roofline.what_if import PEAKS, Option
from ridgeline.workload.layer import Workload

LONGEST_NAME = 44
EXPLAINED = 3
Section = tuple[str, str, Markup]


def render(
    bounds: Sequence[Bound],
    workloads: Sequence[Workload],
    options: Sequence[Option],
    more: Sequence[Section] = (),
) -> str:
    """The whole file. `bounds` are one workload on several chips; `workloads` those of the panel's
    batches, and `options` what its chips take for them.
    """
    axes = chart.axes_of(bounds, PEAKS[-1])
    parts: list[Section] = [
        ("roofline", "Roofline", _roofline(bounds, axes)),
        ("what-if", "What if", what_if.panel()),
        ("table", "Layers", _table(bounds)),
        ("causes", "What limits the longest layers", _causes(bounds)),
        *more,
    ]
    workload = bounds[0].workload
    body = [
        element("header", {}, *_headline(bounds, [(key, title) for key, title, _ in parts])),
        element("main", {}, *(shell.section(*part) for part in parts)),
        shell.data("names", [layer.name for layer in workload.layers]),
        shell.data("what-if-figures", what_if.figures(bounds, workloads, options, axes)),
    ]
    title = f"{workload.name} on {', '.join(bound.chip.title for bound in bounds)}"
    styles, scripts = ("page.css", "analysis.css"), ("page.js", "analysis.js")
    return shell.document(title, body, styles, scripts)


def _headline(bounds: Sequence[Bound], sections: Sequence[tuple[str, str]]) -> list[Markup]:
    workload = bounds[0].workload
    small = element("small", {}, f" at batch {workload.batch}, analysed")
    counts = [element("li", {}, " ".join(line.split())) for line in totals(workload)[:4]]
    return [
        element("h1", {}, workload.name, small),
        element("ul", {"class": "key"}, *counts),
        _chips(bounds),
        shell.links(sections),
    ]


def _chips(bounds: Sequence[Bound]) -> Markup:
    """Utilisation first, then its cause and the time, a row for each chip."""
    heads = ("chip", "precision", "utilisation", "because of", "time", "from", "to", "samples/s")
    rows: list[Markup] = []
    for bound in bounds:
        used = UNKNOWN if bound.utilisation is None else percent(bound.utilisation)
        time = bound.seconds
        cells = (
            *(bound.precision, used, main_cause(bound)[0], seconds(time.likely)),
            *(seconds(time.low), seconds(time.high), per_second(bound.samples_per_s)),
        )
        head = element("th", {"scope": "row"}, bound.chip.title)
        rows.append(element("tr", {}, head, *(element("td", {}, cell) for cell in cells)))
    head = element("tr", {}, *(element("th", {"scope": "col"}, text) for text in heads))
    table = element(
        *("table", {"class": "chips"}),
        *(element("thead", {}, head), element("tbody", {}, *rows)),
    )
    region = {"class": "region", "tabindex": 0, "role": "group", "aria-label": "Chips"}
    return element("div", region, table)


def _roofline(bounds: Sequence[Bound], axes: chart.Axes) -> Markup:
    changed = element("g", {"id": "if-chart", "aria-hidden": "true"})
    plot = element(
        *("svg", {"class": "plot", "height": chart.HEIGHT, "width": "100%"}),
        *(*chart.parts(bounds, axes), changed),
    )
    ticks = {"class": "ticks", "width": "100%", "height": chart.HEIGHT}
    frame = element(
        "div",
        {"class": "axes", "role": "group", "aria-label": "Roofline", "data-choose": "circle"},
        element("svg", ticks, *chart.y_ticks(axes)),
        plot,
        element("svg", {**ticks, "class": "ticks x", "height": 18}, *chart.x_ticks(axes)),
    )
    up = element("p", {"class": "axis up"}, "↑ operations a second")
    along = element("p", {"class": "axis"}, "operations for each byte, every operand once →")
    return join([up, frame, along, _key(bounds), _remark(bounds)])


def _key(bounds: Sequence[Bound]) -> Markup:
    """A box for each chip that shows or hides it."""
    items: list[Markup] = []
    for index, bound in enumerate(bounds):
        box = Markup(f'<input type="checkbox" checked data-shows="{index}">')
        mark = element("circle", {"cx": 7, "cy": 7, "r": 6})
        swatch = {"class": f"swatch k{index}", "width": 14, "height": 14, "aria-hidden": "true"}
        label = element(
            "label", {}, box, " ", element("svg", swatch, mark), " ", chart.key_of(bound)
        )
        items.append(element("li", {}, label))
    return element("ul", {"class": "chips-key"}, *items)


def _remark(bounds: Sequence[Bound]) -> Markup:
    text = (
        "A dot is a layer, its area its share of the time; a hollow one multiplies nothing and"
        " counts elementwise operations. Bold: the precision and the main memory that layers are"
        " timed with. A dot above a memory's slope finds its bytes in a faster one. Keys: ← →"
        " choose a layer, Enter goes to its row. What if adds its own roof and dots, uncoloured."
    )
    missing = chart.left_out(bounds)
    if missing:
        text += f" {missing} layers have no dot: they compute nothing, or their bytes are unknown."
    return element("p", {"class": "remark"}, text)


def _table(bounds: Sequence[Bound]) -> Markup:
    """A row for each layer; for each chip its time, share, use and limit; and the panel's time."""
    heads = [_heading("layer", "", "text"), _heading("op", "", "text"), _heading("MACs", "")]
    for bound in bounds:
        unit = bound.chip.title if len(bounds) > 1 else ""
        heads += [_heading("time", unit), _heading("share", unit), _heading("used", unit)]
        heads.append(_heading("limit", unit, "text"))
    heads += [_heading("time", "what if"), _heading("limit", "what if", "text")]
    rows = [_row(place, bounds) for place in range(len(bounds[0].layers))]
    table = element(
        "table",
        {"id": "layers"},
        element("thead", {}, element("tr", {}, *heads)),
        element("tbody", {}, *rows),
    )
    region = {"class": "region", "tabindex": 0, "role": "group", "aria-label": "Table of layers"}
    hint = "Choose a heading to sort by it; choose it again to turn the order."
    return join(
        [element("p", {"class": "hint", "id": "sorting"}, hint), element("div", region, table)]
    )


def _heading(text: str, unit: str, kind: str = "number") -> Markup:
    label = element("small", {}, f" {shorten(unit, 20)}") if unit else Markup("")
    button = element("button", {"type": "button"}, text, label)
    return element("th", {"scope": "col", "aria-sort": "none", "class": kind}, button)


def _row(place: int, bounds: Sequence[Bound]) -> Markup:
    layer = bounds[0].layers[place].layer
    name = {"scope": "row", "data-v": layer.name, "title": layer.name}
    cells = [
        element("th", name, shorten(layer.name, LONGEST_NAME)),
        element("td", {"class": "text"}, layer.op),
        _number(layer.macs, UNKNOWN if layer.macs is None else quantity(layer.macs, "")),
    ]
    for bound in bounds:
        cells += _on_chip(bound.layers[place], bound)
    cells += [
        element("td", {"class": "if-time", "data-v": ""}, "-"),
        element("td", {"class": "text if-limit"}, "-"),
    ]
    return element("tr", {"data-layer": place, "id": f"layer-{place}"}, *cells)


def _on_chip(one: LayerTime, bound: Bound) -> list[Markup]:
    time, whole = one.seconds.likely, bound.seconds.likely
    share = time / whole if whole else 0.0
    used = "-" if one.utilisation is None else percent(one.utilisation)
    return [
        _number(time, seconds(time)),
        _number(share, percent(share)),
        _number(one.utilisation, used),
        element("td", {"class": "text", "title": one.cause}, one.limit),
    ]


def _number(value: float | None, text: str) -> Markup:
    key = "" if value is None else f"{value:.9g}"
    return element("td", {"data-v": key} if key != shown_key(text) else {}, text)


def _causes(bounds: Sequence[Bound]) -> Markup:
    """Why the chips are not full in the layers that take longest, and the notes."""
    made: list[Markup] = []
    for bound in bounds:
        longest = sorted(bound.layers, key=lambda one: -one.seconds.likely)[:EXPLAINED]
        items = [element("li", {}, explained(one)) for one in longest]
        items += [element("li", {}, f"Note: {note}") for note in bound.notes]
        made.append(element("h3", {}, f"{bound.chip.title}, {bound.precision}"))
        made.append(element("ul", {}, *items))
    return join(made)
