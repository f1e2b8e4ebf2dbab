"""Power over a run: the window that draws most, and the clock that keeps to a limit.

An instruction's energy is spread evenly over the cycles in which its unit is busy with it, so the
energy up to a cycle is a line with corners, and the busiest window begins or ends at a corner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeline.machine.description import Machine
from ridgeline.machine.energy import Floats, Integers, work_joules
from ridgeline.machine.simulate import Trace
from ridgeline.results.energy import PowerFacts


@dataclass(frozen=True, slots=True, eq=False)
class EnergyCurve:
    """Joules done up to each of `cycles`, without idle power; straight between them."""

    cycles: Floats
    joules: Floats
    length_cycles: int

    def most_joules(self, window_cycles: float) -> float:
        """Of all windows of this length within the run."""
        latest = self.length_cycles - window_cycles
        corners = np.concatenate([self.cycles, self.cycles - window_cycles])
        starts = np.clip(corners, 0, latest)
        return float(np.max(self._until(starts + window_cycles) - self._until(starts)))

    def _until(self, cycles: Floats) -> Floats:
        return np.interp(cycles, self.cycles, self.joules)

    def watts(self, window_cycles: float, clock_hz: float) -> float:
        """Of the busiest window, or of the whole run where that is shorter; idle power left out."""
        window = min(window_cycles, self.length_cycles)
        return self.most_joules(window) * clock_hz / window


def energy_curve(trace: Trace, joules: Floats) -> EnergyCurve:
    """Of a run in which each instruction, in order, does work of so many joules."""
    spans = [
        (segment.begin + event.start, segment.begin + max(event.issued, event.start + 1))
        for segment in trace.segments
        for event in segment.events
    ]
    if not spans:
        return EnergyCurve(np.zeros(1), np.zeros(1), trace.cycles)
    begin, end = np.asarray(spans, np.float64).T
    corners, places = np.unique(np.concatenate([begin, end]), return_inverse=True)
    rate = joules / (end - begin)
    change = np.zeros(len(corners))
    np.add.at(change, places, np.concatenate([rate, -rate]))
    steps = np.cumsum(change)[:-1] * np.diff(corners)
    done = np.concatenate([np.zeros(1), np.cumsum(steps)])
    return EnergyCurve(corners, done, trace.cycles)


def power_facts(trace: Trace, table: Integers) -> PowerFacts | None:
    """What is known of a run's power; None where the machine has no energy figures.

    `table`: the activity of the program's instructions.
    """
    machine = trace.program.machine
    if machine.energy is None:
        return None
    idle, power = machine.energy.idle_watts, machine.power
    if power is None:
        return PowerFacts(idle)
    peak = idle
    slowdown = 1.0
    if trace.cycles:
        curve = energy_curve(trace, work_joules(table, machine.energy, machine))
        window_cycles = power.window_seconds * machine.clock_hz
        peak += curve.watts(window_cycles, machine.clock_hz)
        if power.policy == "throttle" and power.limit_watts is not None:
            slowdown = _slowdown(curve, window_cycles, machine.clock_hz, power.limit_watts - idle)
    return PowerFacts(idle, power.window_seconds, peak, power.limit_watts, power.policy, slowdown)


def _slowdown(curve: EnergyCurve, window_cycles: float, clock_hz: float, watts: float) -> float:
    """The least factor on the clock's period for which no window does more than `watts` of work.

    Slower by s, a window holds 1 / s of its cycles, so what it draws falls as s grows.
    """

    def drawn(slower: float) -> float:
        return curve.watts(window_cycles / slower, clock_hz / slower)

    low = high = 1.0
    while drawn(high) > watts:
        low, high = high, 2 * high
    if high == 1.0:
        return 1.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if drawn(middle) > watts else (low, middle)
    return high


def remarks(power: PowerFacts | None, machine: Machine) -> tuple[str, ...]:
    """What a reader must know about the limit: nothing where the run keeps to it."""
    if power is None or not power.above_limit:
        return ()
    limit, peak, window = power.limit_watts, power.peak_watts, power.window_seconds
    assert limit is not None
    assert peak is not None
    assert window is not None
    drawn = f"the busiest {1e6 * window:g} µs draw {peak:.3g} W at full clock"
    above = f"above the limit of {limit:g} W"
    if not power.throttles:
        return (f"{drawn}, {above} (power.limit_watts)",)
    slow, full = machine.clock_hz / power.slowdown / 1e6, machine.clock_hz / 1e6
    return (f"{drawn}, {above}: the clock is lowered from {full:.4g} to {slow:.4g} MHz",)
