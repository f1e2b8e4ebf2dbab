"""Gains predicted of changes to a machine, beside those achieved by compiling and simulating again.

    python benchmarks/advise.py [MODEL ...] [--machine NAME]

MODEL is a name of models/ (see benchmarks/models.py); without any, all of them. Samples are seeded
random numbers. Prints the table of each, and the mean error over all.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
sys.path.insert(0, str(Path(__file__).parent))

from models import random_samples
from published.catalogue import listed, open_listed
from ridgeline import api
from ridgeline.advice.machines import Applied, advise_machine
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph
from ridgeline.passes.pipeline import is_quantised
from ridgeline.render.advice import applied, mean_error


def measure(name: str, machine: str) -> list[Applied]:
    """Every change predicted and applied. Raises RidgelineError."""
    shapes = {k: tuple(v) for k, v in listed()[name].get("shapes", {}).items()}

    def graph_at(times: int) -> Graph:
        # Those that fix a batch, or whose shapes are given, are not tried at a larger one.
        batch = times if times > 1 else None
        graph = api.read_onnx(open_listed(name), shapes=shapes or None, batch=batch)
        return graph if is_quantised(graph) else api.quantize(graph, random_samples(graph))

    return advise_machine(graph_at, api.load_machine(machine), apply=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--machine", default="tpu-v1")
    options = parser.parse_args()
    found: list[Applied] = []
    for name in options.models or listed():
        try:
            made = measure(name, options.machine)
        except RidgelineError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        found += made
        print(applied(name, options.machine, 1, made), end="\n\n", flush=True)
    mean = mean_error(found)
    if mean is not None:
        print(f"mean error over all {100 * mean:.1f} %")


if __name__ == "__main__":
    main()
