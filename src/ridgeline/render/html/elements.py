"""HTML and SVG elements in which every text is escaped unless it is Markup already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

# What HTML forbids in a document, and the marks that turn the direction of what follows them.
_UNWANTED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Markup(str):
    """Text that is HTML: made by `element` or written in this package, never by a model."""

    __slots__ = ()


Attributes = Mapping[str, str | int | float]


def safe(text: str) -> Markup:
    """`text` for the page: escaped if it is not Markup, and without control characters."""
    return text if isinstance(text, Markup) else Markup(escape(_UNWANTED.sub("\ufffd", text)))


def element(name: str, attributes: Attributes, *children: str) -> Markup:
    """<name attributes>children</name>."""
    given = "".join(f' {key}="{safe(_text(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Iterable[str]) -> Markup:
    """The children one after the other, escaped where they are not Markup."""
    return Markup("".join(safe(child) for child in children))


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else decimal(value)


def decimal(value: float) -> str:
    """A coordinate: at most two decimals, no exponent."""
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".")
