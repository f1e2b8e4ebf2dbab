"""Fit the constants of `ridgeline.predict` on measured products, and say how far off they are.

    RIDGELINE_REFERENCE=DIR python benchmarks/gemm.py [--write]

DIR/data/gemm_measured.csv holds 15,000 products on A100 SXM4 and H100 SXM5, from
ai-dynamo/aiconfigurator at 095f58a (data: Apache-2.0). --write puts the constants into
src/ridgeline/predict/data/gemm.toml. data/gemm_measured.csv has 84 of each chip and format, drawn
at random, for the tests that need no DIR.
SciPy comes with scikit-learn.
"""

from __future__ import annotations

import argparse
import csv
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from ridgeline.chips.loader import load_chip
from ridgeline.predict.constants import SIDES
from ridgeline.predict.formats import FORMATS, peak_of
from ridgeline.predict.gemm import bandwidth_of, hardware_of, side_of
from ridgeline.predict.model import ClassConstants, FormatConstants, Hardware, Times, times

TARGET = Path(__file__).parents[1] / "src/ridgeline/predict/data/gemm.toml"
SOURCE = (
    "fitted by benchmarks/gemm.py on 15,000 products measured with TensorRT-LLM 1.0.0 (A100 SXM4)"
    " and 1.3.0rc20 (H100 SXM5), ai-dynamo/aiconfigurator@095f58a"
)
CHIPS = {"A100 SXM4": "a100-sxm4-80gb", "H100 SXM5": "h100-sxm5"}
NAMES = {"bfloat16": "bf16", "fp8": "fp8", "sq": "int8", "int8_wo": "int8_wo", "int4_wo": "int4_wo"}
LOAD_BYTES_PER_CYCLE = 64.0
"""Of one processor from L2: the width of its port, assumed; 45 does about as well. Not fitted."""
OVERLAP = 3.0
"""Not fitted: 3 and 4 do equally well."""
TAILS = (7.5, 92.5)
"""Per cent of the products that are faster, and slower or equal, than the interval's ends."""
PARTS = {"bf16": 16, "fp8": 4, "int8": 1, "int8_wo": 4, "int4_wo": 4}
"""The most parts of k: of 1, 2, 4 and 16 those with the least error. Only int8 has none at all."""
VECTOR_ROWS = {"int8": 4}
"""Its products of up to 4 rows do not take longer with k, as those of 8 and more do."""
Key = tuple[str, str]
Fit = tuple[ClassConstants, FormatConstants]


@dataclass(frozen=True, slots=True)
class Measured:
    """Products [products, 3] of one chip and format, and their seconds [products]."""

    hardware: Hardware
    shapes: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.float64]


def read(path: Path) -> dict[Key, Measured]:
    """The measured products of a CSV file by chip and format."""
    rows: dict[Key, list[tuple[int, int, int, float]]] = {}
    with path.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            key = (CHIPS[row["chip"]], NAMES[row["format"]])
            shape = (int(row["m"]), int(row["n"]), int(row["k"]))
            rows.setdefault(key, []).append((*shape, float(row["latency_ms"]) / 1e3))
    found: dict[Key, Measured] = {}
    for (name, form), entries in rows.items():
        chip = load_chip(name)
        peak = peak_of(chip, FORMATS[form]).dense.value
        hardware = hardware_of(chip, peak, bandwidth_of(chip))
        assert hardware is not None
        table = np.array(entries)
        found[name, form] = Measured(hardware, table[:, :3].astype(np.int64), table[:, 3])
    return found


def predicted(form: str, data: Measured, fit: Fit) -> Times:
    return times(data.hardware, FORMATS[form].storage, *fit, data.shapes)


def errors(form: str, data: Measured, fit: Fit) -> npt.NDArray[np.float64]:
    """Absolute error of each product, as part of the measured time."""
    return np.abs(predicted(form, data, fit).seconds / data.seconds - 1)


def _every(data: Measured, step: int) -> Measured:
    return Measured(data.hardware, data.shapes[::step], data.seconds[::step])


def _constants(form: str, x: npt.NDArray[np.float64], common: ClassConstants | None) -> Fit:
    launch, compute, bandwidth, loop = x[0] * 1e-6, x[1], x[2], x[3]
    if common is None:
        common = ClassConstants(x[4], x[5] * 1e-6, LOAD_BYTES_PER_CYCLE, OVERLAP)
    rows = VECTOR_ROWS.get(form, 0)
    return common, FormatConstants(launch, compute, bandwidth, PARTS[form], loop, rows)


def fit(
    form: str, measured: list[Measured], common: ClassConstants | None = None, step: int = 4
) -> Fit:
    """The constants with the least median plus mean error on every `step`-th product.

    With `common` given, only those of the format.
    """
    start = np.array([3.0 if form == "bf16" else 10.0, 0.9, 0.8, 2.0, 16.0, 3.0])
    start = start if common is None else start[:4]
    some = [_every(data, step) for data in measured]

    def loss(x: npt.NDArray[np.float64]) -> float:
        if x.min() <= 0 or x[1] > 1 or x[2] > 1:
            return 9.0
        found = [errors(form, data, _constants(form, x, common)) for data in some]
        both = np.concatenate(found)
        return float(both.mean() + np.median(both))

    made = minimize(loss, start, method="Nelder-Mead", options={"maxfev": 600})
    return _constants(form, made.x, common)


def fit_all(data: dict[Key, Measured], step: int = 4) -> dict[str, Fit]:
    """bf16, which both chips have, gives the constants of the class; the others their own four."""
    common, of_bf16 = fit("bf16", [d for (_, f), d in data.items() if f == "bf16"], None, step)
    fits = {"bf16": (common, of_bf16)}
    for form in ("fp8", "int8", "int8_wo", "int4_wo"):
        measured = [d for (_, f), d in data.items() if f == form]
        fits[form] = fit(form, measured, common, step)
    return fits


