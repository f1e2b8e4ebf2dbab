"""Fit the constants of `ridgeline.predict.systems` on published figures of whole models.

    python benchmarks/whole_models.py [--write]

For each class of chips and software: seven constants on all its figures, and again without each of
its chips. --write puts them into src/ridgeline/predict/data/systems.toml. `ridgeline scoreboard`
predicts every figure by the constants fitted without its chip.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import astuple, fields
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from ridgeline.chips.loader import load_chip
from ridgeline.predict.whole_models import Figure, figures
from ridgeline.predict.work import Constants, Rates, parts, rates_of

TARGET = Path(__file__).parents[1] / "src/ridgeline/predict/data/systems.toml"
START = Constants(6e-5, 0.6, 0.75, 8.8, 0.33, 12.0, 6.0)
"""What constants are pulled to where figures say nothing of them: the middle of all groups."""
BY_LAYER = {"PyTorch": 6e-5, "TensorFlow XLA": 6e-5, "TensorRT": 5e-6, "ncnn": 6e-5}
"""Launches of networks, whose layers are single products, not blocks of a transformer."""
PULL = 0.01
"""Weight of a constant's squared distance from START, in logarithms, against the mean error."""
FRACTIONS = (1, 2, 4)
"""Which of the constants are at most 1."""
FIRST = np.array([[0] * 7, [0.3, -0.2, -0.2, 0.1, 0.2, 0.3, 0.2], [0, 0, 0.1, 0, -0.5, 0, 1.7]])
"""Where the search begins, in logarithms beside START."""


def groups() -> dict[str, list[Figure]]:
    """The figures that are predicted, by class of chips and software."""
    found: dict[str, list[Figure]] = {}
    for one in figures():
        if one.work is not None:
            found.setdefault(one.group, []).append(one)
    return found


@cache
def _rates(chip: str, peaks: tuple[str, ...]) -> Rates:
    return rates_of(load_chip(chip), peaks)


def predicted(one: Figure, constants: Constants) -> float:
    assert one.work is not None
    return parts(one.work, _rates(one.chip, one.work.peaks), constants).seconds


def log_ratio(one: Figure, constants: Constants) -> float:
    """Of measured over predicted time."""
    assert one.seconds is not None
    return float(np.log(one.seconds / predicted(one, constants)))


def start_of(rows: Sequence[Figure]) -> npt.NDArray[np.float64]:
    start = np.array(astuple(START))
    start[0] = BY_LAYER.get(rows[0].software, start[0])
    return start


def fit(rows: Sequence[Figure]) -> Constants:
    """The constants with the least mean error in logarithms, pulled weakly to START."""
    start = start_of(rows)

    def loss(x: npt.NDArray[np.float64]) -> float:
        values = start * np.exp(x)
        if max(values[i] for i in FRACTIONS) > 1:
            return 9.0
        found = [abs(log_ratio(one, Constants(*values))) for one in rows]
        return float(np.mean(found) + PULL * np.sum(x**2))

    made = min(
        (
            minimize(loss, first, method="Nelder-Mead", options={"maxfev": 3000, "xatol": 1e-3})
            for first in FIRST
        ),
        key=lambda one: one.fun,
    )
    return Constants(*(start * np.exp(made.x)))


def text(found: dict[str, tuple[Constants, dict[str, Constants]]]) -> str:
    lines = ["# Written by benchmarks/whole_models.py from whole_models.toml. Do not edit."]
    for group, (whole, without) in found.items():
        lines += ["", f'["{group}".constants]', *_table(whole)]
        for chip, constants in without.items():
            lines += ["", f'["{group}".without.{chip}]', *_table(constants)]
    return "\n".join(lines) + "\n"


def _table(constants: Constants) -> list[str]:
    return [f"{f.name} = {getattr(constants, f.name):.4g}" for f in fields(constants)]


def fit_all() -> dict[str, tuple[Constants, dict[str, Constants]]]:
    """Of each group: the constants on all its figures, and those without each of its chips."""
    found: dict[str, tuple[Constants, dict[str, Constants]]] = {}
    for group, rows in groups().items():
        chips = sorted({one.chip for one in rows})
        without = {c: fit([r for r in rows if r.chip != c]) for c in chips if len(chips) > 1}
        found[group] = (fit(rows), without)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the data file")
    wanted = parser.parse_args()
    found = fit_all()
    for group, rows in groups().items():
        whole, without = found[group]
        print(group, whole)
        for one in rows:
            left = np.exp(log_ratio(one, without[one.chip])) if one.chip in without else np.nan
            fitted = np.exp(log_ratio(one, whole))
            print(
                f"  {one.model:15} {one.chip:20} {one.precision:8} {one.metric:8}"
                f" {one.value:9.5g} fitted {fitted:5.2f} left out {left:5.2f}"
            )
    if wanted.write:
        TARGET.write_text(text(found), encoding="utf-8")


if __name__ == "__main__":
    main()
