"""Each chip of the catalogue: units, sources, peaks that its units and clock confirm."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from ridgeline.chips.loader import chip_names, load_chip
from ridgeline.chips.sheet import PRECISIONS, Chip, Sourced
from ridgeline.render import chips as render

NAMES = chip_names()
# What no chip may leave: a figure beyond these would be a slip of units.
PLAUSIBLE = {
    "operations/s": (1e10, 2e17),
    "bytes/s": (1e8, 3e16),
    "bytes": (1e5, 1e12),
    "Hz": (1e8, 5e9),
    "W": (0.01, 3e4),
    "": (1, 1e6),
    "MACs/cycle": (1, 2e5),
    "MACs": (1, 1e5),
}


def _figures(thing: Any) -> Iterator[Sourced]:
    if isinstance(thing, Sourced):
        yield thing
    elif isinstance(thing, tuple):
        for one in thing:
            yield from _figures(one)
    elif is_dataclass(thing):
        for field in fields(thing):
            yield from _figures(getattr(thing, field.name))


def test_the_catalogue_has_at_least_ninety_chips() -> None:
    assert len(NAMES) >= 90


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_a_source_a_date_a_kind_and_a_plausible_size(name: str) -> None:
    chip = load_chip(name)
    assert chip.name == name
    figures = list(_figures(chip))
    assert figures
    for figure in figures:
        low, high = PLAUSIBLE[figure.unit]
        assert low <= figure.value <= high, figure
        assert figure.source
        assert re.match(r"20\d\d", figure.date)


@pytest.mark.parametrize("name", NAMES)
def test_peaks_are_units_times_clock_or_say_why_not(name: str) -> None:
    chip = load_chip(name)
    for peak in chip.peaks:
        if peak.units is None:
            assert len(peak.unchecked) > 10
            continue
        assert chip.clock is not None
        made = 2 * peak.units.count * peak.units.macs_per_cycle.value * chip.clock.value
        assert made == pytest.approx(peak.dense.value, rel=0.02)
        assert not peak.unchecked


def test_the_page_says_how_many_units_were_seen_in_a_source() -> None:
    units = [peak.units for name in NAMES for peak in load_chip(name).peaks if peak.units]
    recalled = sum(one.macs_per_cycle.seen == "recalled" for one in units)
    page = (Path(__file__).parents[2] / "docs" / "chips.md").read_text(encoding="utf-8")
    said = re.search(r"Of (\d+) peaks .*?, (\d+) have .*?, (\d+) a\s+recalled", page, re.DOTALL)
    assert said is not None
    assert [int(n) for n in said.groups()] == [len(units), len(units) - recalled, recalled]


@pytest.mark.parametrize("name", NAMES)
def test_headlines_above_the_dense_peak_say_what_they_are(name: str) -> None:
    chip = load_chip(name)
    for peak in chip.peaks:
        if peak.sparse is not None:
            assert peak.sparse.value > peak.dense.value
            assert peak.sparsity
    head = chip.headline
    if head is None:
        return
    if head.precision not in chip.precisions():  # a sheet that prints the sparse figure only
        assert head.flags
        return
    if head.operations.value > 1.005 * chip.peak(head.precision).dense.value:
        assert head.flags
    assert ("int4" in head.flags) == (head.precision in ("int4", "fp4"))


@pytest.mark.parametrize("name", NAMES)
def test_measured_ceilings_are_below_the_peak(name: str) -> None:
    chip = load_chip(name)
    for one in chip.achieved:
        assert one.operations.value <= 1.001 * chip.peak(one.precision).dense.value


def test_most_peaks_are_confirmed_by_units_and_clock() -> None:
    peaks = [peak for name in NAMES for peak in load_chip(name).peaks]
    assert sum(peak.units is not None for peak in peaks) >= 0.6 * len(peaks)


def test_the_catalogue_stays_as_it_is(golden: Callable[[str, str], None]) -> None:
    golden("chips/catalogue.txt", render.catalogue([load_chip(n) for n in NAMES], None))
    rows = [
        f"{name}: " + ", ".join(f"{p.label} {p.dense.value:.6g}" for p in load_chip(name).peaks)
        for name in NAMES
    ]
    golden("chips/peaks.txt", "\n".join(rows) + "\n")


def test_files_hold_no_zero_and_no_empty_figure() -> None:
    folder = resources.files("ridgeline.chips") / "data"
    for name in NAMES:
        data = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
        text = repr(data)
        assert ": 0," not in text, name
        assert "unknown" not in text, name


# What the sheets contradict each other on, and a buyer may trip over.
KEPT = {
    "h100-pcie": ("peaks.fp16", 1513e12),
    "tpu-v3": ("peaks.bf16", 140e12),
    "tpu-v5e": ("peaks.int8", 393e12),
    "inferentia2": ("memories.HBM", 820 * 2.0**30),
    "gaudi-3": ("peaks.bf16", 1835e12),
    "nvdla-full": ("array", 1024.0),
}


@pytest.mark.parametrize("name", sorted(KEPT))
def test_contradictions_are_kept_with_both_values(name: str) -> None:
    chip = load_chip(name)
    found = [(one.figure, one.other.value) for one in chip.contradictions]
    assert KEPT[name] in found


@pytest.mark.parametrize("name", NAMES)
def test_what_contradicts_a_figure_differs_from_it(name: str) -> None:
    chip = load_chip(name)
    for one in chip.contradictions:
        kind, _, key = one.figure.partition(".")
        if kind == "peaks":
            said = [p.dense for p in chip.peaks if p.precision == key]
        elif kind == "memories":
            memory = next(m for m in chip.memories if m.name == key)
            said = [f for f in (memory.size, memory.bandwidth) if f and f.unit == one.other.unit]
        elif kind == "headline":
            said = [chip.headline.operations] if chip.headline else []
        elif kind == "array":
            continue  # its text is not a figure
        else:
            said = [getattr(chip, kind)]
        assert said, one.figure
        assert one.other.note
        assert all(figure.value != one.other.value for figure in said), one


def test_known_traps_are_flagged() -> None:
    orin = load_chip("jetson-agx-orin-64gb")
    assert orin.headline is not None
    assert orin.headline.flags == ("sparse", "sum")
    engines = [p for p in orin.peaks if p.precision == "int8"]
    assert sum(p.dense.value for p in engines) == 137.5e12
    assert sum(p.sparse.value for p in engines if p.sparse) == orin.headline.operations.value
    trainium = load_chip("trainium2").peak("fp8")
    assert trainium.sparse is not None
    assert trainium.sparse.value / trainium.dense.value < 1.98  # 4:1, so halving is wrong
    hailo = load_chip("hailo-10h").headline
    assert hailo is not None
    assert hailo.flags == ("int4",)


def _number(cell: str) -> float | None:
    match = re.match(r"~?([0-9.]+)", cell.strip())
    return float(match[1]) if match else None


# Cells that hold more than one figure, of which the chip's peak is the one that one engine reaches.
SPLIT = {
    ("B200 SXM", "fp32"),
    ("Arc A770", "fp32"),
    ("Jetson AGX Orin 64GB", "int8"),
    ("Jetson Orin NX 16GB", "int8"),
    ("ECP5-85 (LFE5U-85)", "int8"),
}


@pytest.mark.peer
def test_every_cell_is_that_of_the_list_and_blank_cells_stay_absent(reference: Path) -> None:
    titles = {load_chip(name).title: load_chip(name) for name in NAMES}
    with (reference / "data" / "chips.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        chip: Chip = titles[row["name"]]
        assert (chip.vendor, chip.year) == (row["vendor"], int(row["year"]))
        for precision in PRECISIONS:
            cell, has = row[precision], precision in chip.precisions()
            if (row["name"], precision) in SPLIT:
                continue
            assert has == bool(cell), (chip.name, precision)
            if has:
                peak = chip.peak(precision).dense
                assert peak.value == pytest.approx(1e12 * (_number(cell) or 0)), chip.name
                assert peak.uncertain == ("?" in cell)
        watts = _number(row["tdp_w"])
        assert (chip.tdp.value if chip.tdp else None) == watts
        if not row["mem_bw_gbs"]:
            assert all(memory.bandwidth is None for memory in chip.memories)
