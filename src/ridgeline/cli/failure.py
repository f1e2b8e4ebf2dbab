"""Errors into one message on stderr and an exit code: 2 for a fault, 130 for Ctrl-C."""

from __future__ import annotations

import os
import sys
from typing import Any

from typer.core import TyperGroup

from ridgeline.cli import interrupts
from ridgeline.cli.memory import limit_text
from ridgeline.errors import RidgelineError
from ridgeline.render.plain import visible

FAULT = 2
BROKEN_PIPE = 141


class Commands(TyperGroup):
    """The group of all commands; what they raise ends here."""

    def invoke(self, ctx: Any) -> Any:
        try:
            interrupts.work_begins()
            result = super().invoke(ctx)
            if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]
                sys.stdout.flush()
        except BaseException as error:
            interrupts.work_ends()
            code = _exit_code(error, self._has_batch(ctx))
            if code is None:
                raise
            ctx.exit(code)
        else:
            interrupts.work_ends()
            return result

    def _has_batch(self, ctx: Any) -> bool:
        """Whether the command that ran takes --batch."""
        command = self.commands.get(ctx.invoked_subcommand or "")
        return command is not None and any(p.name == "batch" for p in command.params)


def _exit_code(error: BaseException, has_batch: bool) -> int | None:
    """Tell what happened; the exit code, or None for what is not told here."""
    if isinstance(error, KeyboardInterrupt) or interrupts.seen():
        return interrupted()
    if isinstance(error, RidgelineError):
        return fault(str(error))
    if isinstance(error, MemoryError):
        advice = "a smaller --batch" if has_batch else "a smaller model or fewer samples"
        limit = limit_text()
        return fault(f"there is not enough memory{f' ({limit})' if limit else ''}. Use {advice}")
    if isinstance(error, BrokenPipeError):
        # The reader, such as `head`, has seen enough. Python would complain at its exit.
        discard_stdout()
        return BROKEN_PIPE
    if isinstance(error, OSError) and error.filename is not None:
        # Files are opened where their faults have words of their own; this is for all others.
        reason = error.strerror or error
        return fault(f"{error.filename}: cannot be used ({reason}). Check the path")
    return None


def discard_stdout() -> None:
    """Send what stdout still holds, and all that follows, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fault(message: str) -> int:
    """Print the one message of a fault, in one line; its exit code."""
    print(f"error: {visible(message)}", file=sys.stderr)
    return FAULT


def interrupted() -> int:
    """Say so; the exit code of a program that Ctrl-C ended."""
    interrupts.tell(sys.stderr)
    return interrupts.INTERRUPTED
