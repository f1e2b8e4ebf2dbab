"""Every machine that ships loads, states where its figures come from, and sums up as published."""

from __future__ import annotations

import pytest

from ridgeline.machine.loader import known_keys, load_machine, machine_names

# Peak int8 TOPS (an operation is half a multiply-accumulate), and MACs per byte of device memory.
PEAKS = {
    "edge-4tops": (4.096, 120.02),
    "server-hbm": (137.63, 112.07),
    "tiny-16": (0.0512, 16.0),
    "tiny-8": (0.0128, 8.0),
    # Jouppi et al. 2017: 92 TOPS, and a ridge point near 1350 MACs per byte of weights.
    "tpu-v1": (91.75, 1349.27),
}


def test_every_machine_is_listed_here() -> None:
    assert machine_names() == sorted(PEAKS)


@pytest.mark.parametrize("name", sorted(PEAKS))
def test_peak_and_balance(name: str) -> None:
    machine = load_machine(name)
    peak, balance = PEAKS[name]
    assert machine.name == name
    assert machine.description
    assert 2 * machine.peak_macs_per_s / 1e12 == pytest.approx(peak, rel=1e-3)
    assert machine.balance_macs_per_byte == pytest.approx(balance, rel=1e-3)


@pytest.mark.parametrize("name", sorted(PEAKS))
def test_every_figure_has_a_source(name: str) -> None:
    sources = load_machine(name).sources
    wanted = set(known_keys()) - {"name", "description"}
    assert wanted <= set(sources), "no source for " + ", ".join(sorted(wanted - set(sources)))
    assert set(sources) <= wanted, "a source for no field: " + ", ".join(set(sources) - wanted)
    assert all(text.strip() for text in sources.values())


def test_tpu_v1_holds_what_the_paper_says() -> None:
    machine = load_machine("tpu-v1")
    array = machine.array
    accumulator_bytes = array.accumulator_entries * array.cols * array.accumulator_bits // 8
    assert accumulator_bytes == 4 << 20
    assert machine.unified_buffer.bytes == 24 << 20
    assert array.rows * array.cols == 65536


def test_server_hbm_can_use_its_memory() -> None:
    machine = load_machine("server-hbm")
    bytes_per_cycle = machine.device_memory.bytes_per_s / machine.clock_hz
    assert machine.array.weight_rows_per_cycle * machine.array.cols >= bytes_per_cycle
