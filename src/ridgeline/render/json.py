"""A Report as JSON of the schema "ridgeline-report/2", which report.schema.json holds.

Readers may rely on what the schema requires; later versions of Ridgeline may add keys to it, and
change the name of the schema when they take one away or change its meaning.
"""

from __future__ import annotations

import json
from typing import Any

from ridgeline.results.columns import COLUMNS, LEDGER_ENTRIES, Column
from ridgeline.results.energy import LEVELS, PowerFacts
from ridgeline.results.rows import LIMITS, Accuracy, LayerRow, MachineFacts, Report

SCHEMA = "ridgeline-report/2"

_UNKNOWN = ("intensity", "sqnr_db", "energy_joules")
"""Columns that may have nothing to say of a layer."""


def render(report: Report) -> str:
    """Indented JSON with a newline at its end; keys in a fixed order."""
    return json.dumps(to_dict(report), indent=2, allow_nan=False) + "\n"


def to_dict(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "schema": SCHEMA,
        "model": report.model,
        "machine": _machine(report.machine),
        "numeric_mode": report.numeric_mode,
        "batch": report.batch,
        "cycles": report.cycles,
        "device_cycles": report.device_cycles,
        "latency_seconds": report.seconds,
        "inferences_per_s": report.inferences_per_s,
        "warm_cycles": report.warm_cycles,
        "steady_cycles": report.steady_cycles,
        "steady_inferences_per_s": report.steady_inferences_per_s,
        "accuracy": _accuracy(report.accuracy),
        "energy_joules": report.energy_joules,
        "inferences_per_joule": report.inferences_per_joule,
        "average_watts": report.average_watts,
        "steady_watts": report.steady_watts,
        "peak_watts": report.power.peak_watts if report.power else None,
        "clock_hz": report.clock_hz,
        "power": _power(report.power),
        "array_macs": report.array_macs,
        "worst": [_worst(row) for row in report.worst()],
        "total": _layer(report.total, report),
        "layers": [_layer(row, report) for row in report.rows],
        "notes": list(report.notes),
    }


def _machine(machine: MachineFacts) -> dict[str, Any]:
    return {
        "name": machine.name,
        "description": machine.description,
        "clock_hz": machine.clock_hz,
        "rows": machine.rows,
        "cols": machine.cols,
        "dataflow": machine.dataflow,
        "peak_operations_per_s": machine.peak_operations_per_s,
        "device_memory_bytes_per_s": machine.device_memory_bytes_per_s,
        "balance_macs_per_byte": machine.balance_macs_per_byte,
    }


def _accuracy(accuracy: Accuracy | None) -> dict[str, Any] | None:
    if accuracy is None:
        return None
    return {
        "images": accuracy.images,
        "float_right": accuracy.float_right,
        "quantised_right": accuracy.quantised_right,
        "number_format": accuracy.number_format,
    }


def _power(power: PowerFacts | None) -> dict[str, Any] | None:
    """The machine's figures; `slowdown` is 1 where the clock is not lowered."""
    if power is None:
        return None
    return {
        "idle_watts": power.idle_watts,
        "window_seconds": power.window_seconds,
        "limit_watts": power.limit_watts,
        "policy": power.policy,
        "above_limit": power.above_limit,
        "slowdown": power.slowdown,
    }


def _worst(row: LayerRow) -> dict[str, Any]:
    loss, cycles = row.largest_loss()
    return {
        "layer": row.name,
        "lost_cycles": row.lost_cycles,
        "bound": row.bound,
        "bound_cycles": row.bound_cycles,
        "loss": loss,
        "loss_cycles": cycles,
    }


def layer_columns() -> tuple[Column, ...]:
    """The columns that a layer's object has as keys; the ledger and the levels of energy are
    objects of their own.
    """
    return tuple(c for c in COLUMNS if not c.key.startswith(("ledger_", "joules_")))


def _layer(row: LayerRow, report: Report) -> dict[str, Any]:
    data: dict[str, Any] = {c.key: c.get(row, report) for c in layer_columns()}
    data["shape"] = list(row.shape)
    data["busy_cycles"] = dict(row.busy_cycles)
    data["ledger_cycles"] = dict(row.ledger)
    data["counts"] = dict(row.counts)
    data["joules"] = None if row.joules is None else dict(row.joules)
    data["origin"] = list(row.origin)
    return data


