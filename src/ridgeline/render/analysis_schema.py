"""The form of `analyze --json` as a JSON schema, which `analysis.schema.json` holds."""

from __future__ import annotations

from typing import Any, get_args

from ridgeline.render.analysis import SCHEMA
from ridgeline.roofline.bound import Basis
from ridgeline.workload.layer import Kind

_TEXT: dict[str, Any] = {"type": "string"}
_WHOLE: dict[str, Any] = {"type": "integer"}
_NUMBER: dict[str, Any] = {"type": "number"}
_UNKNOWN_WHOLE: dict[str, Any] = {"type": ["integer", "null"]}
_UNKNOWN_NUMBER: dict[str, Any] = {"type": ["number", "null"]}

_MOVED = ("weight_bytes", "input_bytes", "output_bytes", "kv_bytes")


def schema() -> dict[str, Any]:
    """Draft 2020-12. Times are seconds, operations 2 × multiply-accumulates; null is unknown."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Ridgeline analysis",
        "description": "Seconds, bytes, operations (2 x MACs); null is unknown, or no batch.",
        "type": "object",
        "required": ["schema"],
        "properties": {
            "schema": {"const": SCHEMA},
            "analyses": _list(_reference("analysis")),
            "workloads": _list(_reference("workload")),
        },
        "$defs": {
            "analysis": _object(_analysis()),
            "workload": _object(_workload(_reference("work"))),
            "work": _object(_work()),
            "layer": _object({**_work(), **_on_chip()}),
            "totals": _object(_totals()),
            "seconds": _object({"low": _NUMBER, "likely": _NUMBER, "high": _NUMBER}),
        },
    }


def _workload(layer: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": _TEXT,
        "batch": _WHOLE,
        "totals": _reference("totals"),
        "notes": _list(_TEXT),
        "layers": _list(layer),
    }


def _analysis() -> dict[str, Any]:
    return {
        **_workload(_reference("layer")),
        "chip": _TEXT,
        "precision": _TEXT,
        "basis": {**_TEXT, "enum": list(get_args(Basis))},
        "seconds": _reference("seconds"),
        "samples_per_s": _UNKNOWN_NUMBER,
        "utilisation": _UNKNOWN_NUMBER,
        "main_cause": _object({"cause": _TEXT, "share": _NUMBER}),
        "weights_stay_on_chip": {"type": "boolean"},
    }


def _totals() -> dict[str, Any]:
    known = dict.fromkeys(("parameters", "logical_parameters", "parameter_bytes"), _WHOLE)
    unknown = ("macs", "operations", "vector_operations", *_MOVED)
    return {**dict.fromkeys(unknown, _UNKNOWN_WHOLE), **known}


def _work() -> dict[str, Any]:
    unknown = ("macs", "operations", "vector_operations", *_MOVED)
    return {
        "name": _TEXT,
        "op": _TEXT,
        "kind": {**_TEXT, "enum": list(get_args(Kind))},
        "origin": _list(_TEXT),
        **dict.fromkeys(unknown, _UNKNOWN_WHOLE),
        "parameters": _WHOLE,
        "logical_parameters": _WHOLE,
        "operations_per_byte": _UNKNOWN_NUMBER,
        "products": _list(_object(dict.fromkeys(("groups", "m", "n", "k", "steps"), _WHOLE))),
        "independent": {"type": "object", "additionalProperties": _WHOLE},
    }


def _on_chip() -> dict[str, Any]:
    part = {"resource": _TEXT, "seconds": _NUMBER, "bytes": _NUMBER}
    return {
        "seconds": _reference("seconds"),
        "limit": _TEXT,
        "utilisation": _UNKNOWN_NUMBER,
        "cause": _TEXT,
        "cure_batch": _UNKNOWN_WHOLE,
        "parts": _list(_object(part)),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": sorted(properties), "properties": properties}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}