def left_out(data: dict[Key, Measured], step: int = 4) -> dict[Key, npt.NDArray[np.float64]]:
    """Measured over predicted time of each chip, by constants of the other chip alone.

    bf16 is on both chips. Of the 8-bit formats each has one, so fp8 takes the constants of int8 and
    the other way round. Weight-only formats, on the A100 only, take the H100's: launch of fp8 (both
    are operators with a step before the product), fractions of bf16, which they are multiplied in.
    """
    ratios: dict[Key, npt.NDArray[np.float64]] = {}
    a100, h100 = CHIPS.values()
    for chip, other, form, near in (
        *((a100, h100, "bf16", "bf16"), (h100, a100, "bf16", "bf16")),
        *((a100, h100, "int8", "fp8"), (h100, a100, "fp8", "int8")),
        *((a100, h100, "int8_wo", "bf16"), (a100, h100, "int4_wo", "bf16")),
    ):
        common, of_bf16 = fit("bf16", [data[other, "bf16"]], None, step)
        constants = of_bf16
        if near != "bf16":
            _, constants = fit(near, [data[other, near]], common, step)
        elif form != "bf16":
            _, eight = fit("fp8", [data[other, "fp8"]], common, step)
            constants = replace(of_bf16, launch_seconds=eight.launch_seconds)
        held = data[chip, form]
        ratios[chip, form] = held.seconds / predicted(form, held, (common, constants)).seconds
    return ratios


def spreads(data: dict[Key, Measured], fits: dict[str, Fit]) -> dict[str, dict[str, list[float]]]:
    """Of each format and side, measured over predicted time: the points of TAILS."""
    found: dict[str, dict[str, list[float]]] = {}
    for form, constants in fits.items():
        by_side: dict[str, list[float]] = {side: [] for side in SIDES}
        for (_, f), measured in data.items():
            if f != form:
                continue
            made = predicted(form, measured, constants)
            for i, seconds in enumerate(measured.seconds):
                by_side[side_of(made, i)].append(float(seconds / made.seconds[i]))
        found[form] = {s: [float(q) for q in np.percentile(r, TAILS)] for s, r in by_side.items()}
    return found


def interval(form: str, data: Measured, constants: Fit, spread: dict[str, list[float]]) -> str:
    """How many products lie in their intervals, and half the width of the median one."""
    made = predicted(form, data, constants)
    ends = np.array([spread[side_of(made, i)] for i in range(len(data.seconds))])
    ratio = data.seconds / made.seconds
    inside = np.mean((ends[:, 0] <= ratio) & (ratio <= ends[:, 1]))
    half = np.median(ends[:, 1] - ends[:, 0]) / 2
    return f"in the interval {inside:.1%}, which is ±{half:.0%} wide (median)"


def text(
    fits: dict[str, Fit],
    spread: dict[str, dict[str, list[float]]],
    outside: list[float],
    errs: dict[Key, npt.NDArray[np.float64]],
) -> str:
    """The data file."""
    common = fits["bf16"][0]
    lines = [
        f'source = "{SOURCE}"',
        f"chips = [{', '.join(repr(c) for c in CHIPS.values())}]".replace("'", '"'),
        "",
        "[class]",
        f"tile_edge_elements = {common.tile_edge_elements:.4g}",
        f"split_seconds = {common.split_seconds:.4g}",
        f"load_bytes_per_cycle = {common.load_bytes_per_cycle:g}",
        f"overlap = {common.overlap:g}",
        "",
        "# Measured over predicted time on a chip that was left out: 7.5 % and 92.5 % points.",
        "[elsewhere]",
        f"spread = [{outside[0]:.3f}, {outside[1]:.3f}]",
    ]
    for form, (_, one) in fits.items():
        lines += ["", f"[formats.{form}.constants]", f"launch_seconds = {one.launch_seconds:.4g}"]
        lines.append(f"compute_fraction = {one.compute_fraction:.3g}")
        lines.append(f"bandwidth_fraction = {one.bandwidth_fraction:.3g}")
        lines.append(f"loop_cycles = {one.loop_cycles:.3g}")
        lines.append(f"most_parts = {one.most_parts}")
        lines += [f"vector_rows = {one.vector_rows}"] if one.vector_rows else []
        for (chip, f), e in errs.items():
            if f == form:
                lines.append(f"# {chip}: error median {np.median(e):.1%}, mean {e.mean():.1%}")
        lines.append(f"[formats.{form}.spread]")
        lines += [f"{s} = [{low:.3f}, {high:.3f}]" for s, (low, high) in spread[form].items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the data file")
    wanted = parser.parse_args()
    data = read(Path(os.environ["RIDGELINE_REFERENCE"]) / "data" / "gemm_measured.csv")
    fits = fit_all(data)
    errs = {(chip, f): errors(f, one, fits[f]) for (chip, f), one in data.items()}
    ratios = left_out(data)
    for (chip, form), e in errs.items():
        print(f"{chip:15} {form:8} median {np.median(e):6.1%}  mean {e.mean():6.1%}")
    for (chip, form), r in ratios.items():
        e = np.abs(1 / r - 1)
        print(f"{chip:15} {form:8} left out: median {np.median(e):6.1%}  mean {e.mean():6.1%}")
    spread = spreads(data, fits)
    for (chip, form), one in data.items():
        print(f"{chip:15} {form:8} {interval(form, one, fits[form], spread[form])}")
    outside = [float(q) for q in np.percentile(np.concatenate(list(ratios.values())), TAILS)]
    made = text(fits, spread, outside, errs)
    print(made)
    if wanted.write:
        TARGET.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
