"""Chip files and the user's own figures: what they mean, and what is refused with which words."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ridgeline.chips.custom import custom_chip
from ridgeline.chips.loader import chip_from_dict, chip_names, find, load_chip
from ridgeline.chips.versus import compare
from ridgeline.errors import RidgelineError

SHEET = """
name = "mine"
year = 2026
clock = { hz = 1e9, kind = "user", source = "me" }

[sources.me]
text = "my own sheet"
date = "2026"
seen = "user"

[[peaks]]
precision = "int8"
dense = { operations_per_s = 2.048e12, kind = "user", source = "me" }
units = { name = "array", count = 1, macs_per_cycle = 1024, kind = "user", source = "me" }

[[memories]]
name = "DDR"
level = "main"
size = { size_gib = 4, kind = "user", source = "me" }
bandwidth = { bandwidth_gb_per_s = 25.6, kind = "user", source = "me" }
"""


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_sheet_of_the_users(tmp_path: Path) -> None:
    chip = load_chip(_file(tmp_path, SHEET))
    memory = chip.main_memory
    assert memory is not None
    assert memory.size is not None
    assert memory.size.value == 4 * 2**30
    assert chip.balance(chip.peak("int8"), memory) == pytest.approx(80)
    assert chip.tdp is None
    assert chip.headline is None


SHORT = """
name = "mine"
year = 2026

[[peaks]]
precision = "int8"
dense = { operations_per_s = 100e12 }

