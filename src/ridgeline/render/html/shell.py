"""What every page is made of: a head whose policy forbids every request, and named sections."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from ridgeline.render.html.elements import Markup, element, safe

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M1 14 8 4h7' fill='none' stroke='%232a6fb0' stroke-width='3'/%3E%3C/svg%3E"
)


def document(
    title: str, body: Sequence[Markup], styles: Sequence[str], scripts: Sequence[str]
) -> str:
    """The whole file. `styles` and `scripts` name files of this package."""
    style, script = _joined(styles), _joined(scripts)
    # For the eye only: a screen reader reads what is chosen from its own label.
    said = element("p", {"id": "said", "aria-hidden": "true"})
    content = "\n".join([*body, said, f"<script>{script}</script>"])
    head = _head(title, style, script)
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n<body>\n{content}\n</body>\n</html>\n'


def data(key: str, value: Any) -> Markup:
    """Figures for the script; "<" is written so that no name can end the element."""
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="{key}">{text}</script>')


def section(key: str, title: str, content: Markup) -> Markup:
    heading = element("h2", {"id": f"{key}-title"}, title)
    return element("section", {"id": key, "aria-labelledby": f"{key}-title"}, heading, content)


def links(sections: Sequence[tuple[str, str]]) -> Markup:
    """The way to each section, by its key and title."""
    made = [element("a", {"href": f"#{key}"}, text) for key, text in sections]
    return element("nav", {"aria-label": "Sections"}, *made)


@cache
def _part(name: str) -> str:
    return (files("ridgeline.render.html") / name).read_text(encoding="utf-8")


def _joined(names: Sequence[str]) -> str:
    return "".join(map(_part, names))


def _head(title: str, style: str, script: str) -> Markup:
    """Title, style, and a policy under which only this page's own style and script work."""
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}';"
        f" script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    return Markup(
        '<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="{ICON}">\n'
        f"<title>{safe(title)}</title>\n<style>{style}</style>\n</head>"
    )


def _digest(text: str) -> str:
    """How a content security policy names the text of a script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
