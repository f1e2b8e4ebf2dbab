"""How fast a program is executed bit for bit, beside ONNX Runtime's INT8 on the same network.

    python benchmarks/execute.py
    python benchmarks/execute.py --machine edge-4tops --side 224 --json

Builds ResNet-50 with random weights, quantises it, compiles it for each machine and executes it.
Both run on one thread, in turns; seconds are processor seconds, the least of some repeats. "first"
makes the plan and runs it, "again" runs it once more, "one by one" has no plan.
"""

from __future__ import annotations

import os

# Before NumPy is imported: as many threads as ONNX Runtime has here.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from processor_time import measured
from resnet50 import resnet50

from ridgeline import api
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.frontend.runtime import OnnxRuntimeExecutor, create_session
from ridgeline.ir import Graph
from ridgeline.machine.execute import Execution, memories_singly

MACHINES = ("tpu-v1", "edge-4tops", "server-hbm")


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured on one machine. Ratios are to ONNX Runtime."""

    machine: str
    instructions: int
    onnxruntime_seconds: float
    first_seconds: float
    again_seconds: float
    singly_seconds: float
    first_ratio: float
    again_ratio: float
    values: int
    different_values: int


def quantised(side: int, batch: int) -> tuple[Graph, dict[str, Any]]:
    """ResNet-50 in INT8, and images to run it on."""
    rng = np.random.default_rng(1)
    graph = api.read_onnx(resnet50(side), batch=batch)
    samples = rng.standard_normal((4 * batch, 3, side, side)).astype(np.float32)
    images = rng.standard_normal((batch, 3, side, side)).astype(np.float32)
    return api.quantize(graph, {"image": samples}), {"image": images}


def row(name: str, graph: Graph, inputs: dict[str, Any], repeats: int) -> Row:
    """Compile for the machine of this name, and measure."""
    program = api.compile(graph, api.load_machine(name))
    session = create_session(onnx_bytes(graph))
    (expected,) = session.run(None, inputs)
    # The first use of the libraries is not the program's.
    np.ones((64, 64), np.float32) @ np.ones((64, 64), np.float32)
    reference: list[float] = []
    first: list[float] = []
    again: list[float] = []
    for _ in range(repeats):
        planned, execution = measured(Execution, program, OnnxRuntimeExecutor())
        ran, outputs = measured(execution.run, inputs)
        first.append(planned + ran)
        reference.append(measured(session.run, None, inputs)[0])
        again.append(measured(execution.run, inputs)[0])
    singly, _ = measured(memories_singly, program, inputs, OnnxRuntimeExecutor())
    (made,) = outputs.values()
    return Row(
        machine=name,
        instructions=len(program.instructions),
        onnxruntime_seconds=min(reference),
        first_seconds=min(first),
        again_seconds=min(again),
        singly_seconds=singly,
        first_ratio=min(first) / min(reference),
        again_ratio=min(again) / min(reference),
        values=made.size,
        different_values=int(np.count_nonzero(made != expected)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--machine", action="append", help="may be given more than once")
    parser.add_argument("--side", type=int, default=128, help="height and width of an image")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    graph, inputs = quantised(given.side, given.batch)
    rows = [row(name, graph, inputs, given.repeats) for name in given.machine or MACHINES]
    if given.json:
        print(json.dumps([asdict(one) for one in rows], indent=2))
        return
    print(f"ResNet-50, batch {given.batch}, {given.side} x {given.side}; processor seconds")
    print("| machine | instructions | ONNX Runtime | first | ratio | again | ratio | one by one |")
    print("|---|" + "---:|" * 7)
    for one in rows:
        print(
            f"| {one.machine} | {one.instructions:,} | {one.onnxruntime_seconds:.4f}"
            f" | {one.first_seconds:.3f} | {one.first_ratio:.1f}"
            f" | {one.again_seconds:.3f} | {one.again_ratio:.1f} | {one.singly_seconds:.2f} |"
        )
    print(
        f"{sum(one.different_values for one in rows)} of {rows[0].values * len(rows)} values differ"
    )


if __name__ == "__main__":
    main()
