"""How fast a model becomes a program and a program becomes cycles, beside other simulators.

    python benchmarks/speed.py
    python benchmarks/simulators/environments.py FOLDER
    python benchmarks/speed.py --scalesim FOLDER/scalesim/bin/python \
        --zigzag FOLDER/zigzag/bin/python

ResNet-50 with random weights, batch 1, 128 x 128, on each machine: from the float file to a program
(read, quantise with four images, compile), then from the quantised graph to cycles (compile and
simulate; "first" in its process, then the best and the median of some repeats), simulate alone, and
the memory of the process that did it, Python, libraries and model included. Seconds are processor
seconds, every row in a process of its own; OpenBLAS has one thread, since what idle ones wait would
count. Other simulators run in environments of their own, in the same run.
"""

from __future__ import annotations

import os

# Before NumPy is imported, here and in every process started from here.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from processor_time import measured
from resnet18 import resnet18
from resnet50 import resnet50

from ridgeline import api
from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_writer import onnx_bytes

HERE = Path(__file__).parent
MACHINES = ("tpu-v1", "edge-4tops", "server-hbm")
# An array as large as the one that SCALE-Sim is given; the rest is the shipped machine's.
SQUARE = ("array.rows=128", "array.cols=128", "array.stream_after_rows=128")


@dataclass(frozen=True, slots=True)
class Row:
    """Processor seconds and bytes of one machine."""

    machine: str
    instructions: int
    cycles: int
    read_seconds: float
    quantise_seconds: float
    program_seconds: float
    first_seconds: float
    best_seconds: float
    median_seconds: float
    simulate_seconds: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Beside:
    """Another simulator, and ours on the same layers; `elsewhere`: it did not run here and now."""

    simulator: str
    network: str
    machine: str
    elsewhere: bool
    its_seconds: float
    its_peak_bytes: int
    first_seconds: float
    best_seconds: float
    ratio: float
    best_ratio: float


def samples(side: int) -> dict[str, Any]:
    """Four images for calibration."""
    rng = np.random.default_rng(1)
    return {"image": rng.standard_normal((4, 3, side, side)).astype(np.float32)}


def to_program(path: str, side: int, machine: str) -> dict[str, float]:
    """Seconds of each step from a float file to a program."""
    read, graph = measured(lambda: api.read_onnx(path, batch=1))
    quantise, graph = measured(api.quantize, graph, samples(side))
    compiling, _ = measured(api.compile, graph, api.load_machine(machine))
    return {"read": read, "quantise": quantise, "program": read + quantise + compiling}


def to_cycles(path: str, repeats: int, machine: str, settings: Sequence[str]) -> dict[str, Any]:
    """Seconds from a quantised graph to cycles, again and again, and the memory of the first."""
    graph, chosen = api.read_onnx(path), api.load_machine(machine, settings)
    whole: list[float] = []
    alone: list[float] = []
    peak_bytes = 0
    for _ in range(1 + repeats):
        compiling, program = measured(api.compile, graph, chosen)
        simulating, trace = measured(api.simulate, program)
        whole.append(compiling + simulating)
        alone.append(simulating)
        peak_bytes = peak_bytes or own_peak_bytes()
    return {
        "first": whole[0],
        "best": min(whole[1:]),
        "median": statistics.median(whole[1:]),
        "simulate": min(alone),
        "peak_bytes": peak_bytes,
        "instructions": len(program.instructions),
        "cycles": trace.cycles,
    }


def own_peak_bytes() -> int:
    """The most memory that this process had; `getrusage` would count that of its parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    raise RuntimeError("no peak in /proc/self/status")


def in_process(work: Callable[..., Any], *given: Any) -> Any:
    """What a function of this file returns in a process of its own."""
    told = json.dumps([work.__name__, *given])
    return answer([sys.executable, __file__, "--work", told], f"{work.__name__} of {given[-1]}")


def answer(command: list[str], what: str) -> Any:
    """The JSON in the last line that a command prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RidgelineError(
            f"{what} ended with exit code {done.returncode}",
            where=" ".join(command[:2]),
            fix="Make its environment: python benchmarks/simulators/environments.py FOLDER",
        )
    return json.loads(done.stdout.splitlines()[-1])


def files(folder: Path, depth: int, side: int) -> tuple[str, str]:
    """Paths of a network's float file and of its quantised one."""
    made = (folder / f"resnet{depth}-{side}.onnx", folder / f"resnet{depth}-{side}-int8.onnx")
    made[0].write_bytes({18: resnet18, 50: resnet50}[depth](side))
    graph = api.quantize(api.read_onnx(made[0], batch=1), samples(side))
    made[1].write_bytes(onnx_bytes(graph))
    return str(made[0]), str(made[1])


def rows(folder: Path, machines: Sequence[str], side: int, repeats: int) -> list[Row]:
    floats, quantised = files(folder, 50, side)
    made: list[Row] = []
    for name in machines:
        steps = in_process(to_program, floats, side, name)
        found = in_process(to_cycles, quantised, repeats, name, [])
        made.append(
            Row(
                machine=name,
                instructions=found["instructions"],
                cycles=found["cycles"],
                read_seconds=steps["read"],
                quantise_seconds=steps["quantise"],
                program_seconds=steps["program"],
                first_seconds=found["first"],
                best_seconds=found["best"],
                median_seconds=found["median"],
                simulate_seconds=found["simulate"],
                peak_bytes=found["peak_bytes"],
            )
        )
    return made


