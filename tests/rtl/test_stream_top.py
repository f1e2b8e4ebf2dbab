"""The stream top behind the driver: the bits of execute over a link of bytes."""

from __future__ import annotations

import pytest

from bus_cases import TIMEOUT_SECONDS, chained, faults
from ridgeline.errors import RidgelineError
from ridgeline.rtl.bus.driver import Driver
from ridgeline.rtl.bus.simulated import StreamBoard
from ridgeline.rtl.bus.transports import StreamTransport
from rtl_cases import random_cases, square_machine

MACHINE = square_machine(4)


@pytest.fixture(scope="module")
def board() -> StreamBoard:
    return StreamBoard.built(MACHINE)


def test_random_programs(board: StreamBoard) -> None:
    cases = random_cases(MACHINE, range(16))
    assert faults(board, cases[:4], stalls=False) == []
    assert faults(board, cases, stalls=True) == []
    assert faults(board, list(map(chained, cases[:3])), stalls=True) == []


def test_a_program_that_is_stopped_leaves_the_accelerator_good(board: StreamBoard) -> None:
    (case, other) = random_cases(MACHINE, range(2))
    for cycles in range(20, 600, 120):
        with board.open(cycles) as served:
            driver = Driver(served)
            driver.load(case.program)
            driver.start(*driver.images[0])
            served.clock(cycles)
            driver.stop()
            driver.load(other.program)
            driver.run(other.inputs, TIMEOUT_SECONDS)
            assert driver.errors() == []
            assert served.broken_rules() == ""


def test_bytes_between_commands_are_passed_over(board: StreamBoard) -> None:
    with board.open() as served:
        served.port.write(bytes(7) + b"xyz")
        assert Driver(served).counters() != {}
        served.write_memory(served.memory_address + 5, b"")
        served.write_memory(served.memory_address + 5, b"12345")
        assert served.read_memory(served.memory_address + 4, 7) == b"\x0012345\x00"
        assert served.read_memory(served.memory_address, 0) == b""


def test_a_link_that_says_nothing_is_told() -> None:
    class Silent:
        def write(self, data: bytes, /) -> None:
            pass

        def read(self, size: int, /) -> bytes:
            return b"\x01"

    with pytest.raises(RidgelineError, match="1 of 4 bytes of an answer came over the byte link"):
        Driver(StreamTransport(Silent(), memory_bytes=1 << 20))
