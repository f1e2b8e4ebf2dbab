"""A Report for a terminal or a pipe: a block of headlines, then a table of layers.

Numbers are never wrapped or cut; where room is short, names are shortened in their middle.
"""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.render.plain import columns_of, left, shorten, visible, wrapped
from ridgeline.render.units import percent, quantity, seconds, small
from ridgeline.results.columns import Column, default_columns
from ridgeline.results.rows import LIMITS, Accuracy, LayerRow, Report

GAP = "  "
SHORTEST_NAME = 8


def render(report: Report, width: int = 80, columns: Sequence[Column] | None = None) -> str:
    """Headlines, table and notes, each line within `width` wherever the figures leave room."""
    chosen = tuple(columns) if columns else fitting_columns(report, width)
    parts = [headline(report, width), table(report, chosen, width), footnotes(report, width)]
    return "\n\n".join(part for part in parts if part) + "\n"


def fitting_columns(report: Report, width: int) -> tuple[Column, ...]:
    """The default columns, less those at the right end for which the figures leave no room."""
    chosen = list(default_columns(width, report))
    while len(chosen) > 1 and _least_width(report, chosen) > width:
        optional = [c for c in chosen if c.key not in ("layer", "cycles", "utilisation", "bound")]
        if not optional:
            break
        # The widest terminal's columns go first; among equals the one furthest to the right.
        dropped = max(optional, key=lambda c: (c.width, chosen.index(c)))
        chosen.remove(dropped)
    return tuple(chosen)


def headline(report: Report, width: int = 80) -> str:
    """Model, machine, speed, accuracy and the layers that lose the most time."""
    label_width = max(len(label) for label, _ in facts(report)) + len(GAP)
    lines: list[str] = [*_wrap(title(report), width, "")]
    for label, text in facts(report):
        first, *rest = _wrap(text, width - label_width, "")
        lines.append(label.ljust(label_width) + first)
        lines += [" " * label_width + line for line in rest]
    return "\n".join(lines)


def title(report: Report) -> str:
    """Which model on which machine."""
    machine = report.machine
    peak = quantity(machine.peak_operations_per_s, "OPS")
    return (
        f"{shorten(report.model, 32)} on {visible(machine.name)}:"
        f" {machine.rows}x{machine.cols} INT8 array,"
        f" {quantity(machine.clock_hz, 'Hz')}, {peak} peak"
    )


def facts(report: Report) -> list[tuple[str, str]]:
    """The headlines as (label, text); an empty label goes on from the one before."""
    latency = (
        f"{seconds(report.seconds)} for {_runs(report.batch)},"
        f" {report.cycles:,} cycles: {_rate(report.inferences_per_s)}"
    )
    found = [("latency", latency)]
    if report.warm_cycles is not None and report.warm_cycles < report.cycles:
        again = seconds(report.warm_cycles / report.clock_hz)
        found.append(("warm", f"{again}, {report.warm_cycles:,} cycles, with what stays on chip"))
    if report.steady_seconds and report.steady_inferences_per_s:
        every = seconds(report.steady_seconds)
        found.append(
            ("pipelined", f"one run every {every}: {_rate(report.steady_inferences_per_s)}")
        )
    found += _energy(report)
    found.append(("array use", _array_use(report)))
    if report.accuracy:
        found.append(("accuracy", _accuracy(report.accuracy)))
    return found + _worst(report)


def _array_use(report: Report) -> str:
    """The array's share of its peak, and its multiply-accumulates; those elsewhere only counted."""
    use, macs, elsewhere = percent(report.total.utilisation), report.array_macs, ""
    if macs != report.total.macs:
        elsewhere = f" of {report.total.macs:,}"
    return f"{use} of peak, {macs:,}{elsewhere} multiply-accumulates"


def _energy(report: Report) -> list[tuple[str, str]]:
    """Energy of a run and its power, where the machine has figures for them."""
    joules, watts, power = report.energy_joules, report.average_watts, report.power
    if joules is None or watts is None or power is None:
        return []
    per_joule = _count(report.inferences_per_joule or 0)
    drawn = f"{small(watts, 'W')} on average ({small(power.idle_watts, 'W')} idle)"
    if power.peak_watts is not None and power.window_seconds is not None:
        window = min(power.window_seconds, report.cycles / report.machine.clock_hz)
        drawn += f", {small(power.peak_watts, 'W')} in the busiest {seconds(window)}"
    if report.steady_watts is not None:
        drawn += f", {small(report.steady_watts, 'W')} pipelined"
    runs = _runs(report.batch)
    return [
        ("energy", f"{small(joules, 'J')} for {runs}: {per_joule} inferences/J"),
        ("power", drawn),
    ]


