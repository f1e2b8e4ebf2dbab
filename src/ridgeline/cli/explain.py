"""`ridgeline explain`: which side of a chip's ridge common operations lie on, and why."""

from __future__ import annotations

import json
from dataclasses import asdict

from ridgeline.chips.loader import load_chip
from ridgeline.cli.outputs import say
from ridgeline.cli.show import terminal_width
from ridgeline.predict.card import card, default_precision
from ridgeline.render import card as render


def show_card(chip_name: str, precision: str | None, as_json: bool) -> None:
    """Print the card of a chip, or JSON."""
    chip = load_chip(chip_name)
    places = card(chip, precision)
    chosen = precision or default_precision(chip)
    if not as_json:
        say(render.card(chip, chosen, places, terminal_width()))
        return
    rows = [
        {
            "operation": one.operation.family,
            "case": one.operation.case,
            "operations": one.operation.operations,
            "elements": {t.name: t.elements for t in one.operation.tensors},
            "operations_per_byte": one.intensity,
            "ridge_operations_per_byte": one.ridge,
            "side": one.side,
            "attainable": one.attainable,
            "least_seconds": one.seconds,
            "reason": one.reason,
        }
        for one in places
    ]
    memory = chip.main_memory
    data = {"chip": chip.name, "precision": chosen, "memory": asdict(memory) if memory else None}
    say(json.dumps({**data, "operations": rows}, indent=2))
