"""The ledger as bars: where each layer's cycles went, side by side."""

from __future__ import annotations

from ridgeline.render.html.elements import Markup, element, join
from ridgeline.render.plain import shorten
from ridgeline.render.units import percent
from ridgeline.results.columns import LEDGER_ENTRIES
from ridgeline.results.rows import LayerRow, Report

WIDTH = 1000
HEIGHT = 14
LONGEST_NAME = 32


def chart(report: Report) -> Markup:
    """The run's bar, one for each layer that has cycles, and what the colours mean."""
    rows = [(index, row) for index, row in enumerate(report.rows) if row.cycles >= 1]
    most = max((row.cycles for _, row in rows), default=1.0)
    body = [_row(index, row, report, row.cycles / most) for index, row in rows]
    total = element("tbody", {}, _row(-1, report.total, report, 1))
    table = element("table", {"class": "bars"}, _head(), total, element("tbody", {}, *body))
    region = {"class": "region tall", "tabindex": 0, "role": "group", "data-choose": "tr"}
    return join(
        [
            _legend(report.total),
            _switch(),
            element("div", {**region, "aria-label": "Ledger of each layer"}, table),
            _hidden(report),
        ]
    )


def entry_class(name: str) -> str:
    """The class that gives an entry its colour."""
    return "entry-" + name.replace(" ", "-")


def _head() -> Markup:
    texts = ("layer", "where its cycles went", "cycles")
    cells = [element("th", {"scope": "col"}, text) for text in texts]
    return element("thead", {}, element("tr", {}, *cells))


def _legend(total: LayerRow) -> Markup:
    """The entries that occur, with their part of the run and their meaning."""
    items: list[Markup] = []
    for name, meaning in LEDGER_ENTRIES.items():
        cycles = total.ledger.get(name, 0.0)
        if cycles:
            square = {"width": 12, "height": 12, "class": "swatch", "aria-hidden": "true"}
            mark = element("rect", {"width": 12, "height": 12, "class": entry_class(name)})
            share = percent(cycles / total.cycles) if total.cycles else "0 %"
            items.append(
                element(
                    "li",
                    {},
                    element("svg", square, mark),
                    " ",
                    element("b", {}, name),
                    f" {share}: {meaning}",
                )
            )
    return element("ul", {"class": "key wide"}, *items)


def _switch() -> Markup:
    box = Markup('<input type="checkbox" id="same-length">')
    return element("p", {}, element("label", {}, box, " every bar the whole width"))


def _row(index: int, row: LayerRow, report: Report, length: float) -> Markup:
    share = percent(row.cycles / report.cycles) if report.cycles else "0 %"
    bar = element(
        "svg",
        {
            "viewBox": f"0 0 {WIDTH} {HEIGHT}",
            "preserveAspectRatio": "none",
            "height": HEIGHT,
            "width": f"{max(100 * length, 0.3):.2f}%",
            "role": "img",
            "aria-label": f"{share} of the run: {_entries(row)}",
        },
        *_pieces(row),
    )
    named = element("th", {"scope": "row", "title": row.name}, shorten(row.name, LONGEST_NAME))
    cells = [named, element("td", {"class": "bar"}, bar)]
    cells.append(element("td", {"class": "number"}, f"{row.cycles:,.0f}"))
    return element("tr", {"data-layer": index}, *cells)


def _entries(row: LayerRow) -> str:
    """The entries in words, largest first."""
    largest = sorted(row.ledger.items(), key=lambda entry: -entry[1])
    return ", ".join(f"{name} {percent(n / row.cycles)}" for name, n in largest if n and row.cycles)


def _pieces(row: LayerRow) -> list[Markup]:
    pieces: list[Markup] = []
    at = 0.0
    for name in LEDGER_ENTRIES:
        cycles = row.ledger.get(name, 0.0)
        if cycles and row.cycles:
            width = WIDTH * cycles / row.cycles
            shape = {"x": at, "width": width, "height": HEIGHT, "class": entry_class(name)}
            pieces.append(element("rect", shape))
            at += width
    return pieces


def _hidden(report: Report) -> Markup:
    count = sum(row.cycles < 1 for row in report.rows)
    if not count:
        return Markup("")
    return element(
        "p",
        {"class": "remark"},
        f"Without a bar: {count} of {len(report.rows)} layers, which take no time or work wholly"
        " while another layer's time is counted.",
    )
