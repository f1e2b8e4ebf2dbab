"""Machines from TOML: shipped by name or a user's file, any field overridden by `key=value`.

Files say `[sources]` for each dotted key, so that every figure has its origin.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import resources
from math import isfinite, lcm
from pathlib import Path
from typing import Any, cast

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.files import read_whole
from ridgeline.machine.description import (
    ARRAY_FORMATS,
    Array,
    DeviceMemory,
    Energy,
    Host,
    HostLink,
    Machine,
    Power,
    UnifiedBuffer,
    VectorUnit,
)

_SECTIONS: dict[str, tuple[type[Any], dict[str, type]]] = {
    "array": (
        Array,
        {
            "rows": int,
            "cols": int,
            "dataflow": str,
            "macs_per_pe_per_cycle": dict,
            "weight_rows_per_cycle": int,
            "stream_after_rows": int,
            "weight_slots": int,
            "accumulator_entries": int,
            "accumulator_bits": int,
        },
    ),
    "unified_buffer": (UnifiedBuffer, {"bytes": int, "banks": int, "line_bytes": int}),
    "vector": (
        VectorUnit,
        {"lanes": int, "operations": list, "parameter_slots": int, "requantize": str},
    ),
    "device_memory": (
        DeviceMemory,
        {
            "bytes": int,
            "bytes_per_s": float,
            "burst_bytes": int,
            "latency_cycles": int,
            "lines_per_cycle": int,
        },
    ),
    "host_link": (HostLink, {"bytes_per_s": float, "latency_seconds": float}),
    "host": (Host, {"operations_per_s": float, "bytes_per_s": float, "overhead_seconds": float}),
    "energy": (
        Energy,
        {
            "mac_joules": dict,
            "array_register_joules_per_byte": float,
            "accumulator_joules_per_byte": float,
            "unified_buffer_joules_per_byte": float,
            "slot_joules_per_byte": float,
            "device_memory_joules_per_byte": float,
            "host_link_joules_per_byte": float,
            "vector_operation_joules": float,
            "idle_watts": float,
        },
    ),
    "power": (Power, {"window_seconds": float, "limit_watts": float, "policy": str}),
}
_TOP: dict[str, type] = {"name": str, "description": str, "clock_hz": float, "queue_depth": int}
MAX_FILE_BYTES = 1 << 20
_OPTIONAL = {
    "array.stream_after_rows",
    "unified_buffer.line_bytes",
    "vector.requantize",
    "device_memory.lines_per_cycle",
    "description",
    "power.limit_watts",
    "power.policy",
}
_OPTIONAL_SECTIONS = ("energy", "power")
_TABLES_OF_FORMATS = ("array.macs_per_pe_per_cycle", "energy.mac_joules")
"""Keys whose value is a table by element format."""


def machine_names() -> list[str]:
    """Names of the machines that ship with Ridgeline."""
    folder = resources.files("ridgeline.machine") / "data"
    return sorted(
        f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")
    )


def load_machine(name: str | Path, settings: Sequence[str] = ()) -> Machine:
    """The machine called `name`, or in the TOML file `name`, with `settings` such as
    "array.rows=32" applied.

    Raises RidgelineError naming the key and the values allowed.
    """
    text, where = _read(name)
    try:
        data = tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        raise RidgelineError(f"is not valid TOML: {error}", where=where) from error
    for setting in settings:
        _apply(data, setting)
    try:
        return machine_from_dict(data)
    except RidgelineError as error:
        raise RidgelineError(
            f"{error.where}: {error.what}" if error.where else error.what,
            where=f"machine {where}",
            fix=error.fix,
        ) from error


def _read(name: str | Path) -> tuple[str, str]:
    path = Path(name)
    try:
        if path.suffix == ".toml" or path.is_file():
            return read_whole(path, MAX_FILE_BYTES).decode(), str(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise RidgelineError(f"cannot be read ({reason})", where=str(path)) from error
    if str(name) not in machine_names():
        hint = did_you_mean(str(name), machine_names())
        raise RidgelineError(
            f"there is no machine '{name}'",
            fix=f"{hint}{'' if hint.endswith('?') else '.'} A file must end in .toml",
        )
    source = resources.files("ridgeline.machine") / "data" / f"{name}.toml"
    return source.read_text(encoding="utf-8"), str(name)


def known_keys() -> list[str]:
    """Every dotted key of a machine file."""
    return [*_TOP, *(f"{s}.{k}" for s, (_, keys) in _SECTIONS.items() for k in keys)]


def _apply(data: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    key, text = key.strip(), text.strip()
    if not equals or not text:
        raise RidgelineError(
            f"'{setting}' is not KEY=VALUE", where="--set", fix="For example: --set array.rows=32"
        )
    of_a_format = any(key.startswith(f"{table}.") for table in _TABLES_OF_FORMATS)
    if key not in known_keys() and not of_a_format:
        raise RidgelineError(
            f"a machine has no field '{key}'", where="--set", fix=did_you_mean(key, known_keys())
        )
    if "\n" in text or "\r" in text:
        raise RidgelineError(f"the value of '{key}' holds a line break", where="--set")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    except (RecursionError, ValueError) as error:
        raise RidgelineError(f"the value of '{key}' cannot be read", where="--set") from error
    *path, last = key.split(".")
    table = data
    for part in path:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise RidgelineError(f"'{part}' is a value, not a table of values", where=key)
        table = cast("dict[str, Any]", inner)
    table[last] = value
    # A line wide enough for the array as it was may be too narrow, or too wide, for it as it is.
    if key in ("array.rows", "array.cols"):
        buffer = data.get("unified_buffer")
        if isinstance(buffer, dict):
            cast("dict[str, Any]", buffer).pop("line_bytes", None)
    sources = data.setdefault("sources", {})
    if isinstance(sources, dict):
        cast("dict[str, Any]", sources)[key] = "set by the user"


def machine_from_dict(data: Mapping[str, Any]) -> Machine:
    """The machine that a TOML file's tables describe. Raises RidgelineError naming the key."""
    allowed = {*_TOP, *_SECTIONS, "sources"}
    for key in data:
        if key not in allowed:
            raise RidgelineError(f"unknown key '{key}'", where=key, fix=did_you_mean(key, allowed))
    top = {key: _value(key, data.get(key), kind) for key, kind in _TOP.items()}
    sections = {
        name: _section(name, kind, keys, data.get(name), data)
        for name, (kind, keys) in _SECTIONS.items()
        if name in data or name not in _OPTIONAL_SECTIONS
    }
    return Machine(**top, **sections, sources=_sources(data.get("sources", {})))


