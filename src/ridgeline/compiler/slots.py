"""Which slots hold what, over columns of wishes: the loops behind `builder`, in machine code."""

from __future__ import annotations

from typing import Any

from ridgeline.machine.compiled import compiled


@compiled
def take(wishes: Any, held: Any, order: Any, slots: Any, loaded: Any) -> None:
    """Give each wish the slot that holds it, or else the one used longest ago, which then does.

    wishes [n, width]; held [slots, width]: what each slot holds; order [slots]: the slots, the one
    used longest ago first; slots [n], loaded [n]: what is found, and whether it must be loaded.
    """
    for index in range(wishes.shape[0]):
        found = 0
        while found < order.size and not (held[found] == wishes[index]).all():
            found += 1
        loaded[index] = found == order.size
        if loaded[index]:
            found = order[0]
            held[found] = wishes[index]
        place = 0
        while order[place] != found:
            place += 1
        order[place:-1] = order[place + 1 :]
        order[-1] = found
        slots[index] = found


@compiled
def ring(sizes: Any, first: int, entries: int, firsts: Any) -> int:
    """Give each its entries, in turn around the memory from `first` on; where the next begin."""
    for index in range(sizes.size):
        if first + sizes[index] > entries:
            first = 0
        firsts[index] = first
        first += sizes[index]
    return first