_NUMBER, _WHOLE, _TEXT = {"type": "number"}, {"type": "integer"}, {"type": "string"}


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what `render` writes; report.schema.json holds it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Ridgeline report",
        **_object(
            {
                "schema": {"const": SCHEMA},
                "model": _TEXT,
                "machine": _object(_machine_schema()),
                "numeric_mode": _TEXT,
                "batch": _WHOLE,
                "cycles": _WHOLE,
                "device_cycles": _WHOLE,
                "latency_seconds": _NUMBER,
                "inferences_per_s": _NUMBER,
                "warm_cycles": _or_null("integer"),
                "steady_cycles": _or_null("integer"),
                "steady_inferences_per_s": _or_null("number"),
                "accuracy": {"anyOf": [{"type": "null"}, _object(_accuracy_schema())]},
                **{key: _or_null("number") for key in _ENERGY},
                "clock_hz": _NUMBER,
                "power": {"anyOf": [{"type": "null"}, _object(_power_schema())]},
                "array_macs": _WHOLE,
                "worst": {"type": "array", "items": _object(_worst_schema())},
                "total": {"$ref": "#/$defs/layer"},
                "layers": {"type": "array", "items": {"$ref": "#/$defs/layer"}},
                "notes": {"type": "array", "items": _TEXT},
            }
        ),
        "$defs": {"layer": _object(_layer_schema())},
    }


def _layer_schema() -> dict[str, Any]:
    shares = {"type": "object", "additionalProperties": _NUMBER}
    layer = {c.key: _column_schema(c) for c in layer_columns()}
    layer["shape"] = {"type": "array", "items": _WHOLE}
    layer["busy_cycles"] = {**shares, "propertyNames": {"enum": list(LIMITS)}}
    layer["ledger_cycles"] = {**shares, "propertyNames": {"enum": list(LEDGER_ENTRIES)}}
    layer["counts"] = {"type": "object", "additionalProperties": _WHOLE}
    levels = {**shares, "propertyNames": {"enum": list(LEVELS)}}
    layer["joules"] = {"anyOf": [{"type": "null"}, levels]}
    layer["origin"] = {"type": "array", "items": _TEXT}
    return layer


def _accuracy_schema() -> dict[str, Any]:
    return {
        "images": _WHOLE,
        "float_right": _or_null("integer"),
        "quantised_right": _WHOLE,
        "number_format": _TEXT,
    }


def _machine_schema() -> dict[str, Any]:
    return {
        "clock_hz": _NUMBER,
        "peak_operations_per_s": _NUMBER,
        "device_memory_bytes_per_s": _NUMBER,
        "balance_macs_per_byte": _NUMBER,
        "name": _TEXT,
        "description": _TEXT,
        "dataflow": _TEXT,
        "rows": _WHOLE,
        "cols": _WHOLE,
    }


_ENERGY = (
    "energy_joules",
    "inferences_per_joule",
    "average_watts",
    "steady_watts",
    "peak_watts",
)
"""Figures of the run that only a machine with energy figures has."""


def _power_schema() -> dict[str, Any]:
    return {
        "idle_watts": _NUMBER,
        "window_seconds": _or_null("number"),
        "limit_watts": _or_null("number"),
        "policy": _TEXT,
        "above_limit": {"type": "boolean"},
        "slowdown": _NUMBER,
    }


def _worst_schema() -> dict[str, Any]:
    return {
        "layer": _TEXT,
        "lost_cycles": _NUMBER,
        "bound": {**_TEXT, "enum": list(LIMITS)},
        "bound_cycles": _NUMBER,
        "loss": _TEXT,
        "loss_cycles": _NUMBER,
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": sorted(properties), "properties": properties}


def _or_null(kind: str) -> dict[str, Any]:
    return {"type": [kind, "null"]}


def _column_schema(column: Column) -> dict[str, Any]:
    kind = "string" if column.kind == "text" else "number"
    entry: dict[str, Any] = _or_null(kind) if column.key in _UNKNOWN else {"type": kind}
    if column.key == "bound":
        entry["enum"] = list(LIMITS)
    unit = column.raw_unit
    entry["description"] = column.doc + (f" [{unit}]" if unit else "")
    return entry