def beside(folder: Path, scalesim: str, zigzag: str, repeats: int) -> list[Beside]:
    """Other simulators; those whose Python is not given are left out."""
    made: list[Beside] = []
    _, large = files(folder, 50, 224)
    if scalesim:
        ours = in_process(to_cycles, large, repeats, "tpu-v1", SQUARE)
        its = of_scalesim(scalesim)
        made.append(pair("SCALE-Sim 3.0.0", "ResNet-50", "tpu-v1 with 128 x 128", its, ours))
    if zigzag:
        its = answer([zigzag, str(HERE / "simulators" / "run_zigzag.py")], "ZigZag")
        _, small = files(folder, 18, 224)
        ours = in_process(to_cycles, small, repeats, "tpu-v1", [])
        made.append(pair("ZigZag 3.9.1", "ResNet-18", "tpu-v1", its, ours))
    # ONNXim (PSAL-POSTECH/ONNXim, C++) has no package: measured once, with 4 arrays of 128 x 128.
    its = {"processor_seconds": 14.3, "peak_bytes": 0}
    ours = in_process(to_cycles, large, repeats, "server-hbm", [])
    made.append(pair("ONNXim", "ResNet-50", "server-hbm", its, ours, elsewhere=True))
    return made


def of_scalesim(python: str) -> Any:
    """What SCALE-Sim took for the layers of ResNet-50."""
    from scalesim import LAYERS, read_layers, scalesim_cycles

    run = str(HERE / "simulators" / "run_scalesim.py")
    its = answer([python, run, str(LAYERS), "128"], "SCALE-Sim")
    # The run that is timed did every layer: its cycles are those of the closed forms.
    layers = [one.simulated for one in read_layers()]
    expected = sum(scalesim_cycles(one, 128, 128, "weight-stationary") for one in layers)
    if its["cycles"] != expected:
        raise RidgelineError(f"SCALE-Sim reports {its['cycles']} cycles, not {expected}")
    return its


def pair(
    simulator: str, network: str, machine: str, its: Any, ours: Any, *, elsewhere: bool = False
) -> Beside:
    seconds = its["processor_seconds"]
    return Beside(
        simulator=simulator,
        network=network,
        machine=machine,
        elsewhere=elsewhere,
        its_seconds=seconds,
        its_peak_bytes=its["peak_bytes"],
        first_seconds=ours["first"],
        best_seconds=ours["best"],
        ratio=seconds / ours["first"],
        best_ratio=seconds / ours["best"],
    )


def print_rows(made: Sequence[Row], side: int) -> None:
    print(f"ResNet-50, batch 1, {side} x {side}; processor seconds")
    print(
        "| machine | instructions | cycles | read | quantise | read to program |"
        " compile + simulate, first | best | median | simulate | peak MB |"
    )
    print("|---|" + "---:|" * 10)
    for one in made:
        print(
            f"| {one.machine} | {one.instructions:,} | {one.cycles:,} | {one.read_seconds:.2f}"
            f" | {one.quantise_seconds:.2f} | {one.program_seconds:.2f} | {one.first_seconds:.2f}"
            f" | {one.best_seconds:.2f} | {one.median_seconds:.2f} | {one.simulate_seconds:.3f}"
            f" | {one.peak_bytes / 1e6:,.0f} |"
        )


def print_beside(made: Sequence[Beside]) -> None:
    print("\nBatch 1, 224 x 224; processor seconds of a whole run, and ours of compile + simulate")
    print(
        "| simulator | network | its seconds | its peak MB | our machine | ours, first | ratio"
        " | ours, best | ratio |"
    )
    print("|---|---|---:|---:|---|" + "---:|" * 4)
    for one in made:
        peak = f"{one.its_peak_bytes / 1e6:,.0f}" if one.its_peak_bytes else ""
        seconds = f"{one.its_seconds:.1f}" + (" (not in this run)" if one.elsewhere else "")
        print(
            f"| {one.simulator} | {one.network} | {seconds} | {peak} | {one.machine}"
            f" | {one.first_seconds:.2f} | {one.ratio:.0f} | {one.best_seconds:.2f}"
            f" | {one.best_ratio:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--machine", action="append", help="may be given more than once")
    parser.add_argument("--side", type=int, default=128, help="height and width of an image")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scalesim", metavar="PYTHON", default="", help="that has SCALE-Sim")
    parser.add_argument("--zigzag", metavar="PYTHON", default="", help="that has ZigZag")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        name, *rest = json.loads(given.work)
        print(json.dumps({"to_program": to_program, "to_cycles": to_cycles}[name](*rest)))
        return
    # What Numba compiles lies on disk after set-up; a changed source would be compiled in a row.
    subprocess.run([sys.executable, "-m", "ridgeline.compiler.warm"], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = rows(folder, given.machine or MACHINES, given.side, given.repeats)
        others: list[Beside] = []
        if given.scalesim or given.zigzag:
            others = beside(folder, given.scalesim, given.zigzag, given.repeats)
    if given.json:
        made = {"ours": [asdict(one) for one in ours], "beside": [asdict(one) for one in others]}
        print(json.dumps(made, indent=2))
        return
    print_rows(ours, given.side)
    if others:
        print_beside(others)


if __name__ == "__main__":
    main()
