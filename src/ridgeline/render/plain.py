"""Names from a model as plain text: in one line, harmless to a terminal, of a known width.

A name in a file may hold anything. What is not printable, a line break or an escape sequence, is
written out as a backslash and its code; Chinese, Japanese and Korean characters take two columns.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def visible(text: str) -> str:
    """`text` in one line: a character that is not printable becomes a backslash and its code."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _written_out(c) for c in text)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def columns_of(text: str) -> int:
    """Columns that `text` takes on a terminal: 2 for a wide character, 0 for a combining one."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def left(text: str, width: int) -> str:
    """`text` filled up with spaces to `width` columns."""
    return text + " " * (width - columns_of(text))


def shorten(text: str, width: int) -> str:
    """`text` made visible, its middle an ellipsis where it takes more than `width` columns."""
    shown = visible(text)
    if columns_of(shown) <= width:
        return shown
    tail_width = (width - 1) // 2
    tail = "".join(reversed(_within(reversed(shown), tail_width)))
    return "".join(_within(shown, width - 1 - tail_width)) + "…" + tail


def _within(characters: Iterable[str], width: int) -> list[str]:
    """As many of the characters as `width` columns hold."""
    found: list[str] = []
    for character in characters:
        width -= _columns(character)
        if width < 0:
            break
        found.append(character)
    return found


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """`text` in lines of `width` columns, broken at spaces; later lines begin with `indent`.

    Only a word that is longer than a line is cut.
    """
    lines = [""]
    for word in filter(None, text.split(" ")):
        joined = f"{lines[-1]} {word}" if lines[-1].strip() else lines[-1] + word
        if columns_of(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1].strip():
            lines.append(indent)
        rest = word
        while columns_of(lines[-1] + rest) > width:
            part = "".join(_within(rest, max(width - columns_of(lines[-1]), 2)))
            lines[-1] += part
            lines.append(indent)
            rest = rest[len(part) :]
        lines[-1] += rest
    return lines
