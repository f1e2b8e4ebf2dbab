"""Damage that knows a file's structure: protobuf fields, JSON and TOML values, zip members."""

from __future__ import annotations

import contextlib
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

INTEGERS = (0, 1, -1, 2, 3, 7, 127, 128, 255, 256, 4096, 65535, 65536, 1 << 20, 1 << 28, 1 << 30)
LARGE = ((1 << 31) - 1, 1 << 31, 1 << 33, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-30, 1e30, 3.4e38, float("nan"), float("inf"), -1e300)
TEXTS = (
    "",
    "x",
    "../secret.bin",
    "/etc/passwd",
    "link.bin",
    "data.bin",
    "a\nb",
    "\x1b[31m",
    "\u202e",
    "é" * 300,
    "%s{0}",
    "ai.onnx",
    "com.microsoft",
    "ai.onnx.ml",
    "-1",
    "NaN",
)
OPERATORS = (
    "If",
    "Loop",
    "Scan",
    "Constant",
    "ConstantOfShape",
    "Expand",
    "Tile",
    "Pad",
    "Reshape",
    "Range",
    "Resize",
    "Concat",
    "Split",
    "Slice",
    "Conv",
    "ConvTranspose",
    "MatMul",
    "Gemm",
    "Einsum",
    "QuantizeLinear",
    "DequantizeLinear",
    "QLinearConv",
    "MaxPool",
    "AveragePool",
    "Gather",
    "Scatter",
    "OneHot",
    "TopK",
    "NonZero",
    "Unique",
    "Shape",
    "Size",
    "Cast",
    "Identity",
    "Transpose",
    "Where",
    "BatchNormalization",
    "LSTM",
    "GRU",
    "Softmax",
    "Clip",
    "Relu",
    "Add",
    "Mul",
    "SequenceEmpty",
    "Optional",
    "StringConcat",
    "EyeLike",
    "RandomNormal",
    "Bernoulli",
    "CumSum",
    "SpaceToDepth",
    "DepthToSpace",
    "Upsample",
    "Compress",
)


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    """The data with some bytes flipped, cut, repeated or put in."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(made) + 1)
        how = chance.randrange(5)
        if how == 0:
            made[at : at + 1] = bytes([chance.randrange(256)])
        elif how == 1:
            del made[at : at + chance.choice((1, 2, 8, 100))]
        elif how == 2:
            made[at:at] = chance.randbytes(chance.choice((1, 4, 9)))
        elif how == 3:
            end = at + chance.choice((4, 16, 64))
            made[at:at] = made[at:end]
        elif made:
            place = chance.randrange(len(made))
            made[place] ^= 1 << chance.randrange(8)
    return bytes(made)


def integer(chance: random.Random, old: int = 0) -> int:
    return chance.choice(
        (chance.choice(INTEGERS), chance.choice(LARGE), old + 1, old - 1, -old, old * 2)
    )


Field = tuple[Any, FieldDescriptor]


def _fields(message: Any) -> Iterator[Field]:
    """Every field that is set, at any depth."""
    stack = [message]
    while stack:
        for field, value in (top := stack.pop()).ListFields():
            yield top, field
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                stack.extend(value if field.is_repeated else (value,))


def mutate_proto(message: Any, chance: random.Random) -> None:
    """Change one to six fields of a protobuf message in place."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        fields = list(_fields(message))
        if not fields:
            return
        owner, field = chance.choice(fields)
        # protobuf refuses what the field cannot hold; another mutation will do
        with contextlib.suppress(ValueError, TypeError):
            _mutate_field(owner, field, fields, chance)


def _mutate_field(
    owner: Any, field: FieldDescriptor, fields: list[Field], chance: random.Random
) -> None:
    value = getattr(owner, field.name)
    if chance.random() < 0.08:
        owner.ClearField(field.name)
    elif field.is_repeated:
        _mutate_repeated(value, field, fields, chance)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        others = [getattr(o, f.name) for o, f in fields if f.message_type is field.message_type]
        single = [o for o in others if hasattr(o, "CopyFrom")]
        copy = type(value)()
        copy.CopyFrom(chance.choice(single))
        value.CopyFrom(copy)
    else:
        setattr(owner, field.name, _scalar(value, field, fields, chance))


def _mutate_repeated(
    values: Any, field: FieldDescriptor, fields: list[Field], chance: random.Random
) -> None:
    how = chance.randrange(5)
    at = chance.randrange(len(values))
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        if how == 0:
            del values[at]
        elif how == 1:
            values.append(values[at])
        elif how == 2 and len(values) > 1:
            values[at] = values[at - 1]
        else:
            values[at] = _scalar(values[at], field, fields, chance)
    elif how == 0:
        del values[at]
    elif how == 1:
        values.add().CopyFrom(values[at])
    elif how == 2:
        others = [(o, f) for o, f in fields if f.message_type is field.message_type]
        owner, other = chance.choice(others)
        found = getattr(owner, other.name)
        found = chance.choice(found) if other.is_repeated else found
        copy = type(values[at])()
        copy.CopyFrom(found)
        values.add().CopyFrom(copy)
    elif how == 3 and len(values) > 1:
        copy = type(values[at])()
        copy.CopyFrom(values[at])
        values[at].CopyFrom(values[at - 1])
        values[at - 1].CopyFrom(copy)
    else:
        mutate_proto(values[at], chance)


