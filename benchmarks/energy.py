"""Energy and power beside what is published of TPU v1, NVDLA and Eyeriss.

    python benchmarks/energy.py [tpu-v1] [nvdla] [eyeriss]

prints the table of docs/energy.md. A cell holds within a factor of 2.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from energy_models import ALEXNET, Convolution, cnn0, mlp0, resnet50

from ridgeline import api
from ridgeline.machine.description import Machine
from ridgeline.machine.energy import activity_table, work_joules
from ridgeline.machine.instructions import (
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    MatMul,
    Requant,
    Store,
)
from ridgeline.results.rows import Report

DATA = Path(__file__).parent / "data"
INT16 = 2


@dataclass(frozen=True, slots=True)
class Cell:
    """A published figure and ours, both in `unit`."""

    machine: str
    what: str
    unit: str
    published: float
    ours: float

    @property
    def ratio(self) -> float:
        return self.ours / self.published

    @property
    def holds(self) -> bool:
        return 0.5 <= self.ratio <= 2

    def row(self) -> str:
        verdict = "yes" if self.holds else "**no**"
        return (
            f"| {self.machine} | {self.what} | {self.published:.3g} {self.unit} |"
            f" {self.ours:.3g} {self.unit} | {self.ratio:.2f} | {verdict} |"
        )


def run(model: bytes, machine: Machine) -> Report:
    """A network quantised on one random sample, compiled and simulated."""
    graph = api.read_onnx(model)
    entry = graph.inputs[0]
    sample = np.random.default_rng(1).standard_normal(entry.type.shape).astype(np.float32)
    program = api.compile(api.quantize(graph, {entry.name: sample}), machine)
    return api.report(program, api.simulate(program))


def tpu_v1() -> Iterator[Cell]:
    """Jouppi et al. 2017, table 2: 40 W busy, 28 W idle, measured on its die."""
    for name, model in (("MLP0", mlp0), ("CNN0", cnn0)):
        watts = run(model(), api.load_machine("tpu-v1")).average_watts
        assert watts is not None
        yield Cell("TPU v1", f"{name}, power when busy", "W", 40, watts)
        yield Cell("TPU v1", f"{name}, busy less idle", "W", 12, watts - 28)


def nvdla() -> Iterator[Cell]:
    """NVDLA Primer, 2048 multipliers at 16 nm and 1 GHz: ResNet-50, 269 frames/s, 766 / 291 mW."""
    report = run(resnet50(), api.load_machine(DATA / "nvdla.toml"))
    power, joules, watts = report.power, report.energy_joules, report.average_watts
    assert power is not None
    assert power.peak_watts is not None
    assert joules is not None
    assert watts is not None
    yield Cell("NVDLA", "ResNet-50, average power", "mW", 291, 1e3 * watts)
    yield Cell("NVDLA", "ResNet-50, peak power", "mW", 766, 1e3 * power.peak_watts)
    yield Cell("NVDLA", "ResNet-50, energy of a frame", "mJ", 291 / 269, 1e3 * joules)


def eyeriss() -> Iterator[Cell]:
    """Chen et al. 2017: AlexNet's convolutions, 278 mW at 34.7 frames/s, without DRAM."""
    machine = api.load_machine(DATA / "eyeriss.toml")
    joules = sum(_tiled_joules(layer, machine) for layer in ALEXNET)
    yield Cell("Eyeriss", "AlexNet convolutions, energy of a frame", "mJ", 278 / 34.7, 1e3 * joules)


def _tiled_joules(layer: Convolution, machine: Machine) -> float:
    """Of a layer's tiles as instructions, without the compiler's search, which takes hours for an
    array of 168 elements: weights once, every pixel's inputs loaded once, sums of int16 by k.
    """
    counted: Counter[Instruction] = Counter()
    array = machine.array
    depth = layer.kernel**2 * layer.into
    for rows, row_tiles in _parts(depth, array.rows):
        for cols, col_tiles in _parts(layer.out, array.cols):
            tiles = layer.groups * row_tiles * col_tiles
            counted[LoadWeights(k=rows, n=cols, row_stride=cols)] += tiles
            for pixels, times in _parts(layer.pixels, array.accumulator_entries):
                matmul = MatMul(
                    format=INT16, k=rows, n=cols, count_0=pixels, stride_0=1,
                    x_step=1, x_limit=pixels, accumulate=1,
                )  # fmt: skip
                counted[matmul] += tiles * times
    for cols, col_tiles in _parts(layer.out, array.cols):
        once = layer.groups * col_tiles
        counted[LoadParams(count=cols)] += once
        for pixels, times in _parts(layer.pixels, array.accumulator_entries):
            counted[Requant(out_format=INT16, channels=cols, count_0=pixels)] += once * times
        whole = {"element_bytes": cols, "count_0": layer.pixels, "device_stride_0": cols}
        counted[Store(**whole)] += 2 * once
        counted[Load(**whole)] += 2 * once
    kinds = list(counted)
    assert machine.energy is not None
    each = work_joules(activity_table(kinds, machine), machine.energy, machine)
    return float(each @ np.asarray([counted[kind] for kind in kinds]))


def _parts(total: int, most: int) -> list[tuple[int, int]]:
    """(size, how many) of the parts of at most `most`."""
    whole, rest = divmod(total, most)
    return [(most, whole)] * bool(whole) + [(rest, 1)] * bool(rest)


MACHINES: dict[str, Callable[[], Iterator[Cell]]] = {
    "tpu-v1": tpu_v1,
    "nvdla": nvdla,
    "eyeriss": eyeriss,
}


def main() -> None:
    print("| machine | figure | published | ours | ratio | within 2 |")
    print("|---|---|---|---|---|---|")
    for name in sys.argv[1:] or MACHINES:
        for cell in MACHINES[name]():
            print(cell.row(), flush=True)


if __name__ == "__main__":
    main()
