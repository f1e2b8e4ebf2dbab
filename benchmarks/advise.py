"""Gains predicted of changes to a machine, beside those achieved by compiling and simulating again.

    python benchmarks/advise.py [MODEL ...] [--machine NAME]

MODEL is a name of models/ (see benchmarks/models.py); without any, all of them but those that take
long to compile. Samples are seeded random numbers. Prints the table of each, the mean error of each
change and of all.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from published.catalogue import listed, open_listed
from published.fetch import FetchError
from ridgeline import api
from ridgeline.advice.machines import Applied, advise_machine
from ridgeline.advice.source import Source
from ridgeline.errors import RidgelineError
from ridgeline.render.advice import applied, mean_error

MOVED = 0.01
"""Of the time: what changes it by less tells little of a prediction."""


def measure(name: str, machine: str, slow_seconds: float) -> list[Applied]:
    """Every change predicted and applied. Raises RidgelineError, or Slow."""
    shapes = {k: tuple(v) for k, v in listed()[name].get("shapes", {}).items()}
    source, chosen = Source(open_listed(name), shapes=shapes), api.load_machine(machine)
    start = time.process_time()
    api.compile(source.graph_at(1), chosen)
    spent = time.process_time() - start
    if spent > slow_seconds:
        raise Slow(f"reading and compiling takes {spent:.0f} s of processor time: left out")
    return advise_machine(source.graph_at, chosen, apply=True)


class Slow(Exception):
    """A model that takes too long."""


def by_change(found: list[Applied]) -> list[str]:
    """The mean error of each change over all models, and of those that changed anything."""
    lines: list[str] = []
    for name in dict.fromkeys(one.change.name for one in found):
        tried = [one for one in found if one.change.name == name and one.achieved is not None]
        mean = mean_error(tried)
        if mean is not None:
            worst = max(tried, key=lambda one: abs(one.error or 0.0)).error
            lines.append(f"{100 * mean:5.1f} % worst {100 * (worst or 0.0):+6.1f} % {name}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--machine", default="edge-4tops")
    parser.add_argument("--slow-seconds", type=float, default=120.0, help="to leave a model out")
    options = parser.parse_args()
    found: list[Applied] = []
    for name in options.models or listed():
        try:
            made = measure(name, options.machine, options.slow_seconds)
        except (RidgelineError, FetchError, Slow) as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        found += made
        print(applied(name, options.machine, 1, made), end="\n\n", flush=True)
    print(*by_change(found), sep="\n")
    mean = mean_error(found)
    moved = [one for one in found if one.achieved and abs(one.before / one.achieved - 1) > MOVED]
    if mean is not None:
        count = len([one for one in found if one.error is not None])
        print(f"mean error of all {count} changes {100 * mean:.1f} %")
    if moved:
        text = f"of the {len(moved)} that changed the time by more than {100 * MOVED:.0f} %"
        print(f"{text}: {100 * (mean_error(moved) or 0.0):.1f} %")


if __name__ == "__main__":
    main()
