"""The register map: one table for decoding, documents, the C header and the driver."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ridgeline.machine.counters import CAUSES
from ridgeline.machine.description import Machine
from ridgeline.machine.loader import machine_to_dict
from ridgeline.rtl.shape import UNITS

IDENTITY = 0x474C4452
"""'RDGL', lowest byte first."""

MAP_VERSION = 0x0001_0000
"""Major version above, minor below; a driver reads maps of its own major version."""

READ, WRITE, CLEAR, START = "read", "read/write", "write 1 to clear", "write"
"""How software may use a register."""


@dataclass(frozen=True, slots=True)
class BitField:
    """Bits of a register: from `bit` on, `width` of them."""

    name: str
    bit: int
    width: int
    meaning: str


@dataclass(frozen=True, slots=True)
class Register:
    """Thirty-two bits at `offset`, in bytes."""

    name: str
    offset: int
    access: str
    meaning: str
    fields: tuple[BitField, ...] = ()


ERRORS = (
    BitField("read_fault", 0, 1, "the bus answered a read of data with an error"),
    BitField("write_fault", 1, 1, "the bus answered a write with an error"),
    BitField("fetch_fault", 2, 1, "the bus answered a read of instructions with an error"),
    BitField("unknown_instruction", 3, 1, "an opcode that this machine does not have"),
    BitField("no_halt", 4, 1, "the program ended without Halt"),
    BitField("bad_length", 5, 1, "PROGRAM_BYTES is 0 or no multiple of 16"),
    BitField("stopped", 6, 1, "CONTROL.stop ended the program"),
)
"""Why a program did not end with Halt; each ends it."""

_FIXED = (
    Register("IDENTITY", 0x000, READ, f"{IDENTITY:#010x}: 'RDGL'"),
    Register(
        "MAP_VERSION",
        0x004,
        READ,
        "of this table",
        (BitField("minor", 0, 16, "adds"), BitField("major", 16, 16, "changes")),
    ),
    Register("MACHINE", 0x008, READ, "digest of the machine file's fields that shape hardware"),
    Register(
        "ARRAY",
        0x00C,
        READ,
        "the array's shape",
        (BitField("rows", 0, 16, "k"), BitField("cols", 16, 16, "n")),
    ),
    Register(
        "BUFFER",
        0x010,
        READ,
        "the unified buffer's shape",
        (BitField("line_bytes", 0, 16, "of a line"), BitField("banks", 16, 16, "of all lines")),
    ),
    Register("BUFFER_LINES", 0x014, READ, "lines of the unified buffer"),
    Register("MEMORY_BYTES", 0x018, READ, "device memory that programs may address, modulo 2^32"),
    Register(
        "BUS",
        0x01C,
        READ,
        "the memory port's shape",
        (
            BitField("data_bytes", 0, 8, "of a beat; 0 where memory is a stream of requests"),
            BitField("burst_beats", 8, 8, "longest burst, less one"),
            BitField("address_bits", 24, 8, "of its addresses"),
        ),
    ),
    Register("COUNTERS", 0x020, READ, "performance counters that were built"),
    Register(
        "CONTROL",
        0x040,
        START,
        "bits of commands; each is 0 when read",
        (
            BitField("start", 0, 1, "run the program; not looked at while STATUS.busy"),
            BitField("stop", 1, 1, "end it: what is under way on the bus is waited for"),
        ),
    ),
    Register(
        "STATUS",
        0x044,
        READ,
        "what the accelerator does",
        (
            BitField("busy", 0, 1, "a program runs"),
            BitField("done", 1, 1, "the last program ended with Halt, and its stores are answered"),
            BitField("error", 2, 1, "the last program ended otherwise: see ERROR"),
        ),
    ),
    Register("ERROR", 0x048, CLEAR, "why it ended otherwise; cleared by a start", ERRORS),
    Register(
        "INTERRUPT_ENABLE",
        0x04C,
        WRITE,
        "which bits of INTERRUPT reach the pin",
        (BitField("done", 0, 1, "an end with Halt"), BitField("error", 1, 1, "another end")),
    ),
    Register(
        "INTERRUPT",
        0x050,
        CLEAR,
        "what has happened; the pin is high while an enabled bit is set",
        (BitField("done", 0, 1, "an end with Halt"), BitField("error", 1, 1, "another end")),
    ),
    Register("PROGRAM_LOW", 0x058, WRITE, "where the program's image lies: a multiple of 16"),
    Register("PROGRAM_HIGH", 0x05C, WRITE, "the same, bits from 32 on"),
    Register("PROGRAM_BYTES", 0x060, WRITE, "length of the image: a multiple of 16"),
    Register("BASE_LOW", 0x064, WRITE, "where device address 0 lies: a multiple of 4096"),
    Register("BASE_HIGH", 0x068, WRITE, "the same, bits from 32 on"),
)

COUNTERS: tuple[tuple[str, str], ...] = (
    ("cycles", "from the first instruction to the end"),
    ("memory wait", "a request waits for the memory bus: none where it is what the machine says"),
    *CAUSES,
)
"""Names and meanings of the performance counters, in the order of their registers."""

DRAINED_OFFSET = 0x080
"""Of the counts of drained instructions, one for each of UNITS."""

COUNTERS_OFFSET = 0x100
"""Of the performance counters, in the order of their table."""


def register_map(*, counts: bool) -> list[Register]:
    """Every register, by offset, with performance counters or without."""
    counters = COUNTERS if counts else ()
    drained = [
        Register(
            f"DRAINED_{unit.name}",
            DRAINED_OFFSET + 4 * place,
            READ,
            f"instructions that the {unit.name.lower()} unit has drained",
        )
        for place, unit in enumerate(UNITS)
    ]
    counting = [
        Register(counter_register(name), COUNTERS_OFFSET + 4 * place, READ, meaning)
        for place, (name, meaning) in enumerate(counters)
    ]
    return [*_FIXED, *drained, *counting]


def counter_register(name: str) -> str:
    """The register of a counter: 'weight stall' is COUNT_WEIGHT_STALL."""
    return "COUNT_" + name.upper().replace(" ", "_").replace("-", "_")


def machine_digest(machine: Machine) -> int:
    """What MACHINE holds: a program runs where this is the same as for its own machine.

    Energy, power, host, names and sources do not shape hardware and are left out.
    """
    shaping = ("clock_hz", "queue_depth", "array", "unified_buffer", "vector", "device_memory")
    fields = machine_to_dict(machine)
    text = json.dumps({key: fields[key] for key in shaping}, sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def offsets(registers: Sequence[Register]) -> dict[str, int]:
    """Where each register lies, by its name."""
    return {register.name: register.offset for register in registers}


def as_json(registers: Sequence[Register]) -> list[dict[str, Any]]:
    """The table as plain data."""
    return [asdict(register) for register in registers]


def as_markdown(registers: Sequence[Register]) -> str:
    """The table as Markdown, a line for each register and each of its fields."""
    lines = ["| offset | register | access | meaning |", "|---|---|---|---|"]
    for one in registers:
        lines.append(f"| `{one.offset:#05x}` | `{one.name}` | {one.access} | {one.meaning} |")
        for field in one.fields:
            high = field.bit + field.width - 1
            bits = f"{high}:{field.bit}" if field.width > 1 else str(field.bit)
            lines.append(f"| | `.{field.name}` | bits {bits} | {field.meaning} |")
    return "\n".join(lines) + "\n"


def as_c_header(registers: Sequence[Register]) -> str:
    """The table as a C header: an offset for each register, a place and a mask for each field."""
    lines = [
        "/* Registers of a Ridgeline accelerator, written by `ridgeline rtl`. */",
        "#ifndef RIDGELINE_REGISTERS_H",
        "#define RIDGELINE_REGISTERS_H",
        "",
        f"#define RIDGELINE_IDENTITY_VALUE {IDENTITY:#010x}u",
        f"#define RIDGELINE_MAP_VERSION_VALUE {MAP_VERSION:#010x}u",
    ]
    for one in registers:
        lines += ["", f"/* {one.meaning} ({one.access}) */"]
        lines.append(f"#define RIDGELINE_{one.name} {one.offset:#05x}u")
        for field in one.fields:
            name = f"RIDGELINE_{one.name}_{field.name.upper()}"
            mask = ((1 << field.width) - 1) << field.bit
            lines.append(f"#define {name}_BIT {field.bit}u /* {field.meaning} */")
            lines.append(f"#define {name}_MASK {mask:#010x}u")
    return "\n".join([*lines, "", "#endif", ""])
