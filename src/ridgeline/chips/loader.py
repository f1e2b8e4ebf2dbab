"""Chips from TOML: by name from the catalogue, or a user's file. Keys hold their units.

A size or a rate is in exactly one of several units, such as `size_gb` (10^9) or `size_gib` (2^30),
so that a file says what its source printed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

from ridgeline.chips.sheet import (
    CLASSES,
    FLAGS,
    KINDS,
    LEVELS,
    PRECISIONS,
    Achieved,
    Chip,
    Contradiction,
    Headline,
    Link,
    Memory,
    Peak,
    Sourced,
    Units,
)
from ridgeline.chips.units import (
    BANDWIDTHS,
    COUNT,
    HERTZ,
    LARGEST,
    MACS,
    OPERATIONS,
    SIZES,
    WATTS,
    check_size,
)
from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.files import read_whole

MAX_FILE_BYTES = 1 << 20
_SAID = {"kind", "source", "uncertain", "note"}
_SEEN = ("headline", "partly", "recalled", "user")
_FORMS = {
    "name": 'For example: name = "mine"',
    "precision": f"Give one of {', '.join(PRECISIONS)}",
    "level": f"Give one of {', '.join(LEVELS)}",
    "seen": f"Give one of {', '.join(_SEEN)}",
    "kind": f"Give one of {', '.join(KINDS)}",
    "date": 'Give the year at least: date = "2026"',
}
"""What to write where a text is missing."""
_DATED = re.compile(r"(19|20)\d\d")

_NO_SOURCES = 'Add it: [sources.NAME] with text = "..." and date = "2026"'

Table = Mapping[str, Any]
_OWN = "a figure of the user"
_USERS: Table = {"text": "the user's own sheet", "date": "undated", "seen": "user"}


def chip_names() -> list[str]:
    """Names of the chips of the catalogue."""
    folder = resources.files("ridgeline.chips") / "data"
    return sorted(
        f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")
    )


def load_chip(name: str | Path) -> Chip:
    """The chip called `name`, in any case and punctuation, or in the TOML file `name`.

    Raises RidgelineError naming the key at fault, or chips with a name like this.
    """
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        try:
            text = read_whole(path, MAX_FILE_BYTES).decode()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise RidgelineError(
                f"cannot be read ({reason})", where=str(path), fix=_nearby(path)
            ) from error
        return _parse(text, str(path), own=True)
    return _shipped(find(str(name)))


def _nearby(path: Path) -> str:
    """The TOML files beside one that is not there."""
    try:
        found = sorted(p.name for p in path.parent.glob("*.toml") if p.name != path.name)
    except OSError:
        found = []
    if not found:
        return "`ridgeline chips list` shows those that need no file"
    return f"TOML files in {path.parent}: {', '.join(found[:8])}"


def find(name: str) -> str:
    """The catalogue's name for what the user calls a chip, such as "H100 SXM5"."""
    names = chip_names()
    wanted = _plain(name)
    for known in names:
        if _plain(known) == wanted:
            return known
    parts = [known for known in names if wanted and wanted in _plain(known)]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        # More than the name, such as "nvidia-l4" or "H100 SXM5 80GB": the longest that is in it.
        within = [known for known in names if _plain(known) in wanted]
        longest = max((len(_plain(known)) for known in within), default=0)
        parts = [known for known in within if len(_plain(known)) == longest]
    hint = "Did you mean " + " or ".join(f"'{n}'" for n in parts[:4]) + "?" if parts else ""
    if not hint:
        hint = did_you_mean(name.lower(), names)
    if hint.startswith("Known"):
        hint = "`ridgeline chips list` shows all."
    raise RidgelineError(
        f"there is no chip '{name}'", where="chips", fix=f"{hint} A file must end in .toml"
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _shipped(name: str) -> Chip:
    source = resources.files("ridgeline.chips") / "data" / f"{name}.toml"
    return _parse(source.read_text(encoding="utf-8"), name)


def _parse(text: str, where: str, own: bool = False) -> Chip:
    try:
        data = tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        raise RidgelineError(f"is not valid TOML: {error}", where=where) from error
    try:
        return chip_from_dict(data, own)
    except RidgelineError as error:
        raise RidgelineError(
            f"{error.where}: {error.what}" if error.where else error.what,
            where=f"chip {where}",
            fix=error.fix,
        ) from error


class _Reader:
    """The tables of one file; every figure names one of its sources.

    In a file of the user's `own` a figure that names none is the user's, and a source need not say
    how it was read.
    """

    def __init__(self, data: Table, own: bool) -> None:
        self.own = own
        self.sources = {
            key: _keys(table, f"sources.{key}", {"text", "date", "seen"})
            for key, table in _table(data.get("sources", {}), "sources").items()
        }
        for key, source in self.sources.items():
            where = f"sources.{key}"
            _text(source, "text", where)
            if not _DATED.match(_text(source, "date", where)):
                raise RidgelineError("must begin with a year", where=f"{where}.date")
            if "seen" in source or not own:
                _one_of(_text(source, "seen", where), _SEEN, f"{where}.seen")

    def figure(self, data: Table, key: str, units: Table, where: str) -> Sourced:
        """The inline table `key`: one value whose key holds its unit, and who says it."""
        where = f"{where}.{key}" if where else key
        table = _keys(_table(data.get(key), where), where, {*units, *_SAID})
        given = [unit for unit in units if unit in table]
        if len(given) != 1:
            raise RidgelineError(
                f"must hold exactly one of {', '.join(units)}"
                + (f", not {' and '.join(given)}" if given else ""),
                where=where,
            )
        value = _number(table[given[0]], f"{where}.{given[0]}")
        unit, scale = units[given[0]]
        check_size(value, given[0], units, f"{where}.{given[0]}")
        said = self._said(table, where)
        kind = _text(table, "kind", where, "user" if self.own else None)
        _one_of(kind, KINDS, f"{where}.kind")
        uncertain = table.get("uncertain", False)
        if not isinstance(uncertain, bool):
            raise RidgelineError("must be true or false", where=f"{where}.uncertain")
        return Sourced(
            *(value * scale, unit, said["text"], said["date"], cast("Any", kind)),
            said.get("seen", "user"),
            *(uncertain, _text(table, "note", where, "")),
        )

    def _said(self, table: Table, where: str) -> Table:
        if self.own and "source" not in table:
            return _USERS
        source = _text(table, "source", where)
        if source not in self.sources:
            raise RidgelineError(
                f"there is no source '{source}'",
                where=f"{where}.source",
                fix=did_you_mean(source, self.sources) if self.sources else _NO_SOURCES,
            )
        return self.sources[source]

    def maybe(self, data: Table, key: str, units: Table, where: str = "") -> Sourced | None:
        return self.figure(data, key, units, where) if key in data else None


def chip_from_dict(data: Table, own: bool = False) -> Chip:
    """The chip that a file's tables describe, of the user's `own` or the catalogue's.

    Raises RidgelineError naming the key.
    """
    allowed = {"name", "title", "vendor", "year", "class", "array", "assumes", "notes", "clock"}
    allowed |= {"tdp", "processors", "sources", "headline", "peaks", "memories", "links"}
    allowed |= {"achieved", "contradictions", "milestone"}
    _keys(data, "", allowed)
    read = _Reader(data, own)
    name = _text(data, "name", "")
    return Chip(
        name=name,
        title=_text(data, "title", "", name),
        vendor=_text(data, "vendor", "", "the user"),
        year=_year(data.get("year")),
        chip_class=_one_of(_text(data, "class", "", "user"), CLASSES, "class"),
        peaks=tuple(_peak(read, table, where) for table, where in _list(data, "peaks")),
        memories=tuple(_memory(read, table, where) for table, where in _list(data, "memories")),
        links=tuple(_link(read, table, where) for table, where in _list(data, "links")),
        headline=_headline(read, data["headline"]) if "headline" in data else None,
        achieved=tuple(_achieved(read, table, where) for table, where in _list(data, "achieved")),
        contradictions=tuple(
            _contradiction(read, table, where) for table, where in _list(data, "contradictions")
        ),
        clock=read.maybe(data, "clock", HERTZ),
        tdp=read.maybe(data, "tdp", WATTS),
        processors=read.maybe(data, "processors", COUNT),
        array=_text(data, "array", "", ""),
        assumes=_text(data, "assumes", "", ""),
        milestone=_text(data, "milestone", "", ""),
        notes=_texts(data.get("notes", []), "notes"),
    )


def _peak(read: _Reader, data: Table, where: str) -> Peak:
    keys = {"precision", "accumulate", "engine", "dense", "sparse", "sparsity", "units"}
    _keys(data, where, {*keys, "unchecked"})
    units = None
    if "units" in data:
        table = _table(data["units"], f"{where}.units")
        inner = {key: value for key, value in table.items() if key not in ("name", "count")}
        macs = read.figure({"units": inner}, "units", MACS, where)
        count = _number(table.get("count"), f"{where}.units.count")
        units = Units(_text(table, "name", f"{where}.units"), int(count), macs)
    return Peak(
        precision=_one_of(_text(data, "precision", where), PRECISIONS, f"{where}.precision"),
        dense=read.figure(data, "dense", OPERATIONS, where),
        accumulate=_text(data, "accumulate", where, ""),
        engine=_text(data, "engine", where, ""),
        sparse=read.maybe(data, "sparse", OPERATIONS, where),
        sparsity=_text(data, "sparsity", where, ""),
        units=units,
        unchecked=_text(data, "unchecked", where, _OWN if read.own and units is None else ""),
    )


def _memory(read: _Reader, data: Table, where: str) -> Memory:
    _keys(data, where, {"name", "level", "size", "bandwidth"})
    level = _one_of(_text(data, "level", where), LEVELS, f"{where}.level")
    return Memory(
        _text(data, "name", where),
        cast("Any", level),
        read.maybe(data, "size", SIZES, where),
        read.maybe(data, "bandwidth", BANDWIDTHS, where),
    )


def _link(read: _Reader, data: Table, where: str) -> Link:
    _keys(data, where, {"name", "bandwidth"})
    return Link(_text(data, "name", where), read.maybe(data, "bandwidth", BANDWIDTHS, where))


def _headline(read: _Reader, table: Any) -> Headline:
    data = _keys(
        _table(table, "headline"), "headline", {"precision", "operations", "flags", "text"}
    )
    flags = _texts(data.get("flags", []), "headline.flags")
    for flag in flags:
        _one_of(flag, FLAGS, "headline.flags")
    return Headline(
        _one_of(_text(data, "precision", "headline"), PRECISIONS, "headline.precision"),
        read.figure(data, "operations", OPERATIONS, "headline"),
        flags,
        _text(data, "text", "headline", ""),
    )


def _achieved(read: _Reader, data: Table, where: str) -> Achieved:
    _keys(data, where, {"precision", "operations"})
    return Achieved(
        _one_of(_text(data, "precision", where), PRECISIONS, f"{where}.precision"),
        read.figure(data, "operations", OPERATIONS, where),
    )


def _contradiction(read: _Reader, data: Table, where: str) -> Contradiction:
    _keys(data, where, {"figure", "other"})
    units = {**OPERATIONS, **SIZES, **BANDWIDTHS, **HERTZ, **WATTS, **MACS, **COUNT}
    return Contradiction(_text(data, "figure", where), read.figure(data, "other", units, where))


def _list(data: Table, key: str) -> list[tuple[Table, str]]:
    tables = data.get(key, [])
    if not isinstance(tables, list):
        raise RidgelineError(f"must be [[{key}]], one table each", where=key)
    entries = cast("list[Any]", tables)
    return [(_table(entry, f"{key}[{i}]"), f"{key}[{i}]") for i, entry in enumerate(entries)]


def _table(value: Any, where: str) -> Table:
    if not isinstance(value, Mapping):
        raise RidgelineError(
            f"must be a table, not {_shown(value)}" if value is not None else "is missing",
            where=where,
            fix='For example: { operations_per_s = 100e12, kind = "vendor", source = "sheet" }',
        )
    return cast("Table", value)


def _shown(value: Any) -> str:
    """A value in a message; Python refuses to write out whole numbers of thousands of digits."""
    try:
        return f"{value!r:.40}"
    except ValueError:
        return "a number of thousands of digits"


def _keys(table: Any, where: str, allowed: Iterable[str]) -> Table:
    entries, known = _table(table, where), set(allowed)
    for key in entries:
        if key not in known:
            raise RidgelineError(
                f"unknown key '{key}'",
                where=f"{where}.{key}" if where else key,
                fix=did_you_mean(key, known),
            )
    return entries


def _text(table: Table, key: str, where: str, missing: str | None = None) -> str:
    value = table.get(key, missing)
    where = f"{where}.{key}" if where else key
    if not isinstance(value, str) or (not value and missing is None):
        what = "is missing" if value is None else f"must be text, not {_shown(value)}"
        raise RidgelineError(what, where=where, fix=_FORMS.get(key, ""))
    return value


def _texts(value: Any, where: str) -> tuple[str, ...]:
    entries = cast("list[Any]", value if isinstance(value, list) else [value])
    if not all(isinstance(entry, str) for entry in entries):
        raise RidgelineError("must be a list of texts", where=where)
    return tuple(entries)


def _number(value: Any, where: str) -> float:
    """A figure: 0 would be a claim, and what is not known is left out."""
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not 0 < value < LARGEST:  # NaN is in no range
        raise RidgelineError(
            "is missing" if value is None else f"must be a number above 0, not {_shown(value)}",
            where=where,
            fix="Leave out what is not known",
        )
    return float(value)


def _year(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1970 <= value <= 2100:
        what = "is missing" if value is None else f"must be a year, not {_shown(value)}"
        raise RidgelineError(what, where="year", fix="For example: year = 2026")
    return value


def _one_of(value: str, known: Iterable[str], where: str) -> str:
    choices = list(known)
    if value not in choices:
        raise RidgelineError(
            f"'{value}' is not known", where=where, fix=did_you_mean(value, choices)
        )
    return value
