"""Other people's models on a machine: how much of each runs on the accelerator, and how fast.

    python benchmarks/models.py [MODEL ...] [--machine NAME] [--json]

Prints the table of docs/models.md. Inputs and calibration samples are seeded random numbers: the
figures are of places and times, and say nothing of accuracy (see benchmarks/accuracy.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from published.catalogue import listed, open_listed
from ridgeline import api
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph
from ridgeline.machine.program import HostSegment
from ridgeline.passes.pipeline import is_quantised

_SAMPLES = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One model on one machine. `macs_on_device` is a share; `host` counts operators that work."""

    model: str
    kind: str
    operators: int
    macs: int
    macs_on_device: float
    host_segments: int
    host: dict[str, int]
    cycles: int
    processor_seconds: float


def measure(name: str, machine_name: str) -> Row:
    """Read, quantise, compile and simulate. Raises RidgelineError."""
    start = time.process_time()
    entry = listed()[name]
    shapes = {k: tuple(v) for k, v in entry.get("shapes", {}).items()}
    graph = api.read_onnx(open_listed(name), shapes=shapes or None)
    quantised = graph if is_quantised(graph) else api.quantize(graph, random_samples(graph))
    program = api.compile(quantised, api.load_machine(machine_name))
    trace = api.simulate(program)
    macs = sum(layer.macs for layer in program.layers)
    device = sum(layer.macs for layer in program.layers if layer.placed != "host")
    segments = [s for s in program.segments if isinstance(s, HostSegment)]
    host = Counter(layer.op for layer in program.layers if layer.placed == "host")
    return Row(
        model=name,
        kind=entry["kind"],
        operators=len(quantised.nodes),
        macs=macs,
        macs_on_device=device / macs if macs else 0.0,
        host_segments=len(segments),
        host=dict(host.most_common(6)),
        cycles=trace.cycles,
        processor_seconds=round(time.process_time() - start, 1),
    )


def random_samples(graph: Graph) -> dict[str, Any]:
    """Seeded inputs: standard normal numbers, or small integers for ids and masks."""
    random = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for value in graph.inputs:
        shape = value.type.shape
        shape = (shape[0] * _SAMPLES, *shape[1:]) if shape else shape
        dtype = value.type.dtype
        numbers = random.standard_normal(shape) if dtype.is_float else random.integers(0, 2, shape)
        made[value.name] = np.asarray(numbers).astype(dtype.numpy)
    return made


def _line(row: Row) -> str:
    host = ", ".join(f"{count} {op}" for op, count in row.host.items())
    return (
        f"| {row.model} | {row.kind} | {row.operators} | {row.macs / 1e6:,.1f} |"
        f" {100 * row.macs_on_device:.2f} | {row.host_segments} | {row.cycles:,} | {host} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(listed()))
    parser.add_argument("--machine", default="edge-4tops")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    options = parser.parse_args()
    failed = 0
    for name in options.models or listed():
        try:
            row = measure(name, options.machine)
        except RidgelineError as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        print(json.dumps(asdict(row)) if options.json else _line(row), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
