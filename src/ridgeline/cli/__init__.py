"""The command line. Only here are errors caught and turned into a message and an exit code."""

from __future__ import annotations


def main() -> None:
    """The console script `ridgeline`."""
    try:
        _main()
    except KeyboardInterrupt:
        import os

        os.write(2, b"interrupted\n")
        raise SystemExit(130) from None


def _main() -> None:
    from ridgeline.cli import interrupts
    from ridgeline.cli.memory import limit_memory

    interrupts.before_work()
    limit_memory()
    from ridgeline.cli.app import app

    try:
        app()
    except SystemExit as ending:
        # Typer ends a command that is interrupted between its steps without a word.
        if ending.code == interrupts.INTERRUPTED and not interrupts.told():
            raise KeyboardInterrupt from None
        raise
    finally:
        interrupts.work_ends()
