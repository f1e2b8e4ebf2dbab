"""Published figures of whole models, and what can be predicted of each: `data/whole_models.toml`.

A figure is predicted where it was measured on one chip of the catalogue by known software; every
other says why it is not.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ridgeline.chips.loader import chip_names, load_chip
from ridgeline.chips.sheet import Chip
from ridgeline.errors import RidgelineError
from ridgeline.predict.language import decode, language_models, prefill, weights_of
from ridgeline.predict.networks import network, tables
from ridgeline.predict.work import Work, capacity_bytes, rates_of

SHORT_CONTEXT = 128
"""Tokens, where a source does not say how long its texts are: short ones, for all we know."""
KINDS = {
    "target": "a target that a configuration sets, which nobody measured",
    "estimate": "the maker's estimate, which nobody measured",
    "claim": "a claim of the maker or the press",
    "service": "a service over a network: chips, batch and queue are unknown",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure, as seconds of one run: `work` is None where `refused` says why.

    `group` is the class of chips and the software, whose constants it shares.
    """

    model: str
    chip: str
    metric: str
    value: float
    unit: str
    kind: str
    source: str
    software: str
    precision: str
    note: str
    refused: str
    work: Work | None
    seconds: float | None

    @property
    def group(self) -> str:
        return f"{class_of(load_chip(self.chip))}, {self.software}" if self.work else ""


def class_of(chip: Chip) -> str:
    """The class that constants belong to: NVIDIA gpu, Apple gpu, cpu, ..."""
    return f"{chip.vendor} {chip.chip_class}" if chip.chip_class == "gpu" else chip.chip_class


@cache
def figures() -> tuple[Figure, ...]:
    """All that are kept here, in the order of their sources."""
    path = resources.files("ridgeline.predict") / "data" / "whole_models.toml"
    data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(_figure(row, data["sources"][row["source"]]) for row in data["rows"])


def _figure(row: dict[str, Any], source: str) -> Figure:
    work, refused = None, _refused(row)
    if not refused:
        try:
            work = _work(row)
            rates_of(load_chip(row["chip"]), work.peaks)
            refused = _impossible(row, work)
        except RidgelineError as error:
            refused = error.what
        work = None if refused else work
    value, unit = _value(row)
    seconds = None
    if work is not None:
        seconds = value if unit == "s" else work.items / value
    return Figure(
        *(row["model"], row["chip"], row["metric"], value, unit, row["kind"], source),
        *(row.get("software", ""), row.get("weights") or row.get("precision", "")),
        *(row.get("note", ""), refused, work, seconds),
    )


def _value(row: dict[str, Any]) -> tuple[float, str]:
    for key, unit in (
        ("tokens_per_s", "tokens/s"),
        ("samples_per_s", "samples/s"),
        ("seconds", "s"),
    ):
        if key in row:
            return row[key], unit
    low, _, high = row["gb_per_s"].partition("-")
    return (float(low) + float(high or low)) / 2 * 1e9, "bytes/s"


def _refused(row: dict[str, Any]) -> str:
    if row["kind"] != "measured":
        return KINDS[row["kind"]]
    if row["metric"] == "bandwidth":
        return "the rate of a memory, not the time of a model"
    if row.get("chips", 1) > 1:
        return f"tensor parallel on {row['chips']} chips: links are not modelled"
    if row["chip"] not in chip_names():
        return f"no sheet of {row['chip']} is in the catalogue"
    if row.get("repeats"):
        return "the same figure stands in another row"
    if row.get("fault"):
        return "a fault of software, by the source's own figure of a slower part"
    if row.get("length_unstated"):
        return "texts are shorter than the length stated and packed"
    if row.get("threads", 0) == 1:
        return "one thread, and the sheet's peak is that of all cores"
    if row.get("software") == "ncnn Vulkan":
        return "shaders: no other chip of a sheet was measured with this software"
    if row["model"] not in language_models() and row["model"] not in tables():
        return f"the shape of {row['model']} is not kept here"
    return ""


def _work(row: dict[str, Any]) -> Work:
    batch = row.get("batch", 1)
    if row["metric"] not in ("decode", "prefill"):
        # Offline: as many at once as are best, of which 128 is more than enough to hide launches.
        count = 128 if batch == "offline" else batch
        return network(row["model"], row["precision"], count, row.get("tokens"))
    model, stored = language_models()[row["model"]], weights_of(row["weights"])
    if row["metric"] == "prefill":
        return prefill(model, stored, batch, row["prompt"])
    context = row.get("prompt", 0) + row.get("generated", 2 * SHORT_CONTEXT) // 2
    return decode(model, stored, batch, max(1, context))


def _impossible(row: dict[str, Any], work: Work) -> str:
    """A figure that its own chip contradicts is of something else."""
    chip = load_chip(row["chip"])
    size = capacity_bytes(chip)
    if size is not None and work.stored_bytes > 1.1 * size:
        return "the model does not fit into the chip's memory"
    return ""
