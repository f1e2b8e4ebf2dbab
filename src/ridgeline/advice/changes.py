"""The changes that are tried: of the model, of the batch, of the chip."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from ridgeline.advice.case import Case, Change
from ridgeline.advice.reshape import chained, grown, rounded_channels
from ridgeline.chips.sheet import Chip, Sourced
from ridgeline.predict.choose import Figure, scaled
from ridgeline.predict.formats import FORMATS
from ridgeline.roofline.roof import roof_of, storage_of
from ridgeline.workload.layer import Workload

TIMES = (4, 16, 64)
"""Batches tried, in multiples of the one asked for."""
GRID_CHANNELS = 64
"""Columns that kernels for tensor cores like to have: four fragments of 16."""
MORE = 2
FIGURES: tuple[tuple[Figure, str], ...] = (
    ("bandwidth", "bandwidth"),
    ("peak", "arithmetic"),
    ("on-chip memory", "on-chip memory"),
    ("link", "host link"),
)


def changes(case: Case, model: str, target: str) -> Iterator[Change]:
    """All that apply to this chip. `model` and `target`, such as "--chip l4", are for commands."""
    yield from _fusions(case)
    yield from _precisions(case, model, target)
    for times in TIMES:
        after = replace(case, workload=grown(case.workload, times))
        name = f"batch {after.workload.batch:,}"
        check = _command(model, target, after)
        if case.workload.batch_axis:
            check = f"give analyze a --shape whose second dimension is {after.workload.batch}"
        yield Change("batch", name, after, check)
    yield from _channels(case)
    yield from _kept(case)
    check = "zero two of each four weights, then " + (
        f"trtexec --onnx={shlex.quote(model)} --sparsity=force"
        if case.chip.vendor == "NVIDIA"
        else "time it"
    )
    yield Change("sparsity", "2:4 sparse weights", replace(case, sparse=True), check)
    for figure, name in FIGURES:
        if has(case.chip, figure):
            more = replace(case, chip=with_more(case.chip, figure, MORE))
            yield Change("machine", f"{name} x {MORE}", more, _slower(case, figure))


def has(chip: Chip, figure: Figure) -> bool:
    """Whether the sheet has the figure, so that more of it can be costed."""
    if figure == "link":
        return any(x.bandwidth is not None and x.name.startswith("PCIe") for x in chip.links)
    if figure == "on-chip memory":
        return any(m.level == "on-chip" and m.size is not None for m in chip.memories)
    return True


def with_more(chip: Chip, figure: Figure, factor: float) -> Chip:
    """The chip with a figure multiplied; of the rates of memories, the main memory's alone."""
    if figure != "bandwidth":
        return scaled(chip, figure, factor)
    main = chip.main_memory

    def faster(one: Sourced | None) -> Sourced | None:
        return None if one is None else replace(one, value=one.value * factor)

    memories = tuple(
        replace(m, bandwidth=faster(m.bandwidth)) if m is main else m for m in chip.memories
    )
    return replace(chip, memories=memories)


def _fusions(case: Case) -> Iterator[Change]:
    workload, joined = chained(case.workload)
    if joined:
        yield Change(
            *("fusion", f"fuse {joined:,} vector layers"),
            replace(case, workload=workload),
            f"each into what makes its input: a profile shows {len(workload.layers):,} kernels,"
            f" not {len(case.workload.layers):,}",
        )


def _precisions(case: Case, model: str, target: str) -> Iterator[Change]:
    """Those that are no wider, of weights alone and of activations too."""
    now = storage_of(case.precision)
    names = [*case.chip.precisions(), *(f for f in FORMATS if f.endswith("_wo"))]
    for name in dict.fromkeys(names):
        of = FORMATS.get(name)
        if of is not None and not set(of.peaks) & set(case.chip.precisions()):
            continue
        then = storage_of(name)
        wider = then.weight_bits > now.weight_bits or then.activation_bits > now.activation_bits
        if name == case.precision or wider:
            continue
        only = "weights alone" if name.endswith("_wo") else "weights and activations"
        if then.weight_bits != then.activation_bits and not name.endswith("_wo"):
            only = f"weights, {then.activation_bits}-bit activations"
        after = replace(case, precision=name)
        label = name.removesuffix("_wo")
        yield Change("precision", f"{label} {only}", after, _command(model, target, after))


def _channels(case: Case) -> Iterator[Change]:
    """To whole tiles: more channels cost what they cost, fewer need the model trained again."""
    roof = roof_of(case.chip, case.precision)
    side = roof.array.cols if roof.array is not None else GRID_CHANNELS if roof.grid else 0
    if not side:
        return

    def up(n: int) -> int:
        return ceil(n / side) * side

    def down(n: int) -> int:
        return n if n < side else n // side * side

    for rounding, name in ((up, "pad"), (down, "cut")):
        workload = rounded_channels(case.workload, rounding)
        if [x.products for x in workload.layers] == [x.products for x in case.workload.layers]:
            continue
        text = f"{name} channels to {side}s"
        check = f"export it so (cut: trained again) and analyze it: MACs {_macs(workload)}"
        yield Change("channels", text, replace(case, workload=workload), check)


def _macs(workload: Workload) -> str:
    return "unknown" if workload.macs is None else f"{workload.macs:,}"


def _kept(case: Case) -> Iterator[Change]:
    """On-chip memory for all weights and results at once: what keeping them there can give."""
    roof = roof_of(case.chip, case.precision)
    near = roof.on_chip
    if near is None or near.size is None or near is roof.memory:
        return
    bits = roof.storage
    stored = case.workload.stored_as(bits.weight_bits, bits.activation_bits)
    results = sum(o.stored_bytes for x in stored.layers for o in x.operands if o.role != "weight")
    needed = stored.parameter_bytes + results
    if needed <= near.size.value:
        return
    larger = with_more(case.chip, "on-chip memory", needed / near.size.value)
    check = f"bytes through {roof.memory.name}: inputs and outputs alone are left"
    yield Change(
        "on chip", f"keep all {needed / 1e6:,.3g} MB on chip", replace(case, chip=larger), check
    )


def _command(model: str, target: str, after: Case) -> str:
    command = f"ridgeline analyze {shlex.quote(model)} {target} --precision {after.precision}"
    # Where steps come first, a batch is part of a shape, and refused as an option.
    return command if after.workload.batch_axis else f"{command} --batch {after.workload.batch}"


_CLOCKS = {
    "bandwidth": "nvidia-smi --lock-memory-clocks",
    "peak": "nvidia-smi --lock-gpu-clocks",
}


def _slower(case: Case, figure: Figure) -> str:
    """More of a figure cannot be bought to try it, less of it can: what that would cost."""
    was = case.bound().seconds.likely
    less = replace(case, chip=with_more(case.chip, figure, 0.5))
    longer = less.bound().seconds.likely / was - 1 if was else 0.0
    how = _CLOCKS.get(figure, "") if case.chip.vendor == "NVIDIA" else ""
    return f"with half of it the time grows by {100 * longer:.0f} %" + (f" ({how})" if how else "")
