"""How values lie on the device, as placement decides it node by node."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ridgeline.ir import Value


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """How a value lies on the device: its channel axis, and the value whose bytes it shares.

    `flattened`: it is [N, C*spatial] over the bytes of `root` [N, C, spatial], channels innermost.
    """

    root: Value
    channel_axis: int
    flattened: bool = False
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    fill: int = 0
    """Padding (above, left, below, right) of this value that the host adds as it packs it."""
    moved: bool = False
    """It is made by Loads that rearrange what lies in device memory."""


class Stores(dict[int, Storage]):
    """Storage by id(value).

    `wanted` is the channel axis that the first reader of a value asks for, by id(value);
    `copied` are the nodes, by id, whose result must not share its input's bytes.
    """

    def __init__(
        self, wanted: Mapping[int, int] | None = None, copied: Collection[int] = ()
    ) -> None:
        super().__init__()
        self.wanted = wanted or {}
        self.copied = copied


def storage_of(value: Value, storage: Stores, wanted_axis: int) -> Storage | None:
    """How a value lies, or will lie when it comes from the host; None when its channels lie else.

    A value not yet stored (from the host) takes the layout of its first user.
    """
    found = storage.get(id(value))
    if found is None:
        found = storage[id(value)] = Storage(value, wanted_axis)
    if found.flattened or found.channel_axis != wanted_axis:
        return None
    return found


def lies_otherwise(value: Value) -> str:
    return f"'{value.name}' does not lie with these channels innermost: it would need a transpose"
