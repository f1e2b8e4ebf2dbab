"""How commands print: reports in the format asked for, progress on a terminal's stderr only."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from enum import StrEnum

from ridgeline.cli.outputs import note, say
from ridgeline.errors import RidgelineError
from ridgeline.results.columns import COLUMNS, choose_columns
from ridgeline.results.rows import Report

PIPED_WIDTH = 80


Done = Callable[[int], None]
"""Called with how many more steps of some work are done."""


class Format(StrEnum):
    """How a report is printed."""

    text = "text"
    markdown = "markdown"
    csv = "csv"
    json = "json"


def _is_terminal() -> bool:
    """Whether a person watches stdout, which may be closed."""
    return sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def terminal_width() -> int:
    """Characters in a line of stdout; 80 when it is no terminal."""
    if not _is_terminal() and "COLUMNS" not in os.environ:
        return PIPED_WIDTH
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns


def show_report(report: Report, form: Format, columns: Sequence[str]) -> None:
    """Print the report to stdout."""
    from ridgeline.render import csv, json, markdown, text

    chosen = choose_columns(columns) if columns else None
    if form is Format.json:
        say(json.render(report))
    elif form is Format.csv:
        say(csv.render(report, chosen))
    elif form is Format.markdown:
        say(markdown.render(report, chosen))
    else:
        say(_bold_title(text.render(report, terminal_width(), chosen)))
    if form is Format.csv:
        for remark in report.notes:
            note(f"note: {remark}")


def _bold_title(shown: str) -> str:
    if not _is_terminal() or os.environ.get("NO_COLOR"):
        return shown
    title, newline, rest = shown.partition("\n")
    return f"\x1b[1m{title}\x1b[0m{newline}{rest}"


@contextmanager
def stage(what: str, total: int = 1) -> Generator[Done]:
    """Say what is being done while it is done, where a person watches stderr.

    Work of more than one step, `total`, has a bar; call what this gives with how many more are
    done.
    """
    if not _watched():
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}")]
    if total > 1:
        columns += [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total if total > 1 else None)
        yield lambda count: bar.advance(task, count)


def _nothing(count: int) -> None:
    return None


def _watched() -> bool:
    """Whether a person watches stderr, which may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def split_columns(texts: Sequence[str]) -> list[str]:
    """Column keys of options that are repeated or hold commas.

    Raises RidgelineError for options that name none.
    """
    keys = [key.strip() for text in texts for key in text.split(",") if key.strip()]
    if texts and not keys:
        known = ", ".join(column.key for column in COLUMNS)
        raise RidgelineError("names no column", where="--columns", fix=f"Known: all, {known}")
    return keys
