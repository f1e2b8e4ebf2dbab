"""Program files edited by hand, checksum and all: refused for what is wrong with them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from compile_cases import graph_of, small_machine
from numeric_cases import convolution
from ridgeline.compiler import compile
from ridgeline.errors import RidgelineError
from ridgeline.machine.program import MAGIC, VERSION, program_from_bytes

Edit = Callable[[dict[str, Any]], None]


def edited(edit: Edit, extra: bytes = b"") -> bytes:
    """A small program's file after `edit` of its metadata, with a checksum that fits."""
    data = compile(graph_of(convolution("plain", "uint8", "s8", 7)), small_machine()).to_bytes()
    body = data[len(MAGIC) + 8 :]
    (length,) = struct.unpack_from("<I", body, 0)
    meta = json.loads(body[4 : 4 + length])
    edit(meta)
    text = json.dumps(meta).encode()
    body = struct.pack("<I", len(text)) + text + body[4 + length :] + extra
    return MAGIC + struct.pack("<II", VERSION, zlib.crc32(body)) + body


def setting(key: str, value: Any) -> Edit:
    return lambda meta: meta.__setitem__(key, value)


def within(*path: Any, value: Any) -> Edit:
    def edit(meta: dict[str, Any]) -> None:
        place: Any = meta
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return edit


EDITS: dict[str, tuple[Edit, str]] = {
    "vast device memory": (setting("device_bytes", 10**18), "bytes of device memory"),
    "negative device memory": (setting("device_bytes", -1), "-1 is no whole number"),
    "vast host memory": (setting("host_bytes", 10**18), "bytes of host memory"),
    "host memory too small": (setting("host_bytes", 1), "lies outside the 1 bytes of host memory"),
    "input elsewhere": (within("inputs", 0, "address", value=10**9), "lies outside"),
    "negative shape": (within("inputs", 0, "shape", 0, value=-3), "-3 is no whole number"),
    "unknown format": (within("inputs", 0, "dtype", value="int7"), "'int7'"),
    "unknown mode": (setting("numeric_mode", "guess"), "numeric mode 'guess'"),
    "layer that is not there": (within("segments", 0, "layers", 0, value=99), "layer 99 is named"),
    "blob sizes": (within("blobs", 0, value=5), "are accounted for"),
    "negative blob": (within("blobs", 0, value=-5), "-5 is no whole number"),
    "more instructions than there are": (
        lambda meta: meta["segments"][0]["layers"].append(0), "holds what no compiler writes",
    ),
    "fewer instructions than there are": (
        lambda meta: meta["segments"][0]["layers"].pop(), "holds what no compiler writes",
    ),
    "a fraction of a byte": (setting("host_bytes", 1.5), "1.5 is no whole number"),
    "nothing for a size": (setting("device_bytes", None), "None is no whole number"),
    "a number for a name": (setting("name", 5), "5 is no text"),
    "a list for a machine": (setting("machine", []), "holds what no compiler writes"),
    "axis beyond the shape": (within("inputs", 0, "packing", 0, value=9), "9 is no whole number"),
    "blocks of nothing": (within("inputs", 0, "packing", 2, value=0), "0 is no whole number"),
    "negative products": (within("layers", 0, "macs", value=-1), "-1 is no whole number"),
    "placed nowhere": (within("layers", 0, "placed", value="moon"), "placed on 'moon'"),
    "no layers": (setting("layers", []), "layer 0 is named"),
    "another kind of segment": (within("segments", 0, "kind", value="x"), "of kind 'x'"),
    "no machine": (lambda meta: meta.pop("machine"), "'machine'"),
    "text for a list": (setting("segments", "none"), "holds what no compiler writes"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_edited_file(name: str) -> None:
    edit, text = EDITS[name]
    with pytest.raises(RidgelineError) as caught:
        program_from_bytes(edited(edit), "p.rlp")
    assert str(caught.value).startswith("p.rlp: ")
    assert text in str(caught.value)
    assert "Compile the model again with" in str(caught.value)


def test_bytes_behind_the_end() -> None:
    with pytest.raises(RidgelineError, match="are accounted for"):
        program_from_bytes(edited(lambda meta: None, b"more"), "p.rlp")


def test_an_edit_that_changes_nothing_loads() -> None:
    program_from_bytes(edited(lambda meta: None))
