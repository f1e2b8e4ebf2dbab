"""A machine as the text of a machine file, such that loading it gives an equal machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ridgeline.machine.description import Machine
from ridgeline.machine.loader import machine_to_dict


def machine_to_toml(machine: Machine) -> str:
    """The machine file of `machine`, every field with its value, sources last."""
    data = machine_to_dict(machine)
    tables = {key: _table(value) for key, value in data.items() if isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in data.items() if key not in tables]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{_key(key)} = {_value(v)}" for key, v in table.items())]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else _text(key)


def _table(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value)


def _text(text: str) -> str:
    # Basic strings of TOML are those of JSON, but for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_value(v)}" for key, v in _table(value).items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(one) for one in cast("list[Any]", value)) + "]"
    return repr(value)
