"""A Program: everything needed to run a compiled model, as data and as a deterministic file."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.files import write_whole
from ridgeline.machine.code import Code
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import INSTRUCTIONS, Instruction
from ridgeline.machine.instructions.word import OPCODE_BITS, WORD_BITS
from ridgeline.machine.loader import machine_from_dict, machine_to_dict
from ridgeline.machine.packing import HostTensor, Packing
from ridgeline.machine.structure import integer, integers, structure_faults, text
from ridgeline.numerics.formats import FORMATS

Place = Literal["array", "vector", "move", "host"]
PLACES = ("array", "vector", "move", "host")
_NONSENSE = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What reading raises when a file's metadata are not what they should be."""

MAGIC = b"RIDGELINE\x00"
VERSION = 2
WORD_BYTES = WORD_BITS // 8


@dataclass(frozen=True, slots=True)
class Layer:
    """A line of the report: a node after fusion, where it runs and what it must do."""

    name: str
    op: str
    placed: Place
    macs: int
    vector_operations: int
    weight_bytes: int
    input_bytes: int
    output_bytes: int
    shape: tuple[int, ...]
    reason: str = ""
    origin: tuple[str, ...] = ()
    visits: int = 1
    """Times that it is computed, a part each time, between those of the layers around it."""


class DeviceSegment:
    """Instructions for the accelerator, in program order. A Halt that waits for all ends it.

    Made of objects or of columns; the other form follows when it is asked for.
    """

    def __init__(self, made: tuple[Instruction, ...] | Code) -> None:
        self._made = made

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        return self._made.instructions() if isinstance(self._made, Code) else self._made

    @cached_property
    def code(self) -> Code:
        """The columns of the instructions."""
        return self._made if isinstance(self._made, Code) else Code.of(self._made)


@dataclass(frozen=True, slots=True, eq=False)
class HostSegment:
    """Operators computed by the host: an ONNX model, what it reads and writes, what it costs."""

    name: str
    model: bytes
    inputs: tuple[HostTensor, ...]
    outputs: tuple[HostTensor, ...]
    operations: int
    layers: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return sum(t.bytes for t in self.inputs + self.outputs)


Segment = DeviceSegment | HostSegment


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Segments in order, the constants that device memory starts with, and the named tensors.

    `constants` lie at device address 0. `numeric_mode` names the requantisation.
    """

    name: str
    machine: Machine
    segments: tuple[Segment, ...]
    layers: tuple[Layer, ...]
    constants: npt.NDArray[np.uint8]
    device_bytes: int
    host_bytes: int
    inputs: tuple[HostTensor, ...]
    outputs: tuple[HostTensor, ...]
    numeric_mode: str = "onnxruntime"
    device_inputs: tuple[HostTensor, ...] = ()
    """Inputs that are placed straight into device memory (address is a device address)."""
    device_outputs: tuple[HostTensor, ...] = ()
    """Outputs that are read straight from device memory."""

    @property
    def instructions(self) -> list[Instruction]:
        """Every instruction of every device segment, in order."""
        return [i for s in self.segments if isinstance(s, DeviceSegment) for i in s.instructions]

    def to_bytes(self) -> bytes:
        """The file's contents: magic, version, checksum, then metadata and blobs. Deterministic."""
        blobs: list[bytes] = [self.constants.tobytes()]
        segments: list[dict[str, Any]] = []
        for segment in self.segments:
            segments.append(_segment_to_dict(segment, len(blobs)))
            blobs.append(_segment_blob(segment))
        meta: dict[str, Any] = {
            "name": self.name,
            "machine": machine_to_dict(self.machine),
            "numeric_mode": self.numeric_mode,
            "device_bytes": self.device_bytes,
            "host_bytes": self.host_bytes,
            "layers": [_layer_to_dict(layer) for layer in self.layers],
            "segments": segments,
            "blobs": [len(b) for b in blobs],
        }
        for key in ("inputs", "outputs", "device_inputs", "device_outputs"):
            meta[key] = [_tensor_to_dict(t) for t in getattr(self, key)]
        header = json.dumps(meta, sort_keys=True, separators=(",", ":")).encode()
        body = struct.pack("<I", len(header)) + header + b"".join(blobs)
        return MAGIC + struct.pack("<II", VERSION, zlib.crc32(body)) + body

    def save(self, path: Path | str) -> None:
        """Write the file, whole or not at all."""
        write_whole(path, self.to_bytes(), "Choose another path with --output")


