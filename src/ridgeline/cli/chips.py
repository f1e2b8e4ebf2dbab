"""`ridgeline chips`: the catalogue of spec sheets, one sheet, several side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ridgeline.chips.custom import custom_chip
from ridgeline.chips.loader import chip_names, load_chip
from ridgeline.chips.sheet import PRECISIONS, Chip
from ridgeline.chips.versus import compare as versus_of
from ridgeline.chips.versus import require_two
from ridgeline.cli.outputs import say
from ridgeline.cli.show import terminal_width
from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.render import chips as render


def show_list(chip_class: str | None, precision: str | None, as_json: bool) -> None:
    """Print a line for each chip of the catalogue, of one class or precision if given."""
    chips = [load_chip(name) for name in chip_names()]
    if chip_class is not None:
        classes = {chip.chip_class for chip in chips}
        if chip_class not in classes:
            fix = did_you_mean(chip_class, classes)
            raise RidgelineError(f"no chip is a '{chip_class}'", where="--class", fix=fix)
        chips = [chip for chip in chips if chip.chip_class == chip_class]
    if precision is not None:
        _check_precision(precision)
        chips = [chip for chip in chips if precision in chip.precisions()]
    _print([summary(chip) for chip in chips] if as_json else render.catalogue(chips, precision))


def show_chip(name: str | None, peaks: Sequence[str], bandwidth: str | None, as_json: bool) -> None:
    """Print a sheet with every figure, or that of the user's own figures."""
    chip = _chosen([name] if name else [], peaks, bandwidth)
    if len(chip) != 1:
        raise RidgelineError(
            "needs one chip", where="chips show", fix="Name one, or give --peak and --bandwidth"
        )
    data = {**asdict(chip[0]), "summary": summary(chip[0])}
    _print(data if as_json else render.sheet(chip[0], terminal_width()))


def show_comparison(
    names: Sequence[str],
    precision: str | None,
    peaks: Sequence[str],
    bandwidth: str | None,
    as_json: bool,
) -> None:
    """Print chips side by side, and the least time of four products on each."""
    chips = _chosen(names, peaks, bandwidth)
    require_two(chips)
    if precision is not None:
        _check_precision(precision)
    versus = versus_of(chips, precision)
    if not as_json:
        say(render.comparison(chips, versus))
        return
    _print(
        {
            "chips": [summary(chip) for chip in chips],
            "precision": versus.precision if versus else None,
            "cases": [asdict(case) for case in versus.cases] if versus else [],
            "crossover_operations_per_byte": (
                versus.crossover_operations_per_byte if versus else None
            ),
        }
    )


def show_model_on(
    model: Path,
    batch: int | None,
    names: Sequence[str],
    precision: str | None,
    peaks: Sequence[str],
    bandwidth: str | None,
    as_json: bool,
) -> None:
    """Print a model's workload on each chip, in the precision given or the usual one of each."""
    from ridgeline.render import analysis
    from ridgeline.roofline.estimate import bound_of
    from ridgeline.roofline.roof import usual_precision
    from ridgeline.workload.read import read_workloads

    chips = _chosen(names, peaks, bandwidth)
    require_two(chips)
    workload = read_workloads(model, [batch])[0]
    bounds = [bound_of(workload, chip, precision or usual_precision(chip)) for chip in chips]
    if as_json:
        _print(analysis.document([analysis.as_json(bound) for bound in bounds]))
    else:
        say(analysis.comparison(bounds))


def show_timeline(every: bool, as_json: bool) -> None:
    """Print the chips that were first in something by year, or all."""
    chips = [load_chip(name) for name in chip_names()]
    chosen = [chip for chip in chips if every or chip.milestone]
    chosen.sort(key=lambda chip: (chip.year, chip.name))
    _print([summary(chip) for chip in chosen] if as_json else render.timeline(chosen))


def _chosen(names: Sequence[str], peaks: Sequence[str], bandwidth: str | None) -> list[Chip]:
    chips = [load_chip(name) for name in names]
    if peaks or bandwidth is not None:
        chips.append(custom_chip(peaks, bandwidth))
    return chips


def _check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        fix = did_you_mean(precision, PRECISIONS)
        raise RidgelineError(f"there is no precision '{precision}'", where="--precision", fix=fix)


def summary(chip: Chip) -> dict[str, Any]:
    """The figures that lists show; None is unknown."""
    memory, head = chip.main_memory, chip.headline
    return {
        "name": chip.name,
        "title": chip.title,
        "vendor": chip.vendor,
        "year": chip.year,
        "class": chip.chip_class,
        "milestone": chip.milestone or None,
        "headline_operations_per_s": head.operations.value if head else None,
        "headline_precision": head.precision if head else None,
        "headline_flags": list(head.flags) if head else [],
        "memory_bytes_per_s": memory.bandwidth.value if memory and memory.bandwidth else None,
        "tdp_watts": chip.tdp.value if chip.tdp else None,
        "peaks": [
            {
                "precision": peak.precision,
                "accumulate": peak.accumulate or None,
                "engine": peak.engine or None,
                "dense_operations_per_s": peak.dense.value,
                "sparse_operations_per_s": peak.sparse.value if peak.sparse else None,
                "balance_operations_per_byte": {
                    m.name: chip.balance(peak, m) for m in chip.memories if m.bandwidth
                },
            }
            for peak in chip.peaks
        ],
        "attainable_operations_per_s": {
            one.precision: one.operations.value
            for one in sorted(chip.achieved, key=lambda a: a.operations.value)
        },
    }


def _print(what: str | list[Any] | dict[str, Any]) -> None:
    say(what if isinstance(what, str) else json.dumps(what, indent=2))
