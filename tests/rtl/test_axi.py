"""The AXI top behind its driver: the bits of execute, AXI's rules kept, faults told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bus_cases import TIMEOUT_SECONDS, chained, faults
from ridgeline.errors import RidgelineError
from ridgeline.machine.counters import CAUSES
from ridgeline.machine.instructions import Store
from ridgeline.machine.simulate import simulate
from ridgeline.rtl.bus import axi_top, read_master, write_master
from ridgeline.rtl.bus.driver import Driver
from ridgeline.rtl.bus.image import image
from ridgeline.rtl.bus.register_map import offsets, register_map
from ridgeline.rtl.bus.shape import BusShape
from ridgeline.rtl.bus.simulated import Board, ServedAxi
from rtl_cases import random_cases, square_machine

MACHINE = square_machine(4)
NARROW = square_machine(4, "device_memory.latency_cycles=0", "unified_buffer.banks=2")
OFFSETS = offsets(register_map(counts=True))
PROGRAMS = 100


@pytest.fixture(scope="module")
def board() -> Board:
    return Board.built(MACHINE, BusShape(64))


@pytest.fixture
def served(board: Board) -> Iterator[ServedAxi]:
    with board.open() as one:
        yield one


def test_random_programs(board: Board) -> None:
    cases = random_cases(MACHINE, range(PROGRAMS))
    assert faults(board, cases[:20], stalls=False) == []
    assert faults(board, cases, stalls=True) == []
    assert faults(board, list(map(chained, cases[:12])), stalls=True) == []


def test_a_bus_narrower_than_a_line_and_short_bursts() -> None:
    bus = BusShape(16, address_bits=40, burst_beats=3)
    narrow = Board.built(NARROW, bus, memory_address=0xAB_CDEF_0000 + 0x40)
    assert faults(narrow, random_cases(NARROW, range(40)), stalls=True) == []


def test_the_checks_find_a_master_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the tests above: bursts over pages, and stores that count before they are answered."""
    for module in (read_master, write_master):
        monkeypatch.setattr(module, "PAGE_BYTES", 1 << 30)
    engine = axi_top.Engine
    monkeypatch.setattr(
        axi_top,
        "Engine",
        lambda machine, bits, **given: engine(machine, bits, **given | {"writes_answered": False}),
    )
    wrong = Board.built(MACHINE, BusShape(64))
    cases = random_cases(MACHINE, range(PROGRAMS))
    found = faults(wrong, [*cases, *map(chained, cases[:12])], stalls=True)
    assert any("crosses a page" in line for line in found)
    assert any("output" in line for line in found)


def test_programs_one_after_the_other(served: ServedAxi) -> None:
    driver = Driver(served)
    for case in random_cases(MACHINE, range(5)):
        driver.load(case.program)
        driver.run(case.inputs, TIMEOUT_SECONDS)
        counters = driver.counters()
        cycles = counters["cycles"]
        assert cycles >= simulate(case.program).cycles
        for unit in ("array", "load", "store", "weights", "vector"):
            assert sum(counters[n] for n, _ in CAUSES if n.startswith(f"{unit} ")) == cycles
    assert served.broken_rules() == ""


def test_an_end_interrupts_where_that_is_enabled(served: ServedAxi) -> None:
    driver = Driver(served)
    served.write_memory(served.memory_address, image(()))
    for enabled in (0, 1):
        served.write32(OFFSETS["INTERRUPT_ENABLE"], enabled)
        driver.start(served.memory_address, len(image(())))
        assert served.clock(500) == bool(enabled)
        assert served.read32(OFFSETS["INTERRUPT"]) == 1
        served.write32(OFFSETS["INTERRUPT"], 1)
        assert not served.clock(1)


