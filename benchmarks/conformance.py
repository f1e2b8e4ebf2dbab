"""ONNX's node tests through Ridgeline.

    python benchmarks/conformance.py [NAME ...]

prints the tables of docs/conformance.md, and each wrong result if there is one; with names, of the
tests only whose names contain one of them. All take a quarter of an hour of processor time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from node_tests import CLOSE_DECIBELS, Conformance, conformance, node_tests

KINDS = ("right", "runtime", "refused", "wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of the name of a node test")
    names = parser.parse_args().names
    chosen = [t for t in node_tests() if not names or any(name in t.name for name in names)]
    if not chosen:
        parser.error(f"no node test's name contains {' or '.join(names)}")
    found = conformance(chosen)
    print(f"onnx {onnx.__version__}: {found.tests:,} node tests\n")
    print("\n".join(_outcomes(found)))
    print("\n".join(_reasons(found)))
    print("\n| accelerated | tests |\n|---|---:|")
    print("\n".join(f"| {how} | {count} |" for how, count in sorted(found.accelerated.items())))
    print(f"| **together** | **{found.accelerated.total()}** |")
    close = found.accelerated.total() - len(found.far)
    print(f"\n{close} of them within {CLOSE_DECIBELS:g} dB; not: {', '.join(found.far) or 'none'}.")
    print(f"\n{len(found.operators)} operators run: {', '.join(found.operators)}.")
    for line in found.wrong:
        print(f"\nWRONG {line}")


def _outcomes(found: Conformance) -> list[str]:
    rows = [
        ("read, folded, fused, written back, run", found.read),
        ("compiled, executed", found.executed),
    ]
    head = ["| | " + " | ".join(KINDS) + " |", "|---|" + "---:|" * len(KINDS)]
    return head + [f"| {name} | {_cells(counts)} |" for name, counts in rows]


def _cells(counts: Mapping[str, int]) -> str:
    return " | ".join(f"{counts.get(kind, 0):,}" for kind in KINDS)


def _reasons(found: Conformance) -> list[str]:
    read, executed = found.refused_to_read, found.refused_to_execute
    names = sorted(read | executed, key=lambda name: (-executed[name], name))
    head = ["", "| refused for | read | executed |", "|---|---:|---:|"]
    return head + [f"| {name} | {read[name]} | {executed[name]} |" for name in names]


if __name__ == "__main__":
    main()
