"""The page: headlines, roofline, timeline, ledger, table, notes, and the machine's figures."""

from __future__ import annotations

from ridgeline.machine.description import Machine
from ridgeline.machine.simulate import Trace
from ridgeline.render.html import bars, roofline, shell, table, timeline
from ridgeline.render.html.elements import Markup, element
from ridgeline.render.text import facts, notes
from ridgeline.render.units import quantity
from ridgeline.results.rows import Report


def render(report: Report, trace: Trace) -> str:
    """The whole file. It asks for nothing else: its policy forbids every request."""
    machine = trace.program.machine
    sections = [
        shell.section("roofline", "Roofline", roofline.chart(report, machine)),
        shell.section("timeline", "Timeline", timeline.chart(trace)),
        shell.section("ledger", "Where the cycles went", bars.chart(report)),
        shell.section("table", "Layers", table.layers(report)),
        shell.section("notes", "Notes", _notes(report)),
        shell.section("machine", f"Machine {machine.name}", table.machine_figures(machine)),
    ]
    body = [
        element("header", {}, *_headline(report, machine)),
        element("main", {}, *sections),
        shell.data("names", [row.name for row in report.rows]),
    ]
    return shell.document(f"{report.model} on {machine.name}", body, ("page.css",), ("page.js",))


def _headline(report: Report, machine: Machine) -> list[Markup]:
    """What the text form says first, and links to the sections."""
    peak = quantity(2 * machine.peak_macs_per_s, "OPS")
    array = f"{machine.array.rows}x{machine.array.cols} INT8 array"
    clock = quantity(machine.clock_hz, "Hz")
    parts = (
        ("roofline", "Roofline"),
        ("timeline", "Timeline"),
        ("ledger", "Ledger"),
        ("table", "Layers"),
        ("notes", "Notes"),
        ("machine", "Machine"),
    )
    return [
        element("h1", {}, report.model, element("small", {}, f" on {machine.name}")),
        element("p", {}, f"{machine.description.rstrip('.')}. {array}, {clock}, {peak} peak."),
        _facts(report),
        shell.links(parts),
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
