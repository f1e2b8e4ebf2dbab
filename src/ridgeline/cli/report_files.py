"""The files that a report may go to beside what is printed: trace, JSON and web page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ridgeline.cli.outputs import check_distinct, check_kept, check_writable, note, write_file
from ridgeline.machine.simulate import Trace
from ridgeline.results.rows import Report


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """Paths as the options have them; None writes nothing."""

    trace: Path | None = None
    json: Path | None = None
    html: Path | None = None

    def check(self, read: Mapping[str, Path | str | None]) -> None:
        """Raise RidgelineError before the work if one of them could not be written after it, or is
        one of the files that are read, each under what the command line calls it.
        """
        paths = self.paths()
        for option, path in paths.items():
            check_writable(path, option)
        check_distinct(paths)
        check_kept(read, paths)

    def paths(self) -> dict[str, Path | None]:
        """The path of each option."""
        return {"--trace": self.trace, "--json": self.json, "--html": self.html}

    def write(self, report: Report, trace: Trace) -> None:
        """Write those that are wanted."""
        if self.trace is not None:
            from ridgeline.render import perfetto

            write_file(self.trace, perfetto.render(trace))
            note(f"trace written to {self.trace}: open it at https://ui.perfetto.dev")
        if self.json is not None:
            from ridgeline.render import json

            write_file(self.json, json.render(report))
        if self.html is not None:
            from ridgeline.render.html import page

            write_file(self.html, page.render(report, trace))
