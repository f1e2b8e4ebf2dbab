"""The page: headlines, roofline, timeline, ledger, table, notes, and the machine's figures."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files

from ridgeline.machine.description import Machine
from ridgeline.machine.simulate import Trace
from ridgeline.render.html import bars, roofline, table, timeline
from ridgeline.render.html.elements import Markup, element, safe
from ridgeline.render.text import facts, notes
from ridgeline.render.units import quantity
from ridgeline.results.rows import Report

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M1 14 8 4h7' fill='none' stroke='%232a6fb0' stroke-width='3'/%3E%3C/svg%3E"
)


def render(report: Report, trace: Trace) -> str:
    """The whole file. It asks for nothing else: its policy forbids every request."""
    machine = trace.program.machine
    sections = [
        _section("roofline", "Roofline", roofline.chart(report, machine)),
        _section("timeline", "Timeline", timeline.chart(trace)),
        _section("ledger", "Where the cycles went", bars.chart(report)),
        _section("table", "Layers", table.layers(report)),
        _section("notes", "Notes", _notes(report)),
        _section("machine", f"Machine {machine.name}", table.machine_figures(machine)),
    ]
    body = [
        element("header", {}, *_headline(report, machine)),
        element("main", {}, *sections),
        # For the eye only: a screen reader reads what is chosen from its own label.
        element("p", {"id": "said", "aria-hidden": "true"}),
        Markup(f'<script type="application/json" id="names">{_names(report)}</script>'),
        Markup(f"<script>{_part('page.js')}</script>"),
    ]
    head = _head(f"{report.model} on {machine.name}")
    content = "\n".join(body)
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n<body>\n{content}\n</body>\n</html>\n'


@cache
def _part(name: str) -> str:
    return (files("ridgeline.render.html") / name).read_text(encoding="utf-8")


def _head(title: str) -> Markup:
    """Title, style, and a policy under which only this page's own style and script work."""
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest('page.css')}';"
        f" script-src '{_digest('page.js')}'; base-uri 'none'; form-action 'none'"
    )
    return Markup(
        '<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="{ICON}">\n'
        f"<title>{safe(title)}</title>\n<style>{_part('page.css')}</style>\n</head>"
    )


def _digest(name: str) -> str:
    """How a content security policy names the text of a script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(_part(name).encode()).digest()).decode()


def _section(key: str, title: str, content: Markup) -> Markup:
    heading = element("h2", {"id": f"{key}-title"}, title)
    return element("section", {"id": key, "aria-labelledby": f"{key}-title"}, heading, content)


def _headline(report: Report, machine: Machine) -> list[Markup]:
    """What the text form says first, and links to the sections."""
    peak = quantity(2 * machine.peak_macs_per_s, "OPS")
    array = f"{machine.array.rows}x{machine.array.cols} INT8 array"
    clock = quantity(machine.clock_hz, "Hz")
    links = [
        element("a", {"href": f"#{key}"}, text)
        for key, text in (
            ("roofline", "Roofline"),
            ("timeline", "Timeline"),
            ("ledger", "Ledger"),
            ("table", "Layers"),
            ("notes", "Notes"),
            ("machine", "Machine"),
        )
    ]
    return [
        element("h1", {}, report.model, element("small", {}, f" on {machine.name}")),
        element("p", {}, f"{machine.description.rstrip('.')}. {array}, {clock}, {peak} peak."),
        _facts(report),
        element("nav", {"aria-label": "Sections"}, *links),
    ]


def _facts(report: Report) -> Markup:
    """The headlines; a fact without a label goes on from the one before."""
    parts: list[Markup] = []
    for label, text in facts(report):
        if label:
            parts.append(element("dt", {}, label))
        parts.append(element("dd", {}, text.replace(" %", "\u00a0%")))
    return element("dl", {"class": "facts"}, *parts)


def _notes(report: Report) -> Markup:
    """Why layers run on the host, and the other notes."""
    remarks = [element("li", {}, note) for note in notes(report)]
    if not report.fallbacks:
        remarks.insert(0, element("li", {}, "The accelerator computes every layer."))
    return element("ul", {}, *remarks)


def _names(report: Report) -> str:
    """Layer names for the script; "<" is written so that no name can end the element."""
    return json.dumps([row.name for row in report.rows]).replace("<", "\\u003c")
