"""Fenced blocks of a Markdown page, run in order: commands in `console`, Python in `python`.

A `console` block holds lines "$ command", each followed by what it prints. What a `python` block
prints stands in a `text` block right after it. Blocks of other languages are left alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)  # a backslash goes on in the next line
ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Page:
    """One page's run in `folder`, where `src` leads to the sources as in a clone."""

    folder: Path
    names: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        (self.folder / "src").symlink_to(ROOT / "src")

    def rerun(self, text: str) -> str:
        """The page with what its commands and Python print now."""
        parts: list[str] = []
        end = 0
        printed: str | None = None
        for block in FENCE.finditer(text):
            kind, body = block.groups()
            parts.append(text[end : block.start()])
            if kind == "text" and printed is not None:
                body = printed
            printed = self._python(body) if kind == "python" else None
            if kind == "console":
                body = self._console(body)
            parts.append(f"```{kind}\n{body}```\n")
            end = block.end()
        return "".join([*parts, text[end:]])

    def _console(self, body: str) -> str:
        commands = COMMAND.findall(body)
        return "".join(f"$ {command}\n{self.command(command)}" for command in commands)

    def command(self, command: str) -> str:
        """What a shell command prints, errors among it; "error:" must go with a failure."""
        environment = dict(os.environ)
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        environment["NO_COLOR"] = "1"
        environment.pop("COLUMNS", None)
        made = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder, env=environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        refused = made.stdout.startswith("error:")
        assert (made.returncode == 0) != refused, f"{command}\n{made.stdout}"
        assert "Traceback" not in made.stdout, f"{command}\n{made.stdout}"
        return made.stdout

    def _python(self, body: str) -> str:
        printed = io.StringIO()
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(body, "example", "exec"), self.names)
        finally:
            os.chdir(before)
        return printed.getvalue()
