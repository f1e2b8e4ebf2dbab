"""ONNX's node tests through Ridgeline.

    python benchmarks/conformance.py

prints the tables of docs/conformance.md, and each wrong result if there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from node_tests import CLOSE_DECIBELS, Conformance, conformance, node_tests

KINDS = ("right", "runtime", "refused", "wrong")


def main() -> None:
    found = conformance(node_tests())
    print(f"onnx {onnx.__version__}: {found.tests:,} node tests\n")
    print("\n".join(_outcomes(found)))
    print("\n".join(_reasons(found)))
    print("\n| accelerated | tests |\n|---|---:|")
    print("\n".join(f"| {how} | {count} |" for how, count in sorted(found.accelerated.items())))
    print(f"| **together** | **{found.accelerated.total()}** |")
    close = found.accelerated.total() - len(found.far)
    print(f"\n{close} of them within {CLOSE_DECIBELS:g} dB; not: {', '.join(found.far)}.")
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
