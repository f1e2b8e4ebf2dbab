"""The ledger: every slot once, on random programs and on gaps made on purpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.machine.fuzz import random_program
from ridgeline.machine.instructions import (
    Instruction,
    Load,
    LoadWeights,
    MatMul,
    Requant,
)
from ridgeline.machine.instructions.array import planes
from ridgeline.machine.ledger import ENTRIES, Ledger, ledger, owners_of, table3
from ridgeline.machine.loader import load_machine
from ridgeline.machine.order import synchronise
from ridgeline.machine.program import DeviceSegment, HostSegment, Layer, Program, Segment
from ridgeline.machine.simulate import Trace, simulate

MACHINE = load_machine("tiny-8")


def layers(count: int) -> tuple[Layer, ...]:
    return tuple(Layer(f"layer {i}", "Conv", "array", 0, 0, 0, 0, 0, ()) for i in range(count))


def program_of(
    *segments: list[Instruction] | HostSegment, layer_count: int = 1, machine=MACHINE
) -> Program:
    made: list[Segment] = [
        s if isinstance(s, HostSegment) else DeviceSegment(synchronise(s, machine, 0, 4096))
        for s in segments
    ]
    return Program(
        "by hand", machine, tuple(made), layers(layer_count), np.zeros(0, np.uint8), 4096, 0, (), ()
    )


def assert_complete(trace: Trace, account: Ledger) -> None:
    total = account.total()
    assert tuple(total) == ENTRIES
    assert sum(total.values()) == trace.cycles * account.slots_per_cycle
    assert min(min(entries.values()) for entries in (*account.layers, account.other)) >= 0


@settings(max_examples=60)
@given(
    st.sampled_from(["weight-stationary", "output-stationary", "input-stationary"]),
    st.integers(0, 1 << 32),
    st.integers(1, 5),
)
def test_complete_and_exclusive(flow: str, seed: int, layer_count: int) -> None:
    rng = np.random.default_rng(seed)
    machine = load_machine("tiny-8", [f"array.dataflow={flow}", "array.accumulator_entries=32"])
    program = random_program(machine, rng)
    (segment,) = program.segments
    assert isinstance(segment, DeviceSegment)
    owned = [
        int(layer) for layer in np.sort(rng.integers(0, layer_count, len(program.instructions)))
    ]
    moved = tuple(
        replace(one, layer=layer) for one, layer in zip(segment.instructions, owned, strict=True)
    )
    host = HostSegment("softmax", b"", (), (), 1000, (0, layer_count - 1))
    program = replace(
        program, segments=(DeviceSegment(moved), host, segment), layers=layers(layer_count)
    )
    trace = simulate(program)
    account = ledger(trace)
    assert_complete(trace, account)
    events = trace.segments[0].events + trace.segments[2].events
    first = owners_of(trace.segments[2].events)
    for layer in range(layer_count):
        useful = sum(
            one.macs * planes(one.format)
            for one, owner in zip([e.instruction for e in events], [*owned, *first], strict=True)
            if owner == layer and isinstance(one, MatMul)
        )
        assert account.layers[layer]["useful"] == useful
    rows = table3(account)
    parts = ("array active", "weight stall", "weight shift", "non-matrix")
    assert sum(rows[name] for name in parts) == pytest.approx(100)
    assert rows["useful MACs"] + rows["unused MACs"] == pytest.approx(rows["array active"])


def cycles_of(account: Ledger) -> dict[str, float]:
    return {
        name: slots / account.slots_per_cycle for name, slots in account.total().items() if slots
    }


def test_a_full_array_is_all_useful() -> None:
    """64 rows through a full 8 x 8 array; before it, weights come from memory and shift in."""
    trace = simulate(program_of([LoadWeights(k=8, n=8, layer=0), MatMul(count_0=64, k=8, n=8)]))
    account = ledger(trace)
    assert_complete(trace, account)
    weights, matmul = trace.segments[0].events
    found = cycles_of(account)
    assert found == {
        "useful": 64,
        "issue": weights.dispatched + 1,
        "weight stall": weights.drained - weights.dispatched - 1,
        "weight shift": 1,
        "drain": trace.cycles - matmul.issued,
    }
    assert matmul.start == weights.drained + 1


def test_edges_are_unused() -> None:
    account = ledger(simulate(program_of([MatMul(count_0=10, k=4, n=6)])))
    assert account.total()["useful"] == 10 * 4 * 6
    assert account.total()["unused"] == 10 * (64 - 24)


def test_a_kept_slot_pays_no_stall() -> None:
    again = [MatMul(count_0=10, k=8, n=8), MatMul(count_0=10, k=8, n=8, keep_weights=1)]
    assert cycles_of(ledger(simulate(program_of(again))))["useful"] == 20


def test_a_shift_longer_than_the_stream() -> None:
    """Tiles of 3 rows on 8 weight rows: each interval has 5 cycles of shift that nothing hides."""
    account = ledger(simulate(program_of([MatMul(count_0=3, k=8, n=8)] * 3)))
    assert cycles_of(account)["weight shift"] == 1 + 2 * 5


def test_input_is_awaited() -> None:
    load = Load(line=0, element_bytes=8, count_0=4, device_stride_0=8, line_stride_0=1, banks=1)
    trace = simulate(program_of([load, MatMul(count_0=4, k=8, n=8, banks=1)]))
    account = ledger(trace)
    assert_complete(trace, account)
    loaded, matmul = trace.segments[0].events
    # The first cycle dispatches the load; the shift hides under the awaited input but for one.
    assert account.input_cycles == loaded.drained
    found = cycles_of(account)
    assert found["issue"] == loaded.dispatched + 1
    assert found["input"] + found["weight shift"] + found["issue"] == matmul.start


def test_vector_works_then_its_result_is_on_its_way() -> None:
    """A MatMul that reads what a Requant of the one before it writes."""
    requant = Requant(
        count_0=8, channels=8, out_line=0, out_stride_0=1, out_banks=1, low=-8, high=7
    )
    program = program_of(
        [MatMul(count_0=8, k=8, n=8), requant, MatMul(entry=8, count_0=8, banks=1)]
    )
    trace = simulate(program)
    account = ledger(trace)
    assert_complete(trace, account)
    first, second, third = trace.segments[0].events
    assert third.start == second.drained
    found = cycles_of(account)
    assert found["vector"] == second.issued - second.start
    waiting = (second.start - first.issued) + (second.drained - second.issued)
    assert found["read-after-write"] == waiting
    assert account.read_after_write_cycles == third.start - first.issued


def test_accumulators_are_awaited() -> None:
    """A MatMul that overwrites entries which the vector unit still reads."""
    requant = Requant(
        count_0=8, channels=8, out_line=0, out_stride_0=1, out_banks=1, low=-8, high=7
    )
    trace = simulate(
        program_of([MatMul(count_0=8), requant, MatMul(count_0=8, line=2000, banks=1)])
    )
    account = ledger(trace)
    first, _, third = trace.segments[0].events
    assert cycles_of(account)["vector"] == third.start - first.issued
    assert account.read_after_write_cycles == 0


def test_a_full_queue_is_the_time_of_its_unit() -> None:
    """A MatMul that waits for nothing, but stands behind Requants that the vector unit's queue of
    one cannot take."""
    machine = load_machine("tiny-8", ["queue_depth=1"])
    requants = [
        Requant(count_0=8, channels=8, out_line=line, out_stride_0=1, out_banks=1, low=-8, high=7)
        for line in (0, 16, 32)
    ]
    program = program_of(
        [MatMul(count_0=8, k=8, n=8), *requants, MatMul(entry=8, count_0=8, line=2000, banks=1)],
        machine=machine,
    )
    trace = simulate(program)
    account = ledger(trace)
    assert_complete(trace, account)
    first, _, middle, last, second = trace.segments[0].events
    assert second.instruction.waits[second.instruction.unit.VECTOR] == 0
    found = cycles_of(account)
    # The cycles of the first, of the middle Requant, of the last and of the MatMul.
    assert first.issued < middle.dispatched < last.dispatched
    assert found["issue"] == 1 + 1 + (second.dispatched + 1 - last.dispatched)
    held = last.dispatched - first.issued - 1
    assert found["vector"] == held + (last.issued - second.issued)
    assert found["drain"] == trace.cycles - last.issued


def test_weights_that_come_ahead_are_weights() -> None:
    """A tile loaded into the unified buffer, from there into its slot, and used at once."""
    load = Load(line=40, element_bytes=8, count_0=8, device_stride_0=8, line_stride_0=1, banks=1)
    weights = LoadWeights(from_buffer=1, address=40, row_stride=1, k=8, n=8, banks=1)
    trace = simulate(program_of([load, weights, MatMul(count_0=4, k=8, n=8, line=2000, banks=2)]))
    account = ledger(trace)
    assert_complete(trace, account)
    loaded, filled, matmul = trace.segments[0].events
    assert filled.start >= loaded.drained
    found = cycles_of(account)
    assert "input" not in found
    assert account.input_cycles == 0
    assert found["issue"] == loaded.dispatched + 1
    assert found["weight stall"] == filled.drained - loaded.dispatched - 1
    assert found["weight shift"] == matmul.start - filled.drained


def test_without_a_matmul_time_belongs_to_the_busy_unit() -> None:
    load = Load(line=0, element_bytes=8, count_0=4, device_stride_0=8, line_stride_0=1, banks=1)
    trace = simulate(program_of([load]))
    (loaded,) = trace.segments[0].events
    busy = loaded.issued - loaded.start
    assert cycles_of(ledger(trace)) == {"input": busy, "drain": trace.cycles - busy}


def test_windows_partition_the_time_and_the_host_has_its_own() -> None:
    device: list[Instruction] = [
        MatMul(count_0=20, layer=0),
        MatMul(count_0=5, entry=20, layer=1),
        MatMul(count_0=5, entry=20, layer=1),
    ]
    host = HostSegment("softmax", b"", (), (), 1000, (2,))
    trace = simulate(program_of(device, host, layer_count=3))
    account = ledger(trace)
    assert_complete(trace, account)
    (begin, first), (second, end), (third, last) = account.windows
    assert (begin, second, third) == (0, first, end)
    assert first == trace.segments[0].events[0].drained
    assert last == trace.cycles
    assert account.layer_cycles(2) == {
        name: trace.segments[1].cycles if name == "host" else 0 for name in ENTRIES
    }


def test_instructions_of_no_layer_belong_to_the_one_before() -> None:
    events = (
        simulate(program_of([MatMul(), MatMul(layer=1), MatMul(), MatMul(layer=0)]))
        .segments[0]
        .events
    )
    assert owners_of(events) == [1, 1, 1, 0]


def test_an_empty_program() -> None:
    trace = simulate(program_of([]))
    assert_complete(trace, ledger(trace))
