"""The one family of errors that a user can cause: what is wrong, where, and what to do next.

Only the command line catches `RidgelineError`; it prints the message and exits with code 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RidgelineError(Exception):
    """A fault in what the user gave (a file, a machine, an option), told so that it can be mended.

    `what` names the fault with the value seen, `where` the file, node or TOML key, `fix` the next
    step. The text is `where: what. fix`.
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.fix = fix
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text}. {fix}" if fix else text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint such as "Did you mean 'tiny-16'?", or what is known when nothing is near."""
    choices = sorted(set(known))
    alike = [choice for choice in choices if choice.lower() == name.lower()]
    near = alike or difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
    if near:
        return "Did you mean " + " or ".join(f"'{n}'" for n in near) + "?"
    return "Known: " + ", ".join(choices)