def test_what_a_program_may_die_of_is_told(served: ServedAxi) -> None:
    driver = Driver(served)
    place = served.memory_address
    served.write32(OFFSETS["BASE_LOW"], place)
    store = Store(element_bytes=4, count_0=4, line_stride_0=1, device_stride_0=4, banks=1)
    unknown = (15).to_bytes(16, "little")
    cases = [
        (unknown, len(unknown), "an opcode that this machine does not have"),
        (image((store,)), len(image((store,))) - 16, "the program ended without Halt"),
        (image(()), 0, "PROGRAM_BYTES is 0 or no multiple of 16"),
        (image(()), 8, "PROGRAM_BYTES is 0 or no multiple of 16"),
    ]
    for data, size, reason in cases:
        served.write_memory(place, data)
        driver.start(place, size)
        with pytest.raises(RidgelineError, match=f"the program failed: {reason}"):
            driver.wait(TIMEOUT_SECONDS)
    assert served.read32(OFFSETS["INTERRUPT"]) == 2
    served.write_memory(place, image((store,)))
    driver.start(place, len(image((store,))))
    driver.wait(TIMEOUT_SECONDS)
    assert driver.errors() == []


@pytest.mark.parametrize("seed", [None, 3])
def test_faults_of_the_bus_end_a_program(board: Board, seed: int | None) -> None:
    (case,) = random_cases(MACHINE, range(1))
    page = 4096
    code = -(-case.program.device_bytes // page) * page
    for first, size, kind in ((0, code, "(read of data|write)"), (code, page, "read of instr")):
        with board.open(seed) as served:
            driver = Driver(served)
            driver.load(case.program)
            served.refuse(served.memory_address + first, size)
            with pytest.raises(RidgelineError, match=f"the bus answered a {kind}"):
                driver.run(case.inputs, TIMEOUT_SECONDS)
            assert served.broken_rules() == ""


def test_a_program_that_is_stopped_leaves_the_accelerator_good(board: Board) -> None:
    (case, other) = random_cases(MACHINE, range(2))
    for cycles in range(20, 600, 60):
        with board.open(cycles) as served:
            driver = Driver(served)
            driver.load(case.program)
            driver.start(*driver.images[0])
            served.clock(cycles)
            driver.stop()
            assert driver.errors() in ([], ["CONTROL.stop ended the program"])
            driver.load(other.program)
            driver.run(other.inputs, TIMEOUT_SECONDS)
            assert driver.errors() == []
            assert served.broken_rules() == ""


def test_the_driver_refuses_what_cannot_run(served: ServedAxi) -> None:
    (case,) = random_cases(MACHINE, range(1))
    driver = Driver(served)
    with pytest.raises(RidgelineError, match=r"no program is loaded. Call load"):
        driver.run(case.inputs)
    (foreign,) = random_cases(NARROW, range(1))
    with pytest.raises(RidgelineError, match="was generated from another machine file"):
        driver.load(foreign.program)
    served.memory_bytes = 4096
    with pytest.raises(RidgelineError, match="bytes of memory, and the transport has 4,096"):
        driver.load(case.program)


def test_the_driver_wants_an_accelerator() -> None:
    class Nothing:
        memory_address = memory_bytes = 0

        def __init__(self, *words: int) -> None:
            self.words = words

        def read32(self, offset: int) -> int:
            return self.words[offset // 4]

    with pytest.raises(RidgelineError, match="its first register reads 0xffffffff"):
        Driver(Nothing(0xFFFFFFFF))  # pyright: ignore[reportArgumentType]
    identity = 0x474C4452
    with pytest.raises(RidgelineError, match="register map is version 7, and this driver knows 1"):
        Driver(Nothing(identity, 7 << 16))  # pyright: ignore[reportArgumentType]


def test_a_program_that_hangs_is_told(served: ServedAxi) -> None:
    driver = Driver(served)
    store = Store(
        element_bytes=4, count_0=4, line_stride_0=1, device_stride_0=4, banks=1,
        waits=(0, 9, 0, 0, 0, 0),
    )  # fmt: skip
    served.write_memory(served.memory_address, image((store,)))
    driver.start(served.memory_address, len(image((store,))))
    with pytest.raises(RidgelineError, match=r"did not end within 0.2 seconds. Call stop\(\)"):
        driver.wait(0.2)
    driver.stop()
    assert driver.errors() == ["CONTROL.stop ended the program"]


def test_memory_that_never_answers_is_told(served: ServedAxi) -> None:
    driver = Driver(served)
    served.write_memory(served.memory_address, image(()))
    driver.start(served.memory_address, len(image(())))
    served.stall_memory()
    with pytest.raises(RidgelineError, match=r"memory did not answer within 0.1 seconds. Check"):
        driver.stop(0.1)