def load_program(path: Path | str) -> Program:
    """Read a .rlp file. Raises RidgelineError when it is missing, cut short, damaged or foreign."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(len(MAGIC))
            if data == MAGIC:  # a device may never end
                data += stream.read()
    except OSError as error:
        raise RidgelineError(
            f"cannot be read ({error.strerror})",
            where=str(path),
            fix="Make one with: ridgeline compile MODEL.onnx --machine NAME -o P.rlp",
        ) from error
    return program_from_bytes(data, str(path))


def program_from_bytes(data: bytes, where: str = "program") -> Program:
    """The Program in a file's contents."""
    again = "Compile the model again with: ridgeline compile MODEL.onnx --machine NAME -o P.rlp"
    head = len(MAGIC) + 8
    if data[: len(MAGIC)] != MAGIC:
        raise RidgelineError("is not a Ridgeline program", where=where, fix=again)
    if len(data) < head + 4:
        raise RidgelineError("is cut short", where=where, fix=again)
    version, checksum = struct.unpack_from("<II", data, len(MAGIC))
    if version != VERSION:
        raise RidgelineError(
            f"has format version {version}; this Ridgeline reads {VERSION}", where=where, fix=again
        )
    body = data[head:]
    if zlib.crc32(body) != checksum:
        raise RidgelineError("is damaged or cut short (checksum differs)", where=where, fix=again)
    try:
        program = _from_body(body)
        faults = structure_faults(program)
    except RidgelineError as error:
        raise RidgelineError(
            f"holds what no compiler writes: {error}", where=where, fix=again
        ) from error
    except _NONSENSE as error:
        raise RidgelineError(
            f"holds what no compiler writes ({type(error).__name__}: {error})",
            where=where,
            fix=again,
        ) from error
    if faults:
        raise RidgelineError(f"holds what no compiler writes: {faults[0]}", where=where, fix=again)
    return program


def _from_body(body: bytes) -> Program:
    (length,) = struct.unpack_from("<I", body, 0)
    meta: dict[str, Any] = json.loads(body[4 : 4 + length])
    blobs: list[bytes] = []
    offset = 4 + length
    for size in integers(meta["blobs"]):
        blobs.append(body[offset : offset + size])
        offset += size
    if offset != len(body):
        raise ValueError(f"{len(body)} bytes, of which {offset} are accounted for")
    return Program(
        name=text(meta["name"]),
        machine=machine_from_dict(meta["machine"]),
        segments=tuple(_segment_from_dict(s, blobs) for s in meta["segments"]),
        layers=tuple(_layer_from_dict(layer) for layer in meta["layers"]),
        constants=np.frombuffer(blobs[0], np.uint8),
        device_bytes=integer(meta["device_bytes"]),
        host_bytes=integer(meta["host_bytes"]),
        inputs=tuple(_tensor_from_dict(t) for t in meta["inputs"]),
        outputs=tuple(_tensor_from_dict(t) for t in meta["outputs"]),
        numeric_mode=text(meta["numeric_mode"]),
        device_inputs=tuple(_tensor_from_dict(t) for t in meta["device_inputs"]),
        device_outputs=tuple(_tensor_from_dict(t) for t in meta["device_outputs"]),
    )


