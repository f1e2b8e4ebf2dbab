"""Slow, fast and odd rates: cycles are never below bytes over bytes per cycle, nor absurd."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.errors import RidgelineError
from ridgeline.machine.instructions import HostRead, Load
from ridgeline.machine.loader import load_machine


@given(st.floats(1, 1e15), st.floats(1e3, 1e11), st.integers(1, 1 << 20))
def test_never_faster_than_the_rate(bytes_per_s: float, clock_hz: float, length: int) -> None:
    settings = [f"clock_hz={clock_hz!r}", f"device_memory.bytes_per_s={bytes_per_s!r}",
                f"host_link.bytes_per_s={bytes_per_s!r}"]  # fmt: skip
    machine = load_machine("tiny-16", settings)
    least = length * Fraction(clock_hz) / Fraction(bytes_per_s)
    assert HostRead(length_bytes=length).timing(machine).issue_cycles >= least
    lines = -(-length // 16)
    load = Load(element_bytes=16, count_0=lines, device_stride_0=16, line_stride_0=1, banks=15)
    assert load.timing(machine).port_cycles >= max(least, lines)


def test_a_real_part_is_exact_to_the_burst() -> None:
    machine = load_machine("server-hbm")
    line, lines = machine.unified_buffer.line_bytes, 81920
    load = Load(element_bytes=line, count_0=lines, device_stride_0=line, line_stride_0=1)
    bytes_per_cycle = Fraction(machine.device_memory.bytes_per_s) / Fraction(machine.clock_hz)
    moved = Fraction(line * lines) / bytes_per_cycle
    slots = Fraction(lines, machine.device_memory.lines_per_cycle)
    assert load.timing(machine).port_cycles == -(-max(moved, slots) // 1)


@pytest.mark.parametrize("key", [
    "host_link.bytes_per_s", "device_memory.bytes_per_s", "host.bytes_per_s",
    "host.operations_per_s",
])  # fmt: skip
@pytest.mark.parametrize("value", ["0", "-1", "1e-300", "1e300", "nan", "inf"])
def test_rates_that_nothing_has(key: str, value: str) -> None:
    with pytest.raises(RidgelineError) as caught:
        load_machine("tiny-8", [f"{key}={value}"])
    assert key in str(caught.value)


@pytest.mark.parametrize("key", ["host_link.latency_seconds", "host.overhead_seconds"])
def test_waits_that_nobody_waits(key: str) -> None:
    with pytest.raises(RidgelineError, match="must lie in 0 to 1000, not 1e\\+300"):
        load_machine("tiny-8", [f"{key}=1e300"])
