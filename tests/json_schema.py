"""Faults of JSON data by the keywords that our schemas use; not a general validator."""

from __future__ import annotations

from typing import Any

_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def faults(data: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> list[str]:
    """The faults that the keywords which our schema uses find; not a general validator."""
    if "$ref" in schema:
        return faults(data, root["$defs"][schema["$ref"].rpartition("/")[2]], root, at)
    if "anyOf" in schema:
        found = [faults(data, one, root, at) for one in schema["anyOf"]]
        return min(found, key=len)
    if "const" in schema:
        return [] if data == schema["const"] else [f"{at} is {data}"]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(isinstance(data, _TYPES[k]) for k in kinds):
        return [f"{at} is {type(data).__name__}, not {kinds}"]
    found_faults = [f"{at} is {data}"] if "enum" in schema and data not in schema["enum"] else []
    if isinstance(data, list):
        for index, item in enumerate(data):
            found_faults += faults(item, schema.get("items", {}), root, f"{at}[{index}]")
    if isinstance(data, dict):
        found_faults += [
            f"{at}.{key} is missing" for key in schema.get("required", []) if key not in data
        ]
        for key, item in data.items():
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
            found_faults += faults(item, inner, root, f"{at}.{key}")
            names = schema.get("propertyNames", {}).get("enum")
            found_faults += [f"{at}.{key} is no name"] if names and key not in names else []
    return found_faults