def _runs(batch: int) -> str:
    return "one inference" if batch == 1 else f"{batch:,} inferences"


def _rate(per_s: float) -> str:
    return f"{_count(per_s)} inferences/s"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _accuracy(accuracy: Accuracy) -> str:
    quantised = f"{accuracy.number_format} {percent(accuracy.quantised_share, 2)}"
    if accuracy.float_share is None:
        return f"{quantised} of {accuracy.images:,} images"
    points = 100 * (accuracy.quantised_share - accuracy.float_share)
    return (
        f"float {percent(accuracy.float_share, 2)}, {quantised}"
        f" ({points:+.2f} points) of {accuracy.images:,} images"
    )


def _worst(report: Report) -> list[tuple[str, str]]:
    """The layers that lose most, each with its cycles beyond its bound, and where they go."""
    found: list[tuple[str, str]] = []
    for row in report.worst():
        loss, cycles = row.largest_loss()
        why = f"; {percent(cycles / row.cycles, 0)} of its time {loss}" if loss else ""
        limit = "" if row.bound == "none" else f" that {LIMITS[row.bound]} takes"
        bound = f"above the {row.bound_cycles:,.0f}{limit}"
        text = f"{shorten(row.name, 24)}: {row.lost_cycles:,.0f} cycles {bound}"
        found.append(("worst" if not found else "", text + why))
    return found


def _wrap(text: str, width: int, indent: str) -> list[str]:
    """`text` in lines broken at spaces, never inside a number and its unit."""
    whole = visible(text).replace(" %", "\u00a0%")
    return [line.replace("\u00a0", " ") for line in wrapped(whole, max(width, 20), indent)]


def table(report: Report, columns: Sequence[Column], width: int = 80) -> str:
    """A line for each layer and one for their sum, figures aligned to the right."""
    cells = _cells(report, columns)
    heads = [_heads(columns, 0), _heads(columns, 1)]
    body = [*heads, *cells] if any(heads[1]) else [heads[0], *cells]
    wide = [max(columns_of(line[i]) for line in body) for i in range(len(columns))]
    spare = width - sum(wide) - len(GAP) * (len(wide) - 1)
    if columns[0].key == "layer" and spare < 0:
        wide[0] = max(wide[0] + spare, SHORTEST_NAME)
    lines = [_line(line, columns, wide) for line in body]
    rule = "-" * (sum(wide) + len(GAP) * (len(wide) - 1))
    first = len(body) - len(cells)
    return "\n".join([*lines[:first], rule, *lines[first:-1], rule, lines[-1]])


def _cells(report: Report, columns: Sequence[Column]) -> list[list[str]]:
    total = report.total
    lines = [[visible(c.text(row, report)) for c in columns] for row in report.rows]
    return [*lines, [_total_cell(c, total, report) for c in columns]]


def _total_cell(column: Column, total: LayerRow, report: Report) -> str:
    """The total's cell; blank where a sum says nothing."""
    text = column.text(total, report)
    return "" if text == "-" else text


def _heads(columns: Sequence[Column], line: int) -> list[str]:
    """The headings, per cent beside them; other units on a line of their own."""
    if line == 0:
        return [f"{c.heading} %" if c.unit == "%" else c.heading for c in columns]
    return ["" if c.unit == "%" else c.unit for c in columns]


def _line(cells: Sequence[str], columns: Sequence[Column], wide: Sequence[int]) -> str:
    parts: list[str] = []
    for cell, column, size in zip(cells, columns, wide, strict=True):
        if column.kind == "text":
            parts.append(left(shorten(cell, size), size))
        else:
            parts.append(cell.rjust(size))
    return GAP.join(parts).rstrip()


def _least_width(report: Report, columns: Sequence[Column]) -> int:
    cells = [_heads(columns, 0), *_cells(report, columns)]
    wide = [max(columns_of(line[i]) for line in cells) for i in range(len(columns))]
    if columns[0].key == "layer":
        wide[0] = min(wide[0], 12)
    return sum(wide) + len(GAP) * (len(wide) - 1)


def notes(report: Report) -> list[str]:
    """Why layers run on the host, and what else a reader must know."""
    found = [
        visible(f"on the host: {row.name} ({row.op}): {row.reason or 'no reason recorded'}")
        for row in report.fallbacks
    ]
    hidden = [row for row in report.rows if row.cycles < 1 and row.bound_cycles >= 1]
    if hidden:
        found.append("a layer of 0 cycles works while another layer's time is counted")
    return found + [visible(f"note: {note}") for note in report.notes]


def footnotes(report: Report, width: int = 80) -> str:
    """The notes, wrapped."""
    return "\n".join(line for note in notes(report) for line in _wrap(note, width, "  "))