def _sources(table: Any) -> dict[str, str]:
    """The table [sources], which says in text where each figure comes from."""
    if not isinstance(table, Mapping):
        raise RidgelineError(f"must be a table, not {table!r:.40}", where="sources")
    entries = cast("Mapping[str, Any]", table)
    for key, source in entries.items():
        if not isinstance(source, str):
            raise RidgelineError(f"must be text, not {source!r:.40}", where=f"sources.{key}")
    return dict(entries)


def _section(
    name: str, kind: type[Any], keys: dict[str, type], table: Any, data: Mapping[str, Any]
) -> Any:
    if not isinstance(table, Mapping):
        raise RidgelineError(f"the table [{name}] is missing", where=name)
    entries = dict(cast("Mapping[str, Any]", table))
    for key in entries:
        if key not in keys:
            raise RidgelineError(
                f"unknown key '{key}'", where=f"{name}.{key}", fix=did_you_mean(key, keys)
            )
    if name == "unified_buffer" and "line_bytes" not in entries:
        _fit_lines(entries, data.get("array"))
    values = {
        key: _value(f"{name}.{key}", entries.get(key), of)
        for key, of in keys.items()
        if key in entries or f"{name}.{key}" not in _OPTIONAL
    }
    if "operations" in values:
        values["operations"] = tuple(values["operations"])
    for key in ("macs_per_pe_per_cycle", "mac_joules"):
        if key in values:
            by_format = cast("Mapping[str, Any]", values[key])
            values[key] = {
                fmt: _value(f"{name}.{key}.{fmt}", value, float)
                for fmt, value in _in_order(by_format)
            }
    if "macs_per_pe_per_cycle" in values:
        rates = cast("dict[str, float]", values["macs_per_pe_per_cycle"])
        values["macs_per_pe_per_cycle"] = {
            fmt: Fraction(rate).limit_denominator(64) for fmt, rate in rates.items()
        }
    return kind(**values)


def _fit_lines(buffer: dict[str, Any], array: Any) -> None:
    """Lines that suit the array, and as many whole ones as the size has room for."""
    entries = cast("Mapping[str, Any]", array if isinstance(array, Mapping) else {})
    rows = _value("array.rows", entries.get("rows"), int)
    cols = _value("array.cols", entries.get("cols"), int)
    buffer["line_bytes"] = lcm(max(int(rows), 1), max(int(cols), 1))
    banks = int(_value("unified_buffer.banks", buffer.get("banks"), int))
    size_bytes = int(_value("unified_buffer.bytes", buffer.get("bytes"), int))
    unit = buffer["line_bytes"] * max(banks, 1)
    buffer["bytes"] = size_bytes // unit * unit


def _in_order(by_format: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The entries as machine files list formats, however a program's file has sorted them."""
    known = {name: place for place, name in enumerate(ARRAY_FORMATS)}
    return sorted(by_format.items(), key=lambda entry: known.get(entry[0], len(known)))


def _value(key: str, value: Any, kind: type) -> Any:
    if value is None:
        if key in _OPTIONAL:
            return ""
        raise RidgelineError("is missing", where=key, fix=f"Add it, or use --set {key}=...")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    right = isinstance(value, kind) and not isinstance(value, bool)
    if not right or (isinstance(value, float) and not isfinite(value)):
        names = {
            int: "a whole number",
            float: "a number",
            str: "text",
            list: "a list",
            dict: "a table",
        }
        raise RidgelineError(f"must be {names[kind]}, not {value!r}", where=key)
    return value


def machine_to_dict(machine: Machine) -> dict[str, Any]:
    """The tables of a machine file, such that `machine_from_dict` gives an equal machine."""
    data: dict[str, Any] = {key: getattr(machine, key) for key in _TOP}
    for name, (_, keys) in _SECTIONS.items():
        section = getattr(machine, name)
        if section is not None:
            values = {key: getattr(section, key) for key in keys}
            data[name] = {key: value for key, value in values.items() if value is not None}
    data["vector"]["operations"] = list(machine.vector.operations)
    rates = machine.array.macs_per_pe_per_cycle
    data["array"]["macs_per_pe_per_cycle"] = {fmt: float(rate) for fmt, rate in rates.items()}
    data["sources"] = dict(machine.sources)
    return data
