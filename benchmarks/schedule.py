"""How near schedules come to what no schedule can beat: four networks, three machines.

    python benchmarks/schedule.py
    python benchmarks/schedule.py --network resnet50 --machine edge-4tops --batch 1

Each network is quantised (to the nearest step: a schedule does not depend on weights), compiled and
simulated; the cycles of its device segments stand beside those of `compiler/bounds.py`. "bound" is
the largest of the layers' least cycles one after the other, compulsory bytes over the memory's
bandwidth, and bytes over the link's. "floor" lets layers overlap as no dependency would. "ideal" is
MACs over the array's peak. Quantised networks are kept in build/schedule.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import exp, log
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from mobilenetv2 import mobilenetv2
from resnet50 import resnet50

from published.catalogue import open_model
from ridgeline import api
from ridgeline.compiler.bounds import bounds
from ridgeline.files import write_whole
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.ir import Graph
from ridgeline.quant.recipe import Recipe

NETWORKS = ("resnet50", "mobilenetv2", "efficientnet_lite0", "ppocrv4_det")
MACHINES = ("tpu-v1", "edge-4tops", "server-hbm")
BATCHES = (1, 8)
SHAPES = {"ppocrv4_det": (3, 320, 320)}
"""Of one image, where it is not 3 x 224 x 224."""
CACHE = Path(__file__).parents[1] / "build" / "schedule"


@dataclass(frozen=True, slots=True)
class Row:
    """One network on one machine. Ratios are cycles over the bound, the floor and the ideal."""

    network: str
    machine: str
    batch: int
    instructions: int
    cycles: int
    bound_cycles: int
    limit: str
    floor_cycles: int
    ideal_cycles: int
    ratio: float
    floor_ratio: float
    ideal_ratio: float
    compile_seconds: float


def float_model(name: str) -> Path | bytes:
    """The ONNX file of a network, or its bytes."""
    made = {"resnet50": resnet50, "mobilenetv2": mobilenetv2}
    return made[name](224) if name in made else open_model(name)


def quantised(name: str, batch: int) -> Graph:
    """The network in INT8, from the folder of those made before where it is there."""
    model = float_model(name)
    data = model if isinstance(model, bytes) else model.read_bytes()
    path = CACHE / f"{name}-{batch}-{sha256(data).hexdigest()[:12]}.onnx"
    if not path.exists():
        shape = (batch, *SHAPES.get(name, (3, 224, 224)))
        name_of_input = "image" if isinstance(model, bytes) else "x"
        graph = api.read_onnx(model, shapes={name_of_input: shape})
        samples = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        made = api.quantize(graph, {name_of_input: samples}, Recipe(rounding="nearest"))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, onnx_bytes(made))
    return api.read_onnx(path)


def measure(name: str, machine_name: str, batch: int) -> Row:
    """Compile and simulate one network on one machine."""
    graph, machine = quantised(name, batch), api.load_machine(machine_name)
    start = time.process_time()
    program = api.compile(graph, machine)
    cycles = api.simulate(program).device_cycles
    seconds = time.process_time() - start
    least = bounds(graph, machine)
    return Row(
        network=name,
        machine=machine_name,
        batch=batch,
        instructions=len(program.instructions),
        cycles=cycles,
        bound_cycles=least.cycles,
        limit=least.limit,
        floor_cycles=least.floor_cycles,
        ideal_cycles=round(least.ideal_cycles),
        ratio=cycles / least.cycles,
        floor_ratio=cycles / least.floor_cycles,
        ideal_ratio=cycles / least.ideal_cycles,
        compile_seconds=round(seconds, 1),
    )


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def line(row: Row) -> str:
    return (
        f"| {row.network} | {row.machine} | {row.batch} | {row.instructions:,} | {row.cycles:,}"
        f" | {row.bound_cycles:,} | {row.limit} | {row.ratio:.2f} | {row.floor_ratio:.2f}"
        f" | {row.ideal_ratio:.2f} | {row.compile_seconds} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--network", action="append", choices=NETWORKS)
    parser.add_argument("--machine", action="append", choices=MACHINES)
    parser.add_argument("--batch", action="append", type=int)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows: list[Row] = []
    if not given.json:
        print("| network | machine | batch | instructions | cycles | bound | limit | ratio", end="")
        print(" | to floor | to ideal | compile s |")
        print("|---|---|---:|---:|---:|---:|---|" + "---:|" * 4)
    for machine in given.machine or MACHINES:
        for batch in given.batch or BATCHES:
            own = [measure(name, machine, batch) for name in given.network or NETWORKS]
            rows += own
            if not given.json:
                for row in own:
                    print(line(row))
                ratio, floor = (mean([r.ratio for r in own]), mean([r.floor_ratio for r in own]))
                print(f"| mean | {machine} | {batch} | | | | | {ratio:.3f} | {floor:.3f} | | |")
                sys.stdout.flush()
    if given.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
