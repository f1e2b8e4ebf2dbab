"""`ridgeline scoreboard`: published figures of whole models beside what is predicted of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ridgeline.cli.outputs import say
from ridgeline.cli.show import terminal_width
from ridgeline.predict.scoreboard import Score, scores, summaries
from ridgeline.render import scoreboard as render


def show_scoreboard(full: bool, as_json: bool) -> None:
    """Print errors by class of chips, with `full` every figure, or JSON of all."""
    found = scores()
    summed = summaries(found)
    if not as_json:
        say(render.scoreboard(found, summed, full, terminal_width()))
        return
    say(
        json.dumps(
            {
                "classes": [asdict(one) for one in summed],
                "figures": [_row(one) for one in found],
            },
            indent=2,
        )
    )


def _row(one: Score) -> dict[str, Any]:
    figure = one.figure
    return {
        "model": figure.model,
        "chip": figure.chip,
        "class": figure.group or None,
        "software": figure.software or None,
        "precision": figure.precision or None,
        "metric": figure.metric,
        "value": figure.value,
        "unit": figure.unit,
        "kind": figure.kind,
        "source": figure.source,
        "note": figure.note or None,
        "refused": one.refused or None,
        "measured_seconds": figure.seconds,
        "predicted_seconds": one.seconds,
        "low_seconds": one.low_seconds,
        "high_seconds": one.high_seconds,
        "inside": one.inside if one.scored else None,
    }
