"""`ridgeline rtl`: a machine as one Verilog file, or as a folder with all that a board needs."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ridgeline import api
from ridgeline.cli.outputs import check_kept, check_writable, say, write_file
from ridgeline.cli.show import stage
from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.machine.description import Machine
from ridgeline.render.plain import visible
from ridgeline.render.table import aligned
from ridgeline.rtl.build import require_tools
from ridgeline.rtl.bus.folder import GENERATOR, MANIFEST, TOPS, Folder, folder
from ridgeline.rtl.bus.shape import ADDRESS_BITS, BURST_BEATS, BusShape
from ridgeline.rtl.bus.verilog import Top, made
from ridgeline.rtl.support import require_machine

_MOST_MANIFEST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RtlOptions:
    """What `ridgeline rtl` was asked for; None where nothing was said."""

    machine: str
    settings: tuple[str, ...]
    output: Path
    top: str | None
    bus_bits: int | None
    address_bits: int | None
    burst_beats: int | None
    counters: bool
    json: bool


def write_rtl(options: RtlOptions) -> None:
    """Write the file or the folder, and say what was made."""
    if options.top is not None and options.top not in TOPS:
        raise RidgelineError(
            f"there is no top '{options.top}'",
            fix=did_you_mean(options.top, TOPS),
        )
    is_file = options.output.suffix == ".v"
    tops = _tops(options.top, is_file)
    _check_options(options, tops)
    if is_file:
        check_writable(options.output, "--output")
    else:
        _check_folder(options.output)
    check_kept({"MACHINE": options.machine}, {"--output": options.output})
    machine = api.load_machine(options.machine, options.settings)
    require_machine(machine)
    bus = _bus(machine, options)
    require_tools("amaranth")
    if is_file:
        _write_file(machine, bus, tops[0], options)
    else:
        _write_folder(machine, bus, tops, options)


def _tops(top: str | None, is_file: bool) -> tuple[str, ...]:
    """The one asked for; else all in a folder, and the core in a file, as no file holds two."""
    if top is not None:
        return (top,)
    return ("core",) if is_file else TOPS


def _check_options(options: RtlOptions, tops: tuple[str, ...]) -> None:
    """Raise RidgelineError for an option that would change nothing."""
    of_axi = {
        "--bus-bits": options.bus_bits,
        "--address-bits": options.address_bits,
        "--burst-beats": options.burst_beats,
    }
    idle = [name for name, value in of_axi.items() if value is not None]
    if "axi" not in tops and idle:
        raise RidgelineError(
            f"{' and '.join(idle)} shape{'' if len(idle) > 1 else 's'} the AXI top only, and it is"
            " not generated",
            fix="Leave it out, or give --top axi",
        )
    if tops == ("core",) and not options.counters:
        raise RidgelineError(
            "the bare core has no counters to leave out",
            fix="Leave --no-counters out, or give --top axi or --top stream",
        )


def _bus(machine: Machine, options: RtlOptions) -> BusShape:
    """As wide as asked for, else as a burst of device memory, rounded to what AXI has."""
    widest = machine.device_memory.burst_bytes * 8
    bits = min(max(widest, 32), 1024) if options.bus_bits is None else options.bus_bits
    bus = BusShape(
        bits,
        ADDRESS_BITS if options.address_bits is None else options.address_bits,
        BURST_BEATS if options.burst_beats is None else options.burst_beats,
    )
    bus.require_room(machine)
    return bus


def _write_file(machine: Machine, bus: BusShape, name: str, options: RtlOptions) -> None:
    with stage("generating"):
        top = made(name, machine, bus, counts=options.counters)
    write_file(options.output, top.text)
    if options.json:
        rows = [asdict(pin) for pin in top.ports]
        about = {"machine": machine.name, "top": top.name, "file": str(options.output)}
        say(json.dumps({**about, "ports": rows}, indent=2))
        return
    lines = len(top.text.splitlines())
    say(visible(f"{options.output}: module {top.name} of machine {machine.name}, {lines:,} lines"))
    for line in _pins(top):
        say(line)


def _pins(top: Top) -> list[str]:
    rows = [(pin.direction, str(pin.bits), pin.name, pin.meaning) for pin in top.ports]
    return aligned([("pin", "bits", "name", ""), *rows], (0, 2, 3))


def _write_folder(
    machine: Machine, bus: BusShape, tops: tuple[str, ...], options: RtlOptions
) -> None:
    with stage("generating"):
        made_folder = folder(machine, bus, tops, counts=options.counters)
    _place(made_folder, options.output)
    if options.json:
        say(made_folder.files[MANIFEST])
        return
    say(visible(f"{options.output}: machine {machine.name}, see README.md in it"))
    rows = [("file", "lines")]
    rows += [(name, f"{len(text.splitlines()):,}") for name, text in made_folder.files.items()]
    for line in aligned(rows):
        say(line)


def _check_folder(path: Path) -> None:
    """Raise RidgelineError where there is something that is no folder of ours, or no room."""
    if path.is_dir():
        if any(path.iterdir()) and _manifest(path) is None:
            raise RidgelineError(
                f"is a folder that {GENERATOR} did not make, and is left alone",
                where=str(path),
                fix="Choose a new folder, or a file that ends in .v, with --output",
            )
        if not os.access(path, os.W_OK):
            raise RidgelineError(
                "cannot be written (the folder may not be written)",
                where=str(path),
                fix="Choose another path with --output",
            )
        return
    if path.exists():
        raise RidgelineError(
            "is a file; the Verilog of a machine goes into a folder, or a file that ends in .v",
            where=str(path),
            fix="Choose another path with --output",
        )
    check_writable(path, "--output")


def _manifest(path: Path) -> list[str] | None:
    """The files of a folder that this command made; None for another one."""
    try:
        with (path / MANIFEST).open("rb") as stream:
            found: Any = json.loads(stream.read(_MOST_MANIFEST_BYTES))
    except (OSError, ValueError):
        return None
    try:
        if found["generator"] != GENERATOR:
            return None
        return [str(name) for name in found["files"]]
    except (KeyError, TypeError):
        return None


def _place(made_folder: Folder, path: Path) -> None:
    """A new folder appears whole; in one of ours, files are replaced and old ones go."""
    old = _manifest(path) if path.is_dir() else None
    if old is not None:
        for name in set(old) - set(made_folder.files):
            if Path(name).name == name:
                (path / name).unlink(missing_ok=True)
        for name, text in made_folder.files.items():
            write_file(path / name, text)
        return
    beside = Path(tempfile.mkdtemp(prefix=".ridgeline-", dir=path.resolve().parent))
    try:
        for name, text in made_folder.files.items():
            write_file(beside / name, text)
        umask = os.umask(0)
        os.umask(umask)
        beside.chmod(0o777 & ~umask)
        # An empty folder that is there already is replaced.
        os.replace(beside, path)
    except OSError as error:
        raise RidgelineError(
            f"cannot be written ({error.strerror})",
            where=str(path),
            fix="Choose another path with --output",
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
