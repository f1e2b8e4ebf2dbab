"""The list of advice on the page of an analysis: the same words and figures as `ridgeline advise`.

A table for each chip with what saves most first, then what is counted already and, of the layers
that take longest, the change that helps and the one that gains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.advice.advise import Advised
from ridgeline.advice.case import Advice
from ridgeline.render.advice import EXPLAINED, held_text, layer_text, share_text, signed_text
from ridgeline.render.html.elements import Markup, element, join
from ridgeline.render.units import seconds

KEY, TITLE = "advice", "What would help"
_FIGURES = ("time", "least", "most", "run")


def section(made: Sequence[Advised]) -> tuple[str, str, Markup]:
    """Key, title and content: one model on several chips."""
    parts = [_on_chip(one) for one in made]
    explained = element("p", {"class": "remark"}, EXPLAINED)
    return KEY, TITLE, join([*parts, explained])


def _on_chip(made: Advised) -> Markup:
    bound = made.bound
    title = f"{bound.chip.title}, {bound.precision}, batch {bound.batch}"
    possible = [one for one in made.advice if one.bound is not None]
    number = {"scope": "col", "class": "number"}
    heads = [
        element("th", {"scope": "col"}, "change"),
        element("th", {**number, "colspan": 2}, "saved"),
        *(element("th", number, text) for text in _FIGURES),
        element("th", {"scope": "col"}, "how to check"),
    ]
    table = element(
        *("table", {"class": "advice"}),
        element("thead", {}, element("tr", {}, *heads)),
        element("tbody", {}, *map(_row, possible)),
    )
    region = {"class": "region", "tabindex": 0, "role": "group", "aria-label": f"Advice, {title}"}
    lines = [f"Not possible: {a.change.name}: {a.reason}." for a in made.advice if not a.bound]
    lines += [_sentence(held_text(one)) for one in made.held]
    lines += [layer_text(layer) for layer in made.layers]
    return join(
        [
            element("h3", {}, title),
            element("div", region, table),
            element("ul", {}, *(element("li", {}, line) for line in lines)),
        ]
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _row(one: Advice) -> Markup:
    times = (one.saved.likely, one.saved.low, one.saved.high)
    figures = [*map(signed_text, times), seconds(one.latency.likely)]
    number = {"class": "number"}
    return element(
        *("tr", {"class": one.verdict.replace(" ", "-")}),
        element("th", {"scope": "row"}, one.change.name),
        element("td", {"class": "bar"}, _bar(one.share)),
        element("td", number, share_text(one.share)),
        *(element("td", number, text) for text in figures),
        element("td", {"class": "check"}, one.change.check),
    )


def _bar(share: float) -> Markup:
    """As long as what is saved; of what takes longer, as what is lost, at most all of it."""
    length = f"{100 * min(abs(share), 1.0):.1f}%"
    bar = element("rect", {"width": length, "height": 10, "rx": 2})
    return element("svg", {"width": "100%", "height": 10, "aria-hidden": "true"}, bar)
