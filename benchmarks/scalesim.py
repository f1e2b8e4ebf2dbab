"""Our array beside SCALE-Sim's on ResNet-50, with the reason for each cycle of difference.

    python benchmarks/scalesim.py

prints the tables of docs/validation.md. The layers are in data/resnet50_gemms.csv: the shapes that
MLPerf's ResNet-50 has in SCALE-Sim's topology file (no padding; strides in the first 1x1
convolution of a stage), and `outputs`, the pixels that the layer really has (padding; stride in the
3x3 convolution).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from ridgeline.machine.closed_forms import Comparison, Gemm, compare, scalesim_cycles
from ridgeline.machine.description import Dataflow

LAYERS = Path(__file__).parent / "data" / "resnet50_gemms.csv"
SIDES = (256, 128, 32)
FLOWS: tuple[Dataflow, ...] = ("weight-stationary", "output-stationary", "input-stationary")


@dataclass(frozen=True, slots=True)
class ConvolutionLayer:
    """One layer as a GEMM: with SCALE-Sim's count of output pixels, and with the true one."""

    name: str
    simulated: Gemm
    true: Gemm


def read_layers(path: Path = LAYERS) -> list[ConvolutionLayer]:
    with path.open(encoding="utf-8") as file:
        return [_layer(row) for row in csv.DictReader(file)]


def _layer(row: dict[str, str]) -> ConvolutionLayer:
    stride = int(row["stride"])
    pixels = 1
    for side in ("height", "width"):
        # Without padding, and rounded up: SCALE-Sim's rule.
        pixels *= -(-(int(row[side]) - int(row[f"filter_{side}"]) + stride) // stride)
    depth = int(row["filter_height"]) * int(row["filter_width"]) * int(row["channels"])
    filters = int(row["filters"])
    return ConvolutionLayer(
        row["layer"], Gemm(pixels, depth, filters), Gemm(int(row["outputs"]), depth, filters)
    )


def total(layers: list[ConvolutionLayer], side: int, flow: Dataflow) -> tuple[int, Comparison]:
    """(cycles that SCALE-Sim reports, the comparison of both on the true sizes), summed."""
    reported = sum(scalesim_cycles(one.simulated, side, side, flow) for one in layers)
    each = [compare(one.true, side, side, flow) for one in layers]
    reasons = {name: sum(one.reasons[name] for one in each) for name in each[0].reasons}
    return reported, Comparison(
        sum(one.simulated for one in each), sum(one.ours for one in each), reasons
    )


def main() -> None:
    layers = read_layers()
    sums = {(flow, side): total(layers, side, flow) for flow in FLOWS for side in SIDES}
    names = list(next(iter(sums.values()))[1].reasons)
    print("| cycles | " + " | ".join(f"{flow} {side}" for flow, side in sums) + " |")
    print("|---|" + "---:|" * len(sums))
    lines = {
        "SCALE-Sim, its sizes": [reported for reported, _ in sums.values()],
        "output pixels that it leaves out": [
            one.simulated - reported for reported, one in sums.values()
        ],
        "SCALE-Sim's formula, true sizes": [one.simulated for _, one in sums.values()],
        **{name: [-one.reasons[name] for _, one in sums.values()] for name in names},
        "Ridgeline, true sizes": [one.ours for _, one in sums.values()],
    }
    for name, values in lines.items():
        print(f"| {name} | " + " | ".join(f"{value:,}" for value in values) + " |")


if __name__ == "__main__":
    main()
