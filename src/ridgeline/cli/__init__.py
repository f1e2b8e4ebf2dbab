"""The command line. Only here are errors caught and turned into a message and an exit code."""

from __future__ import annotations


def main() -> None:
    """The console script `ridgeline`."""
    try:
        from ridgeline.cli.app import app

        app()
    except KeyboardInterrupt:
        from ridgeline.cli.failure import interrupted

        raise SystemExit(interrupted()) from None