def _tensor_to_dict(t: HostTensor) -> dict[str, Any]:
    p = t.packing
    packing = [p.channel_axis, p.planes, p.block, list(p.pads), p.fill]
    return {
        "name": t.name,
        "shape": list(t.shape),
        "dtype": t.dtype.name,
        "address": t.address,
        "packing": packing,
    }


def _tensor_from_dict(d: Mapping[str, Any]) -> HostTensor:
    axis, planes, block, pads, fill = d["packing"]
    top, left, bottom, right = integers(pads)
    shape, dtype = integers(d["shape"]), FORMATS[text(d["dtype"])]
    axis = None if axis is None else integer(axis, most=len(shape) - 1)
    wide = 2 if axis is not None and dtype.bits == 16 else 1
    packing = Packing(
        axis,
        integer(planes, least=wide, most=wide),
        integer(block, least=1),
        (top, left, bottom, right),
        integer(fill, least=dtype.low, most=dtype.high) if any(pads) else 0,
    )
    if any(pads) and (axis is None or len(shape) < (4 if top or bottom else 3)):
        raise ValueError(f"tensor of shape {list(shape)} with padding {list(pads)}")
    return HostTensor(text(d["name"]), shape, dtype, integer(d["address"]), packing)


def _layer_to_dict(layer: Layer) -> dict[str, Any]:
    return {name: getattr(layer, name) for name in Layer.__slots__}


def _layer_from_dict(d: Mapping[str, Any]) -> Layer:
    if d["placed"] not in PLACES:
        raise ValueError(f"a layer is placed on '{d['placed']}'")
    counted = ("macs", "vector_operations", "weight_bytes", "input_bytes", "output_bytes")
    return Layer(
        name=text(d["name"]),
        op=text(d["op"]),
        placed=d["placed"],
        shape=integers(d["shape"]),
        reason=text(d["reason"]),
        origin=tuple(text(o) for o in d["origin"]),
        visits=integer(d.get("visits", 1), least=1),
        **{key: integer(d[key]) for key in counted},
    )


def _segment_to_dict(segment: Segment, blob: int) -> dict[str, Any]:
    if isinstance(segment, DeviceSegment):
        layers = [i.layer for i in segment.instructions]
        return {"kind": "device", "blob": blob, "layers": layers}
    return {
        "kind": "host",
        "blob": blob,
        "name": segment.name,
        "inputs": [_tensor_to_dict(t) for t in segment.inputs],
        "outputs": [_tensor_to_dict(t) for t in segment.outputs],
        "operations": segment.operations,
        "layers": list(segment.layers),
    }


def _segment_blob(segment: Segment) -> bytes:
    if isinstance(segment, HostSegment):
        return segment.model
    return b"".join(i.encode().to_bytes(WORD_BYTES, "little") for i in segment.instructions)


def _segment_from_dict(d: Mapping[str, Any], blobs: list[bytes]) -> Segment:
    blob = blobs[integer(d["blob"])]
    if d["kind"] == "device":
        return DeviceSegment(tuple(_decode_all(blob, integers(d["layers"], least=-1))))
    if d["kind"] != "host":
        raise ValueError(f"a segment of kind '{d['kind']}'")
    return HostSegment(
        text(d["name"]),
        blob,
        tuple(_tensor_from_dict(t) for t in d["inputs"]),
        tuple(_tensor_from_dict(t) for t in d["outputs"]),
        integer(d["operations"]),
        integers(d["layers"]),
    )


def _decode_all(blob: bytes, layers: Sequence[int]) -> list[Instruction]:
    if len(layers) * WORD_BYTES != len(blob):
        raise ValueError(f"{len(blob)} bytes for {len(layers)} instructions")
    decoded: list[Instruction] = []
    for index, layer in enumerate(layers):
        word = int.from_bytes(blob[index * WORD_BYTES : (index + 1) * WORD_BYTES], "little")
        kind = INSTRUCTIONS[word & ((1 << OPCODE_BITS) - 1)]
        decoded.append(kind.decode(word, layer))
    return decoded
