"""Synthesis and place and route of a design, each result kept by its content."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ridgeline.errors import RidgelineError
from ridgeline.files import write_whole
from ridgeline.rtl.build import cache_folder
from ridgeline.rtl.fpga.design import Design
from ridgeline.rtl.fpga.fit import require_fit
from ridgeline.rtl.fpga.harness import harness
from ridgeline.rtl.fpga.parts import ECP5, Part
from ridgeline.rtl.fpga.placement import CriticalPath, Placement, place_in
from ridgeline.rtl.fpga.synthesis import Resources, Synthesis, synthesise_in
from ridgeline.rtl.fpga.tools import NEXTPNR, YOSYS, require_fpga_tools, tool_versions

TARGET_HZ = 100e6
"""What place and route strives for unless told otherwise."""

Progress = Callable[[str], None]
"""Called with what is being done whenever something else begins."""


@dataclass(frozen=True, slots=True)
class Build:
    """What became of a design on a part; `placement` is None where it was only counted."""

    design: str
    part: str
    synthesis: Synthesis
    placement: Placement | None


def synthesise(design: Design, part: Part, progress: Progress | None = None) -> Build:
    """What a design takes of a part, by synthesis alone. It need not fit.

    Raises RidgelineError where a tool is missing or fails.
    """
    require_fpga_tools("amaranth", YOSYS)
    key = _key(design, part, tool_versions(YOSYS))
    known = _known(key)
    if known is not None:
        return known
    _tell(progress, f"synthesising {design.name}")
    with _folder() as folder:
        made = Build(design.name, part.name, synthesise_in(folder, design, part), None)
    _keep(key, made)
    return made


def place(
    design: Design,
    part: Part,
    *,
    target_hz: float = TARGET_HZ,
    seed: int = 1,
    progress: Progress | None = None,
) -> Build:
    """Synthesise a design, in a harness, and place and route it on a part: minutes.

    Raises RidgelineError where a tool is missing or fails, for a part that is only counted, and for
    a design that does not fit.
    """
    if not part.is_placed:
        raise RidgelineError(
            "is counted by synthesis and not placed", where=part.name, fix="Place on an ECP5 part"
        )
    require_fpga_tools()
    key = _key(design, part, [*tool_versions(YOSYS, NEXTPNR), f"{target_hz:g} {seed}"])
    known = _known(key)
    if known is not None:
        return known
    _tell(progress, f"synthesising {design.name}")
    with _folder() as folder:
        synthesis = synthesise_in(folder, design, part)
        require_fit(design.name, synthesis.resources, part)
        _tell(progress, f"placing and routing {design.name} on {part.full_name}")
        placement = place_in(folder, design.name, part, target_hz, seed)
    made = Build(design.name, part.full_name, synthesis, placement)
    _keep(key, made)
    return made


def _tell(progress: Progress | None, what: str) -> None:
    if progress is not None:
        progress(what)


def build_to_dict(build: Build) -> dict[str, Any]:
    """For JSON; `build_from_dict` reads it back."""
    return asdict(build)


def build_from_dict(data: dict[str, Any]) -> Build:
    """What `build_to_dict` wrote."""
    synthesis, placed = dict(data["synthesis"]), data["placement"]
    resources = Resources(**synthesis.pop("resources"))
    return Build(
        design=data["design"],
        part=data["part"],
        synthesis=Synthesis(resources=resources, **synthesis),
        placement=None if placed is None else _placement(dict(placed)),
    )


def _placement(data: dict[str, Any]) -> Placement:
    critical = CriticalPath(**data.pop("critical"))
    return Placement(critical=critical, **data)


def _key(design: Design, part: Part, depends: list[str]) -> str:
    """A digest of all that decides a result, the scripts of this package among it."""
    around = harness(design).verilog if part.family == ECP5 else ""
    content = repr((design, around, part, depends, _scripts()))
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _scripts() -> str:
    here = Path(__file__).parent
    return "".join((here / n).read_text("utf-8") for n in ("synthesis.py", "placement.py"))


def _cache() -> Path:
    return cache_folder() / "fpga"


def _known(key: str) -> Build | None:
    kept = _cache() / f"{key}.json"
    if not kept.exists():
        return None
    return build_from_dict(json.loads(kept.read_text(encoding="utf-8")))


def _keep(key: str, made: Build) -> None:
    text = json.dumps(build_to_dict(made), indent=2)
    write_whole(_cache() / f"{key}.json", text.encode())


@contextmanager
def _folder() -> Generator[Path]:
    """A folder of its own for one build: the tools see no other, and no output of an earlier one.

    Raises RidgelineError where the cache's folder cannot be written.
    """
    try:
        _cache().mkdir(parents=True, exist_ok=True)
        made = tempfile.TemporaryDirectory(dir=_cache(), prefix=".build-")
    except OSError as error:
        raise RidgelineError(
            f"an FPGA build cannot be made there ({error.strerror})",
            where=str(_cache()),
            fix="Name a writable folder in RIDGELINE_CACHE",
        ) from error
    with made as place:
        yield Path(place)
