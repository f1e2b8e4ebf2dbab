"""`ridgeline diff`: two JSON reports compared, with an exit code for continuous integration."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Any, cast

from ridgeline.cli.outputs import note, say
from ridgeline.cli.show import terminal_width
from ridgeline.errors import RidgelineError
from ridgeline.files import read_whole
from ridgeline.render.comparison import render
from ridgeline.render.json import SCHEMA
from ridgeline.results.comparison import compare, read_conditions

WRITE_ONE = "Write one with: ridgeline run MODEL.onnx --json FILE"
MAX_REPORT_BYTES = 1 << 28
BEYOND = 1
"""Exit code when a condition holds; a fault is 2."""


def diff(before: Path, after: Path, fail_if: tuple[str, ...]) -> int:
    """Print what changed; the exit code: 1 if a condition holds, else 0."""
    conditions = read_conditions(fail_if)
    comparison = compare(read_report(before), read_report(after))
    beyond = [condition.text for condition in conditions if condition.holds(comparison)]
    say(render(comparison, terminal_width()))
    for text in beyond:
        note(f"failed: {text}")
    return BEYOND if beyond else 0


def read_report(path: Path) -> dict[str, Any]:
    """The report in this file. Raises RidgelineError if it is none that can be compared."""
    try:
        data: Any = json.loads(
            read_whole(path, MAX_REPORT_BYTES).decode(),
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_finite,
        )
    except OSError as error:
        raise RidgelineError(
            f"cannot be read ({error.strerror})", where=str(path), fix=WRITE_ONE
        ) from error
    except (ValueError, RecursionError) as error:
        raise RidgelineError("is not JSON", where=str(path), fix=WRITE_ONE) from error
    found = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if found.get("schema") != SCHEMA:
        raise RidgelineError(
            f"is not a report of the schema {SCHEMA}", where=str(path), fix=WRITE_ONE
        )
    fault = _fault(found)
    if fault:
        raise RidgelineError(f"is a damaged report: {fault}", where=str(path), fix=WRITE_ONE)
    return found


def _whole(text: str) -> int:
    """A number that also a float can hold."""
    _finite(text)
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


_KINDS: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "machine": dict,
    "batch": int,
    "cycles": int,
    "total": dict,
    "layers": list,
}
_LAYER: dict[str, type | tuple[type, ...]] = {
    "layer": str,
    "placed": str,
    "cycles": (int, float),
    "ledger_cycles": dict,
}


def _fault(report: dict[str, Any]) -> str:
    """What is wrong with those parts of a report that a comparison reads; "" if nothing."""
    for key, kind in _KINDS.items():
        if not isinstance(report.get(key), kind):
            return f"'{key}' is missing or of the wrong kind"
    if not isinstance(report["machine"].get("name"), str):
        return "'machine.name' is missing or of the wrong kind"
    for place, layer in [("total", report["total"]), *enumerate(report["layers"])]:
        for key, kind in _LAYER.items():
            if not isinstance(layer, dict) or not isinstance(cast(Any, layer).get(key), kind):
                where = place if place == "total" else f"layers[{place}]"
                return f"'{where}.{key}' is missing or of the wrong kind"
    for name, cycles in report["total"]["ledger_cycles"].items():
        if not isinstance(cycles, (int, float)):
            return f"'total.ledger_cycles.{name}' is no number"
    return _accuracy_fault(report.get("accuracy"))


def _accuracy_fault(accuracy: Any) -> str:
    if accuracy is None:
        return ""
    found = cast("dict[str, Any]", accuracy) if isinstance(accuracy, dict) else {}
    right, images = found.get("quantised_right"), found.get("images")
    sound = isinstance(right, int) and isinstance(images, int) and images > 0
    return "" if sound else "'accuracy' is of the wrong kind"
