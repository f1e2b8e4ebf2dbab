"""A Trace in Chrome's trace-event format, which ui.perfetto.dev and chrome://tracing open.

One track for each unit, one slice for each instruction from its start until its unit is free again,
with its operands and what it waited for; counters show the device-memory port and how much of the
unified buffer is occupied. Format: "Trace Event Format" by the Chromium project; timestamps are
microseconds of the machine's clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ridgeline.machine.instructions import Instruction, Unit
from ridgeline.machine.occupancy import occupancy
from ridgeline.machine.program import Program
from ridgeline.machine.simulate import Event, SegmentTrace, Trace

PROCESS = 1
HOST_TRACK = len(Unit)


def render(trace: Trace) -> str:
    """The file's text: one JSON object, an event a line."""
    lines = (json.dumps(e, separators=(",", ":")) for e in events(trace))
    head = {"displayTimeUnit": "ns", "otherData": _other(trace)}
    return json.dumps(head)[:-1] + ',"traceEvents":[\n' + ",\n".join(lines) + "\n]}\n"


def _other(trace: Trace) -> dict[str, Any]:
    machine = trace.program.machine
    return {"model": trace.program.name, "machine": machine.name, "clock_hz": machine.clock_hz}


def events(trace: Trace) -> Iterator[dict[str, Any]]:
    """Names of the tracks, then the slices of every segment in order, then the counters."""
    name = f"{trace.program.name} on {trace.program.machine.name}"
    yield _meta("process_name", 0, name)
    tracks = [unit.name.lower() for unit in Unit] + ["host"]
    for number, track in enumerate(tracks):
        yield _meta("thread_name", number, track)
        yield {**_meta("thread_sort_index", number, ""), "args": {"sort_index": number}}
    for segment in trace.segments:
        yield from _segment(trace, segment)
    yield from _port(trace)
    yield from _occupancy(trace)


def _meta(kind: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": PROCESS, "tid": track, "name": kind, "args": {"name": name}}


def _microseconds(trace: Trace, cycles: int) -> float:
    return round(cycles * 1e6 / trace.program.machine.clock_hz, 6)


def _segment(trace: Trace, segment: SegmentTrace) -> Iterator[dict[str, Any]]:
    if segment.host:
        yield {
            "ph": "X",
            "pid": PROCESS,
            "tid": HOST_TRACK,
            "ts": _microseconds(trace, segment.begin),
            "dur": _microseconds(trace, segment.cycles),
            "name": segment.host,
            "cat": "host",
            "args": {"cycles": segment.cycles},
        }
    for event in segment.events:
        yield _slice(trace, segment.begin, event)


def _slice(trace: Trace, begin: int, event: Event) -> dict[str, Any]:
    """A slice from start until the unit is free; its arguments hold the other times in cycles."""
    instruction = event.instruction
    layer = layer_name(trace.program, instruction)
    times = {
        key: begin + getattr(event, key) for key in ("dispatched", "ready", "start", "drained")
    }
    return {
        "ph": "X",
        "pid": PROCESS,
        "tid": int(instruction.unit),
        "ts": _microseconds(trace, begin + event.start),
        "dur": _microseconds(trace, event.issued - event.start),
        "name": f"{type(instruction).__name__} {layer}".strip(),
        "cat": instruction.unit.name.lower(),
        "args": {
            "layer": layer,
            "waited_for": event.waited_for,
            "cycles": event.issued - event.start,
            **times,
            "operands": str(instruction),
        },
    }


def layer_name(program: Program, instruction: Instruction) -> str:
    """The name of the layer that an instruction belongs to, or ""."""
    inside = 0 <= instruction.layer < len(program.layers)
    return program.layers[instruction.layer].name if inside else ""


def _port(trace: Trace) -> Iterator[dict[str, Any]]:
    """Steps of the device-memory port between 0 and 1."""
    machine = trace.program.machine
    steps: dict[int, int] = {}
    for segment in trace.segments:
        for event in segment.events:
            cycles = event.instruction.timing(machine).port_cycles
            if cycles:
                start = segment.begin + event.start
                steps[start] = steps.get(start, 0) + 1
                steps[start + cycles] = steps.get(start + cycles, 0) - 1
    busy = 0
    for cycle in sorted(steps):
        if steps[cycle]:
            busy += steps[cycle]
            yield _counter(trace, cycle, "device-memory port", {"busy": busy})


def _occupancy(trace: Trace) -> Iterator[dict[str, Any]]:
    """Bytes of the unified buffer that hold what something still reads."""
    found = occupancy(trace)
    for cycle, used in zip(found.cycles.tolist(), found.used_bytes.tolist(), strict=True):
        yield _counter(trace, cycle, "unified buffer", {"bytes": used})


def _counter(trace: Trace, cycle: int, name: str, values: dict[str, int]) -> dict[str, Any]:
    at = _microseconds(trace, cycle)
    return {"ph": "C", "pid": PROCESS, "ts": at, "name": name, "args": values}
