"""The trace file: one slice an instruction, on its unit's track, at its time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ridgeline import api
from ridgeline.machine.instructions import Unit
from ridgeline.machine.occupancy import occupancy
from ridgeline.render import perfetto


@pytest.fixture(scope="module")
def trace(shipped: Any) -> Any:
    graph = api.read_onnx(shipped.model, batch=1)
    with np.load(shipped.calibration) as samples:
        program = api.compile(api.quantize(graph, dict(samples)), api.load_machine("tiny-8"))
    return api.simulate(program)


@pytest.fixture(scope="module")
def events(trace: Any) -> list[dict[str, Any]]:
    return json.loads(perfetto.render(trace))["traceEvents"]


def test_there_is_a_named_track_for_each_unit(events: list[dict[str, Any]]) -> None:
    named = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert named == {**{int(u): u.name.lower() for u in Unit}, len(Unit): "host"}


def test_there_is_a_slice_for_each_instruction(trace: Any, events: list[dict[str, Any]]) -> None:
    slices = [e for e in events if e["ph"] == "X" and e["cat"] != "host"]
    made = [
        (segment.begin + event.start, event)
        for segment in trace.segments
        for event in segment.events
    ]
    assert len(slices) == len(made)
    for slice, (start, event) in zip(slices, made, strict=True):
        assert slice["ts"] == pytest.approx(start / 100)  # microseconds at 100 MHz
        assert slice["dur"] == pytest.approx((event.issued - event.start) / 100)
        assert slice["tid"] == int(event.instruction.unit)
        assert slice["args"]["waited_for"] == event.waited_for
        assert slice["args"]["operands"] == str(event.instruction)


def test_slices_of_a_track_do_not_overlap(events: list[dict[str, Any]]) -> None:
    ends: dict[int, float] = {}
    for e in sorted((e for e in events if e["ph"] == "X"), key=lambda e: e["ts"]):
        assert e["ts"] >= ends.get(e["tid"], 0) - 1e-6
        ends[e["tid"]] = e["ts"] + e["dur"]


def test_host_segments_are_slices(trace: Any, events: list[dict[str, Any]]) -> None:
    slices = [e for e in events if e.get("cat") == "host"]
    assert [e["args"]["cycles"] for e in slices] == [s.cycles for s in trace.segments if s.host]


def test_the_port_serves_one_at_a_time(events: list[dict[str, Any]]) -> None:
    steps = [e["args"]["busy"] for e in events if e["name"] == "device-memory port"]
    assert set(steps) == {0, 1}
    assert steps[-1] == 0


def test_the_unified_buffer_is_a_counter(trace: Any, events: list[dict[str, Any]]) -> None:
    counted = [e for e in events if e["name"] == "unified buffer"]
    assert {e["ph"] for e in counted} == {"C"}
    found = occupancy(trace)
    assert [e["args"]["bytes"] for e in counted] == found.used_bytes.tolist()
    assert [e["ts"] for e in counted] == pytest.approx((found.cycles / 100).tolist())
    assert max(e["args"]["bytes"] for e in counted) > 0


def test_two_renderings_are_the_same(trace: Any) -> None:
    assert perfetto.render(trace) == perfetto.render(trace)
