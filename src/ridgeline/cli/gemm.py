"""`ridgeline gemm`: how long the products in a CSV file take on a chip."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path

from ridgeline.chips.loader import load_chip
from ridgeline.cli.outputs import say
from ridgeline.errors import RidgelineError
from ridgeline.files import read_whole
from ridgeline.predict.formats import find
from ridgeline.predict.gemm import LARGEST, Prediction, Weights, predict_gemms
from ridgeline.render import gemm as render

MAX_FILE_BYTES = 1 << 26
_EXAMPLE = "The first line is m,n,k and each other one product, such as 16,4096,4096"


def show_products(
    path: Path, chip_name: str, precision: str, weights: Weights, as_json: bool
) -> None:
    """Print a line for each product of the file, or JSON."""
    chip = load_chip(chip_name)
    wanted = find(precision)
    found = predict_gemms(chip, precision, read_shapes(path), weights=weights)
    if as_json:
        data = {"chip": chip.name, "precision": precision, "weights": weights}
        say(json.dumps({**data, "products": [_product(one) for one in found]}, indent=2))
    else:
        say(render.products(chip, wanted, found))


def _product(one: Prediction) -> dict[str, object]:
    return {**asdict(one), "operations": one.operations}


def read_shapes(path: Path) -> list[tuple[int, int, int]]:
    """m, n, k of each row; other columns are ignored. Raises RidgelineError naming the line."""
    try:
        text = read_whole(path, MAX_FILE_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise RidgelineError(f"cannot be read ({reason})", where=str(path)) from error
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise RidgelineError(f"is not CSV ({error})", where=str(path), fix=_EXAMPLE) from error
    heads = [cell.strip().lower() for cell in rows[0]] if rows else []
    missing = [name for name in "mnk" if name not in heads]
    if missing:
        what = f"has no column {' or '.join(missing)}"
        raise RidgelineError(what, where=str(path), fix=_EXAMPLE)
    twice = [name for name in "mnk" if heads.count(name) > 1]
    if twice:
        what = f"has several columns {twice[0]}"
        raise RidgelineError(what, where=str(path), fix="Leave one of them out")
    places = [heads.index(name) for name in "mnk"]
    found = [
        _shape(row, places, len(heads), f"{path}, line {number}")
        for number, row in enumerate(rows[1:], start=2)
        if any(cell.strip() for cell in row)
    ]
    if not found:
        raise RidgelineError("holds no product", where=str(path), fix=_EXAMPLE)
    return found


def _shape(row: list[str], places: list[int], columns: int, where: str) -> tuple[int, int, int]:
    if len(row) > columns:
        what = f"has {len(row)} cells, and the first line {columns}"
        raise RidgelineError(what, where=where, fix="Quote a comma within a cell")
    cells = [row[place].strip() if place < len(row) else "" for place in places]
    for name, cell in zip("mnk", cells, strict=True):
        if not (cell.isascii() and cell.isdigit() and len(cell) <= 10 and int(cell)):
            raise RidgelineError(
                f"{name} is '{cell}'", where=where, fix=f"Give a whole number from 1 to {LARGEST}"
            )
    m, n, k = (int(cell) for cell in cells)
    return m, n, k
