"""Whether a program's parts fit each other: memories, tensors, layers, segments.

A file with a right checksum may still be nonsense; this finds out before memories are made of the
sizes that it names. `check` proves the instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from ridgeline.machine.instructions.state import GRANULE_BYTES

if TYPE_CHECKING:
    from ridgeline.machine.program import HostTensor, Program, Segment

MODES = ("onnxruntime",)
MOST = 1 << 62
UNNAMED_BYTES = 1 << 26


def integer(value: Any, least: int = 0, most: int = MOST) -> int:
    """`value` when it is a whole number in [least, most]. Raises ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{value!r:.40} is no whole number from {least} to {most}")
    return value


def integers(values: Any, least: int = 0) -> tuple[int, ...]:
    """Each of `values` as a whole number of at least `least`. Raises ValueError."""
    if not isinstance(values, list):
        raise ValueError(f"{values!r:.40} is no list")
    return tuple(integer(v, least) for v in cast("list[Any]", values))


def text(value: Any) -> str:
    """`value` when it is text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no text")
    return value


def structure_faults(program: Program) -> list[str]:
    """What does not fit, in words; empty for a program as a compiler writes it."""
    most = program.machine.device_memory.bytes
    faults: list[str] = []
    if program.numeric_mode not in MODES:
        faults.append(f"its numeric mode '{program.numeric_mode}' is not one of {', '.join(MODES)}")
    if not program.constants.size <= program.device_bytes <= most:
        faults.append(
            f"it uses {program.device_bytes} bytes of device memory, with"
            f" {program.constants.size} of constants; the machine has {most}"
        )
    host = [*program.inputs, *program.outputs]
    for segment in program.segments:
        host += _tensors(segment)
    faults += _tensor_faults(host, program.host_bytes, "host")
    on_device = [*program.device_inputs, *program.device_outputs]
    faults += _tensor_faults(on_device, program.device_bytes, "device")
    # Host memory holds tensors; a program without any, as made by hand, may have a little besides.
    room = max(sum(t.bytes + GRANULE_BYTES for t in host), UNNAMED_BYTES)
    if not faults and not 0 <= program.host_bytes <= room:
        faults.append(f"it uses {program.host_bytes} bytes of host memory; its tensors need {room}")
    return faults + _layer_faults(program)


def _tensors(segment: Segment) -> list[HostTensor]:
    from ridgeline.machine.program import HostSegment

    return [*segment.inputs, *segment.outputs] if isinstance(segment, HostSegment) else []


def _tensor_faults(tensors: Iterable[HostTensor], size_bytes: int, space: str) -> list[str]:
    return [
        f"tensor '{t.name}' at {t.address} with {t.bytes} bytes lies outside the {size_bytes} bytes"
        f" of {space} memory"
        for t in tensors
        if t.address < 0 or min(t.shape, default=0) < 0 or t.address + t.bytes > size_bytes
    ]


def _layer_faults(program: Program) -> list[str]:
    from ridgeline.machine.program import HostSegment

    named: set[int] = set()
    for segment in program.segments:
        host = isinstance(segment, HostSegment)
        named |= set(segment.layers if host else segment.code.layers.tolist())
    wrong = [n for n in named if not -1 <= n < len(program.layers)]
    return [f"layer {n} is named, of {len(program.layers)}" for n in wrong]
