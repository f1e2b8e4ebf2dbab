"""Code broken on purpose: a function of the project with a piece of its text replaced."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def rewritten(function: Callable[..., Any], old: str, new: str) -> Callable[..., Any]:
    """The function made from the same text with `old`, which stands in it once, replaced.

    Fails where the text has changed, so that no mutation is silently none.
    """
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) == 1, f"{function.__qualname__} has {text.count(old)} times {old!r}"
    code = compile(
        "from __future__ import annotations\n" + text.replace(old, new), "<rewritten>", "exec"
    )
    made: dict[str, Any] = {}
    exec(code, function.__globals__, made)
    return made[function.__name__]