[[memories]]
name = "HBM"
level = "main"
bandwidth = { bandwidth_gb_per_s = 300 }
"""


def test_a_sheet_of_the_users_needs_no_sources(tmp_path: Path) -> None:
    chip = load_chip(_file(tmp_path, SHORT))
    peak = chip.peak("int8")
    assert chip.balance(peak, chip.main_memory) == pytest.approx(1000 / 3)
    assert (peak.dense.kind, peak.dense.source) == ("user", "the user's own sheet")
    assert peak.unchecked == "a figure of the user"
    assert not chip.doubt(peak)


def test_a_chip_of_the_catalogue_names_who_says_it() -> None:
    with pytest.raises(RidgelineError, match=r"peaks\[0\]\.dense\.source: is missing"):
        chip_from_dict(tomllib.loads(SHORT))


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("year = 2026", "", "year: is missing. For example: year = 2026"),
        ('level = "main"', "", "memories[0].level: is missing. Give one of main, on-chip, host"),
        (
            "100e12",
            '100e12, source = "me"',
            "peaks[0].dense.source: there is no source 'me'. Add it: [sources.NAME] with text",
        ),
    ],
)
def test_what_a_short_sheet_lacks_is_said_with_what_to_write(
    tmp_path: Path, was: str, now: str, said: str
) -> None:
    path = _file(tmp_path, SHORT.replace(was, now, 1))
    with pytest.raises(RidgelineError) as error:
        load_chip(path)
    assert str(error.value).startswith(f"chip {path}: {said}")


@pytest.mark.parametrize(("rate", "balance"), [("0.3", "333,333"), ("300e3", "0.333")])
def test_a_slip_of_a_prefix_is_doubted(tmp_path: Path, rate: str, balance: str) -> None:
    chip = load_chip(_file(tmp_path, SHORT.replace("= 300", f"= {rate}")))
    said = chip.doubt(chip.peak("int8"))
    assert said.startswith(f"{balance} int8 operations for each byte of HBM: sheets have 1 to")


def test_no_chip_of_the_catalogue_is_doubted() -> None:
    chips = [load_chip(name) for name in chip_names()]
    assert not [chip.name for chip in chips for peak in chip.peaks if chip.doubt(peak)]


FAULTS = [
    (
        "size_gib = 4",
        "size_gb = 4, size_gib = 4",
        "memories[0].size: must hold exactly one of size_bytes, size_kb, size_kib, size_mb,"
        " size_mib, size_gb, size_gib, size_tb, size_tib, not size_gb and size_gib",
    ),
    (
        "bandwidth_gb_per_s",
        "bandwidth_gbs",
        "memories[0].bandwidth.bandwidth_gbs: unknown key 'bandwidth_gbs'."
        " Did you mean 'bandwidth_gb_per_s' or 'bandwidth_gib_per_s' or 'bandwidth_tb_per_s'?",
    ),
    (
        "size_gib = 4",
        "size_gb = 4e9",
        "memories[0].size.size_gb: 4e+09 is 4e+18 bytes, more than any chip has."
        " Is it size_bytes or size_kb or size_mb?",
    ),
    (
        "size_gib = 4",
        "size_bytes = 4",
        "memories[0].size.size_bytes: 4 is 4 bytes, less than any chip has."
        " Is it size_kb or size_mb or size_gb?",
    ),
    (
        "size_gib = 4",
        "size_GiB = 4",
        "memories[0].size.size_GiB: unknown key 'size_GiB'. Did you mean 'size_gib'?",
    ),
    (
        "hz = 1e9",
        "hz = 1000",
        "clock.hz: 1000 is 1e+03 Hz, less than any chip has."
        " Give Hz from 100000 to 1e+11, such as 2040e6 for 2,040 million",
    ),
    (
        "operations_per_s = 2.048e12",
        "operations_per_s = 0",
        "peaks[0].dense.operations_per_s: must be a number above 0, not 0."
        " Leave out what is not known",
    ),
    (
        "operations_per_s = 2.048e12",
        "operations_per_s = 1" + 400 * "0",
        "peaks[0].dense.operations_per_s: must be a number above 0, not 1000000000",
    ),
    (
        "operations_per_s = 2.048e12",
        "operations_per_s = nan",
        "peaks[0].dense.operations_per_s: must be a number above 0, not nan.",
    ),
    (
        "macs_per_cycle = 1024",
        "macs_per_cycle = 512",
        "peaks.int8: 1 × 512 MACs × 2 × clock are 1.024e+12 operations/s, not 2.048e+12."
        " Correct one of them, or say why in 'unchecked' instead of 'units'",
    ),
    ('source = "me" }\n\n[s', 'source = "mee" }\n\n[s', "clock.source: there is no source 'mee'."),
    ('date = "2026"', 'date = "lately"', "sources.me.date: must begin with a year"),
    (
        "year = 2026",
        "year = 0x" + 9000 * "f",
        "year: must be a year, not a number of thousands of digits",
    ),
    ('level = "main"', 'level = "far"', "memories[0].level: 'far' is not known."),
    ("year = 2026", "yaer = 2026", "yaer: unknown key 'yaer'. Did you mean 'year'"),
    ('precision = "int8"', 'precision = "int9"', "peaks[0].precision: 'int9' is not known."),
]


@pytest.mark.parametrize(("was", "now", "said"), FAULTS)
def test_a_fault_in_a_sheet_is_named(tmp_path: Path, was: str, now: str, said: str) -> None:
    assert was in SHEET
    path = _file(tmp_path, SHEET.replace(was, now, 1))
    with pytest.raises(RidgelineError) as error:
        load_chip(path)
    assert str(error.value).startswith(f"chip {path}: {said}")


def test_names_in_any_spelling_and_near_matches() -> None:
    assert find("H100 SXM5") == "h100-sxm5"
    assert find("h200") == "h200-sxm"
    with pytest.raises(RidgelineError, match="Did you mean 'h100-pcie' or 'h100-sxm5'"):
        find("h100")
    for longer, known in (("nvidia-l4", "l4"), ("NVIDIA H100 SXM5 80GB", "h100-sxm5")):
        with pytest.raises(RidgelineError, match=f"no chip '{longer}'. Did you mean '{known}'"):
            find(longer)
    with pytest.raises(RidgelineError, match=r"no chip 'hailo-9'\. Did you mean 'hailo-8'"):
        find("hailo-9")


def test_a_precision_that_a_chip_does_not_have() -> None:
    with pytest.raises(RidgelineError) as error:
        load_chip("a100-sxm4-80gb").peak("fp8")
    said = "--precision: a100-sxm4-80gb has no peak in 'fp8'. It has: fp64, fp32, tf32, bf16, fp16"
    assert str(error.value) == f"{said}, int8, int4"


@pytest.mark.parametrize(
    ("peak", "bandwidth", "value"),
    [
        ("int8=100T", "300G", 300e9),
        ("int8=100TOPS", "300GB/s", 300e9),
        ("int8=1e5 GFLOPS", "300 GiB/s", 300 * 2.0**30),
    ],
)
def test_figures_of_the_command_line(peak: str, bandwidth: str, value: float) -> None:
    chip = custom_chip([peak], bandwidth)
    memory = chip.main_memory
    assert chip.peak("int8").dense.value == 1e14
    assert memory is not None
    assert memory.bandwidth is not None
    assert memory.bandwidth.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("peaks", "bandwidth", "said"),
    [
        ([], "300G", "--peak: is missing. For example: --peak int8=100T --bandwidth 300G"),
        (["100T"], None, "--peak: '100T' is not PRECISION=PEAK. For example: int8=100T"),
        (
            ["int8=100"],
            None,
            "--peak: '100' is 100 operations a second. Add the prefix: 100G or 100T",
        ),
        (
            ["int8=50TMACs/s"],
            None,
            "--peak: '50TMACs/s' counts MACs. Give operations: 2 for each multiply-accumulate",
        ),
        (["f8=1T"], None, "--peak: there is no precision 'f8'. Did you mean 'fp8'?"),
        (["int8=1T"], "300Gb/s", "--bandwidth: '300Gb/s' counts bits. Give bytes: 37.5GB/s"),
        (
            ["int8=1T"],
            "300",
            "--bandwidth: '300' is 300 bytes a second. Add the prefix: 300G for 300 GB/s",
        ),
        (
            ["int8=100G"],
            "300T",
            "--peak: int8 at 1e+11 operations/s over 3e+14 bytes/s is 0.000333 operations for each"
            " byte, and sheets have 1 to 12,500. Check the prefixes of --peak and --bandwidth",
        ),
        (
            ["int8=1e307T"],
            None,
            "--peak: '1e307T' is not a number above 0 with a prefix. For example: int8=100T",
        ),
        (
            ["int8=1T"],
            "fast",
            "--bandwidth: 'fast' is not a number above 0 with a prefix. For example: 300G",
        ),
        (
            ["int8=1T"],
            "300GX/s",
            "--bandwidth: '300GX/s' is not a number of bytes a second."
            " GB/s are 10^9, GiB/s are 2^30. For example: 300GB/s or 300GiB/s",
        ),
    ],
)
def test_slips_of_units_are_named(peaks: list[str], bandwidth: str | None, said: str) -> None:
    with pytest.raises(RidgelineError) as error:
        custom_chip(peaks, bandwidth)
    assert str(error.value) == said


def test_where_two_rooflines_cross() -> None:
    # 100 T at 100 G against 50 T at 200 G: they meet where 100 G x I = 50 T, at 500.
    strong = custom_chip(["int8=100T"], "100G", "strong")
    wide = custom_chip(["int8=50T"], "200G", "wide")
    versus = compare([strong, wide], None)
    assert versus is not None
    assert versus.crossover_operations_per_byte == pytest.approx(500)
    for case in versus.cases:
        wanted = "wide" if case.operations_per_byte < 500 else "strong"
        assert case.best.chip == wanted
        for bound, (peak, rate) in zip(case.bounds, ((1e14, 1e11), (5e13, 2e11)), strict=True):
            attained = min(peak, rate * case.operations_per_byte)
            operations = 2 * 4096 * 4096 * int(case.name.split(" ")[0])
            assert bound.seconds == pytest.approx(operations / attained)
