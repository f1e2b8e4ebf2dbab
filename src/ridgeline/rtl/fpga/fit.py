"""Whether a design fits a part, and what would."""

from __future__ import annotations

from ridgeline.errors import RidgelineError
from ridgeline.rtl.fpga.parts import Part, parts
from ridgeline.rtl.fpga.synthesis import RESOURCES, Resources, shortage


def require_fit(name: str, resources: Resources, part: Part) -> None:
    """Raise RidgelineError, with each resource of which there is too little, unless it fits."""
    short = shortage(resources, part)
    if not short:
        return
    told = ", ".join(
        f"{needed:,} {RESOURCES[resource]} and has {there:,}"
        for resource, (needed, there) in short.items()
    )
    raise RidgelineError(
        f"{name} does not fit: it needs {told}", where=part.name, fix=_nearest(resources, part)
    )


def _nearest(resources: Resources, part: Part) -> str:
    """The smallest part of the family that holds it, else by how much the array must shrink."""
    larger = sorted(
        (p for p in parts().values() if p.family == part.family and not shortage(resources, p)),
        key=lambda p: p.luts,
    )
    if larger:
        return f"The smallest {part.family} part that holds it is {larger[0].name}"
    factor = max(needed / there for needed, there in shortage(resources, part).values())
    return (
        f"No {part.family} part holds it: take a machine of 1/{factor:.1f} of it"
        " (fewer array.rows and array.cols, a smaller unified_buffer.bytes)"
    )