def _scalar(value: Any, field: FieldDescriptor, fields: list[Field], chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return integer(chance, value)
    if isinstance(value, float):
        return chance.choice(FLOATS)
    if isinstance(value, bytes):
        return _stored(value, chance)
    if field.name == "op_type":
        return chance.choice(OPERATORS)
    same = [getattr(o, f.name) for o, f in fields if f.type == field.type]
    flat = [t for v in same for t in ([v] if isinstance(v, str) else v)]
    return chance.choice((chance.choice(flat), chance.choice(TEXTS)))


def _stored(value: bytes, chance: random.Random) -> bytes:
    """Raw data with one stored number replaced, or damaged."""
    if len(value) >= 8 and len(value) % 8 == 0 and chance.random() < 0.6:
        at = chance.randrange(len(value) // 8) * 8
        number = struct.pack("<q", max(min(integer(chance), (1 << 63) - 1), -(1 << 63)))
        return value[:at] + number + value[at + 8 :]
    if len(value) >= 4 and len(value) % 4 == 0 and chance.random() < 0.6:
        at = chance.randrange(len(value) // 4) * 4
        return value[:at] + struct.pack("<f", _single(chance)) + value[at + 4 :]
    return mutate_bytes(value, chance)


def _single(chance: random.Random) -> float:
    number = chance.choice(FLOATS)
    return number if abs(number) < 3.4e38 or number != number else float("inf")


def mutate_json(value: Any, chance: random.Random) -> Any:
    """The value with one place in it changed."""
    if isinstance(value, dict) and value and chance.random() < 0.95:
        key = chance.choice(list(value))
        if chance.random() < 0.05:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: mutate_json(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.95:
        at = chance.randrange(len(value))
        how = chance.randrange(12)
        if how == 0:
            return value[:at] + value[at + 1 :]
        if how == 1:
            return [*value, value[at]]
        return [*value[:at], mutate_json(value[at], chance), *value[at + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.8:
        return integer(chance, value)
    return chance.choice(
        (None, True, 0, -1, 1.5, "", chance.choice(TEXTS), [], {}, [[]], chance.choice(LARGE))
    )


def mutate_program(data: bytes, chance: random.Random) -> bytes:
    """A .rlp with its metadata, constants or instructions changed, and a right checksum."""
    if chance.random() < 0.1:
        return mutate_bytes(data, chance)
    head = data.index(b"\x00") + 1
    (length,) = struct.unpack_from("<I", data, head + 8)
    start = head + 12
    meta = json.loads(data[start : start + length])
    blobs: list[bytes] = []
    offset = start + length
    for size in meta["blobs"]:
        blobs.append(data[offset : offset + size])
        offset += size
    for _ in range(chance.choice((1, 1, 2, 3))):
        if chance.random() < 0.6:
            changed = mutate_json(meta, chance)
            meta = changed if isinstance(changed, dict) else meta
        else:
            at = chance.randrange(len(blobs))
            blobs[at] = _flipped(blobs[at], chance)
    text = json.dumps(meta, sort_keys=True, separators=(",", ":")).encode()
    body = struct.pack("<I", len(text)) + text + b"".join(blobs)
    return data[: head + 4] + struct.pack("<I", zlib.crc32(body)) + body


def _flipped(data: bytes, chance: random.Random) -> bytes:
    """The data of the same length with bits or bytes changed."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        if made:
            at = chance.randrange(len(made))
            made[at] = chance.choice((made[at] ^ (1 << chance.randrange(8)), 0, 255))
    return bytes(made)


def mutate_toml(text: str, chance: random.Random) -> str:
    """A machine file with lines dropped, repeated or with other values."""
    lines = text.splitlines()
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(lines))
        how = chance.randrange(6)
        if how == 0:
            del lines[at]
        elif how == 1:
            lines.insert(at, chance.choice(lines))
        elif how == 2:
            lines[at] = mutate_bytes(lines[at].encode(), chance).decode(errors="replace")
        else:
            value = chance.choice(
                (
                    str(integer(chance)),
                    repr(chance.choice(FLOATS)),
                    json.dumps(chance.choice(TEXTS)),
                    "[]",
                    "{}",
                    "[" * chance.choice((1, 200, 5000)),
                    "1" * chance.choice((20, 5000)),
                    "true",
                    "1979-05-27",
                )
            )
            lines[at] = f"{lines[at].partition('=')[0]}= {value}"
        if not lines:
            return ""
    return "\n".join(lines) + "\n"


Npy = Callable[[random.Random], bytes]


def mutate_npz(data: bytes, chance: random.Random) -> bytes:
    """An .npz with members damaged, renamed, or with headers that promise something else."""
    if chance.random() < 0.4:
        return mutate_bytes(data, chance)
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if chance.random() < 0.7:
                content = _header(content, chance)
            kept = name if chance.random() < 0.9 else chance.choice(TEXTS[1:]) + ".npy"
            method = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            new.writestr(zipfile.ZipInfo(kept), content, method)
    return stream.getvalue()


def _header(content: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return mutate_bytes(content, chance)
    (length,) = struct.unpack_from("<H", content, 8)
    kind = chance.choice(("<f4", "|u1", "<i8", "|O", "<U5", "<c16", "<f8", "|V9", "<M8[s]", "|b1"))
    shape = tuple(
        chance.choice((*INTEGERS, *LARGE[:5])) for _ in range(chance.choice((0, 1, 2, 4, 4, 33)))
    )
    text = repr({"descr": kind, "fortran_order": chance.random() < 0.2, "shape": shape})
    made = text.encode().ljust(length - 1)[: max(length - 1, 0)] + b"\n"
    return content[:10] + made + content[10 + length :]
