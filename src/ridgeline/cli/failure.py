"""Errors into one message on stderr and an exit code: 2 for a fault, 130 for Ctrl-C."""

from __future__ import annotations

import os
import sys
from typing import Any

from typer.core import TyperGroup

from ridgeline.errors import RidgelineError

FAULT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


class Commands(TyperGroup):
    """The group of all commands; what they raise ends here."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]
                sys.stdout.flush()
        except RidgelineError as error:
            ctx.exit(fault(str(error)))
        except MemoryError:
            ctx.exit(fault("there is not enough memory. Use a smaller --batch"))
        except KeyboardInterrupt:
            ctx.exit(interrupted())
        except BrokenPipeError:
            # The reader, such as `head`, has seen enough. Python would complain at its exit.
            discard_stdout()
            ctx.exit(BROKEN_PIPE)
        else:
            return result


def discard_stdout() -> None:
    """Send what stdout still holds, and all that follows, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fault(message: str) -> int:
    """Print the one message of a fault; its exit code."""
    print(f"error: {message}", file=sys.stderr)
    return FAULT


def interrupted() -> int:
    """Say so; the exit code of a program that Ctrl-C ended."""
    print("interrupted", file=sys.stderr)
    return INTERRUPTED
