"""Spec sheets for people: the catalogue, one sheet, chips side by side, the firsts by year."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.chips.sheet import FLAGS, Chip, Memory, Peak, Sourced
from ridgeline.chips.versus import Versus
from ridgeline.render.plain import visible, wrapped
from ridgeline.render.table import aligned, in_blocks
from ridgeline.render.units import percent, quantity, seconds

UNKNOWN = "unknown"


def catalogue(chips: Sequence[Chip], precision: str | None) -> str:
    """A line for each chip: its headline beside what a dense product can reach."""
    rows = [("chip", "year", "in", "headline", "dense", "attained", "memory", "op/byte", "")]
    letters: set[str] = set()
    for chip in chips:
        chosen = precision or (chip.headline.precision if chip.headline else "")
        peak = chip.peak(chosen) if chosen in chip.precisions() else None
        memory = chip.main_memory
        best = chip.best_achieved(chosen)
        head = chip.headline if chip.headline and chip.headline.precision == chosen else None
        balance = chip.balance(peak, memory) if peak else None
        rows.append(
            (
                *(chip.name, str(chip.year), chosen or "-"),
                _tera(head.operations if head else None),
                _tera(peak.dense if peak else None),
                _tera(best.operations if best else None),
                _rate(memory),
                f"{balance:,.0f}" if balance else "-",
                "".join(LETTERS[flag] for flag in head.flags) if head else "",
            )
        )
        letters.update(head.flags if head else ())
    remarks = [
        "",
        "Operations are 2 x multiply-accumulates, in 10^12 a second; memory in 10^9 bytes",
        "a second. attained is the most that was measured, or the best design shipped.",
        "op/byte is the balance point: dense peak over the fastest memory beside the",
        "chip. - is unknown, ? doubtful. `ridgeline chips show NAME` has the sources.",
    ]
    if letters:
        remarks.append("The headline:")
    remarks += [f"  {LETTERS[flag]} {text}" for flag, text in FLAGS.items() if flag in letters]
    return "\n".join([*aligned(rows, (0, 2, 8), gap=" "), *remarks])


LETTERS = {
    "sparse": "s",
    "sum": "+",
    "int4": "4",
    "boost": "b",
    "fp16-accumulate": "h",
    "soc": "c",
    "precision-unstated": "p",
}
"""Flags of a headline in the catalogue, where a line has no room for words."""


def _tera(figure: Sourced | None) -> str:
    if figure is None:
        return "-"
    value = figure.value / 1e12
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    return text + ("?" if figure.uncertain else "")


def _rate(memory: Memory | None) -> str:
    if memory is None or memory.bandwidth is None:
        return "-"
    doubt = "?" if memory.bandwidth.uncertain else ""
    value = memory.bandwidth.value / 1e9
    if value >= 1e6:
        return f"{value / 1e6:.3g} M" + doubt
    return (f"{value:,.0f}" if value >= 1000 else f"{value:.4g}") + doubt


def sheet(chip: Chip, width: int) -> str:
    """Every figure of a chip, its balance points, what contradicts it, and where it is from."""
    lines = [f"{chip.title}: {chip.vendor}, {chip.year}, {chip.chip_class}"]
    lines += [*_headline(chip, width), "", *_peaks(chip, width), "", *_memories(chip)]
    lines += [*_attained(chip, width), *_rest(chip)]
    if chip.assumes:
        lines += ["", *wrapped(f"a peak assumes: {chip.assumes}", width, "  ")]
    if chip.contradictions:
        lines += ["", "other sources contradict:"]
    for one in chip.contradictions:
        text = f"{one.figure}: {amount(one.other)} ({one.other.note})"
        lines += _indented(text, width)
    lines += _unchecked(chip, width)
    doubts = filter(None, map(chip.doubt, chip.peaks))
    for remark in (*chip.notes, *doubts):
        lines += wrapped(f"note: {remark}", width, "  ")
    return "\n".join([*map(visible, lines), *_sources(chip, width)])


def _headline(chip: Chip, width: int) -> list[str]:
    if chip.headline is None:
        return [f"headline: {UNKNOWN}"]
    head = chip.headline
    lines = [f"headline: {amount(head.operations)} in {head.precision}"]
    if head.text:
        lines += _indented(f'as printed: "{head.text}"', width)
    dense = chip.peak(head.precision).dense if head.precision in chip.precisions() else None
    if dense is not None and dense.value < head.operations.value:
        lines.append(
            f"  {head.operations.value / dense.value:.3g} times the dense peak of one engine,"
            f" {amount(dense)}"
        )
    return lines + [f"  {flag}: it {FLAGS[flag]}" for flag in head.flags]


def _indented(text: str, width: int) -> list[str]:
    return ["  " + line for line in wrapped(text, width - 2, "  ")]


def _peaks(chip: Chip, width: int) -> list[str]:
    if not chip.peaks:
        return [f"peaks: {UNKNOWN}; no roofline"]
    memories = [m for m in chip.memories if m.bandwidth is not None]
    heads = [f"op/byte {m.name}" for m in memories]
    rows = [["peak", "dense", "from", "sparse", "attained", "share", *heads]]
    for peak in chip.peaks:
        best = chip.best_achieved(peak.precision) if peak == chip.peak(peak.precision) else None
        rows.append(
            [
                *(peak.label, amount(peak.dense, ""), peak.dense.kind, amount(peak.sparse, "")),
                amount(best.operations if best else None, ""),
                percent(best.operations.value / peak.dense.value, 0) if best else "-",
                *(_balance(chip, peak, memory) for memory in memories),
            ]
        )
    return in_blocks(rows, (0, 2), width)


def _balance(chip: Chip, peak: Peak, memory: Memory) -> str:
    value = chip.balance(peak, memory)
    return "-" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _memories(chip: Chip) -> list[str]:
    if not chip.memories and not chip.links:
        return [f"memories: {UNKNOWN}"]
    rows = [("memory or link", "level", "size", "rate", "from")]
    for memory in chip.memories:
        said = memory.bandwidth or memory.size
        kind = said.kind if said else "-"
        rows.append(
            (memory.name, memory.level, amount(memory.size), amount(memory.bandwidth), kind)
        )
    for link in chip.links:
        kind = link.bandwidth.kind if link.bandwidth else "-"
        rows.append((link.name, "link", "", amount(link.bandwidth), kind))
    return aligned(rows, (0, 1, 4))


def _attained(chip: Chip, width: int) -> list[str]:
    """Where the attainable rates are from: a measurement is not a promise of the maker."""
    lines: list[str] = []
    for one in chip.achieved:
        said = one.operations
        note = f", {said.note}" if said.note else ""
        lines += wrapped(
            f"attained in {one.precision}: {amount(said)}, {said.kind}{note}", width, "  "
        )
    return ["", *lines] if lines else []


def _rest(chip: Chip) -> list[str]:
    lines = ["", f"clock: {amount(chip.clock)}", f"power: {amount(chip.tdp)}"]
    if chip.processors:
        lines.append(f"processors: {chip.processors.value:g}")
    return [*lines, f"array: {chip.array or UNKNOWN}"]


def _unchecked(chip: Chip, width: int) -> list[str]:
    """Peaks that units × clock does not confirm, gathered by reason."""
    reasons: dict[str, list[str]] = {}
    for peak in chip.peaks:
        if peak.unchecked:
            reasons.setdefault(peak.unchecked, []).append(peak.label)
    lines: list[str] = []
    for reason, labels in reasons.items():
        text = f"not confirmed by units x clock: {', '.join(labels)}: {reason}"
        lines += ["", *wrapped(text, width, "  ")]
    return lines or ([""] if chip.notes or any(map(chip.doubt, chip.peaks)) else [])


def _sources(chip: Chip, width: int) -> list[str]:
    figures = [p.dense for p in chip.peaks] + [m.size for m in chip.memories]
    figures += [m.bandwidth for m in chip.memories] + [chip.processors, chip.clock, chip.tdp]
    figures += [p.units.macs_per_cycle for p in chip.peaks if p.units]
    figures += [one.operations for one in chip.achieved]
    found = {(f.source, f.date, f.seen): None for f in figures if f is not None}
    lines = [""]
    for text, date, seen in found:
        line = f"source ({date}; {_SEEN.get(seen, seen)}): {text}"
        lines += wrapped(visible(line), width, "  ")
    return lines


_SEEN = {
    "headline": "headline figures seen in it",
    "partly": "partly seen in it",
    "recalled": "recalled, check before use",
    "user": "the user",
}


def amount(figure: Sourced | None, unknown: str | None = None) -> str:
    """A figure with its unit; "?" marks an uncertain one."""
    if figure is None:
        return UNKNOWN if unknown is None else "-"
    doubt = "?" if figure.uncertain else ""
    unit = {"operations/s": "OPS", "bytes/s": "B/s", "bytes": "B"}.get(figure.unit, figure.unit)
    return f"{quantity(figure.value, unit)}{doubt}"


def comparison(chips: Sequence[Chip], versus: Versus | None) -> str:
    """Figures of the chips in columns, then the least time of four products on each."""
    rows = [["", *(chip.name for chip in chips)]]
    rows.append(["headline", *(_head(chip) for chip in chips)])
    rows.append(["flags", *(", ".join(c.headline.flags) if c.headline else "" for c in chips)])
    shared = [p for p in _precisions(chips) if sum(p in c.precisions() for c in chips) > 1]
    for precision in shared:
        peaks = [c.peak(precision) if precision in c.precisions() else None for c in chips]
        rows.append([f"dense {precision}", *(amount(p.dense if p else None, "") for p in peaks)])
        best = [c.best_achieved(precision) for c in chips]
        if any(best):
            attained = (amount(b.operations if b else None, "") for b in best)
            rows.append([f"attained {precision}", *attained])
    rows.append(["memory", *(_memory(chip) for chip in chips)])
    rows.append(["power", *(amount(chip.tdp, "") for chip in chips)])
    for precision in shared:
        balances = [_balance_of(chip, precision) for chip in chips]
        rows.append([f"op/byte {precision}", *balances])
    return "\n".join([*in_blocks(rows), "", *_good_for(versus)])


def _precisions(chips: Sequence[Chip]) -> list[str]:
    return list(dict.fromkeys(p for chip in chips for p in chip.precisions()))


def _head(chip: Chip) -> str:
    if chip.headline is None:
        return "-"
    return f"{amount(chip.headline.operations)} {chip.headline.precision}"


def _memory(chip: Chip) -> str:
    memory = chip.main_memory
    return f"{memory.name} {amount(memory.bandwidth)}" if memory else "-"


def _balance_of(chip: Chip, precision: str) -> str:
    if precision not in chip.precisions() or chip.main_memory is None:
        return "-"
    return _balance(chip, chip.peak(precision), chip.main_memory)


def _good_for(versus: Versus | None) -> list[str]:
    if versus is None:
        return ["no precision that all have: nothing can be said of which is faster"]
    if not versus.cases:
        memories = [(chip.name, chip.main_memory) for chip in versus.chips]
        unknown = [name for name, memory in memories if memory is None or memory.bandwidth is None]
        text = (
            f"no source states the rate of the memory of {' and '.join(unknown)}: nothing can be"
            " said of which is faster"
        )
        return wrapped(text, 80)
    names = [chip.name for chip in versus.chips]
    rows = [[f"least time in {versus.precision}", "op/byte", "best", *names]]
    for case in versus.cases:
        times = [f"{seconds(b.seconds)} {b.side}" for b in case.bounds]
        ahead = sorted(b.seconds for b in case.bounds)
        best = "equal" if ahead[1] < 1.005 * ahead[0] else case.best.chip
        rows.append([case.name, f"{case.operations_per_byte:,.1f}", best, *times])
    lines = in_blocks(rows, (0, 2))
    lines += ["rows x k x columns: 1 is a token of a language model, 4096 a large product"]
    crossing = versus.crossover_operations_per_byte
    if crossing is not None:
        fast = max(versus.chips, key=_bandwidth)
        strong = max(versus.chips, key=lambda c: c.peak(versus.precision).dense.value)
        lines += ["", f"below {crossing:,.0f} op/byte {fast.name} is faster (bandwidth),"]
        lines.append(f"above it {strong.name} (arithmetic)")
    return lines


def _bandwidth(chip: Chip) -> float:
    memory = chip.main_memory
    return memory.bandwidth.value if memory and memory.bandwidth else 0.0


def timeline(chips: Sequence[Chip]) -> str:
    """The chips by year, with dense peak and balance point, and what each was the first of."""
    rows = [("year", "chip", "in", "dense", "memory", "op/byte")]
    milestones = [""]
    for chip in sorted(chips, key=lambda c: (c.year, c.name)):
        precision = chip.headline.precision if chip.headline else ""
        peak = chip.peak(precision) if precision in chip.precisions() else None
        balance = chip.balance(peak, chip.main_memory) if peak else None
        rows.append(
            (
                *(str(chip.year), chip.name, precision or "-"),
                amount(peak.dense if peak else None, ""),
                _rate(chip.main_memory),
                f"{balance:,.0f}" if balance else "-",
            )
        )
        milestones.append(visible(chip.milestone))
    lines: list[str] = []
    for line, milestone in zip(aligned(rows, (0, 1, 2)), milestones, strict=True):
        lines += [line, f"      {milestone}"] if milestone else [line]
    return "\n".join([*lines, "", "memory in 10^9 bytes a second"])
