"""MTCNN's second network on scikit-image's part of Labelled Faces in the Wild."""

from __future__ import annotations

import numpy as np
from PIL import Image

from published.catalogue import open_model
from published.fetch import fetch
from tasks.task import Array, Arrays, Measure, Task, percent, points

_SIDE = 24
_FACES = 100


def faces() -> Task:
    pictures = np.load(fetch("lfw_subset.npy"))
    shown = np.stack([_prepared(p) for p in pictures])
    # Mirrored, every third: none of the pictures that are judged.
    seen = np.ascontiguousarray(np.flip(shown[::3], axis=3))

    def score(floating: Arrays, int8: Arrays) -> list[Measure]:
        face = np.arange(len(pictures)) < _FACES
        right = [percent((o["face"].argmax(1) == 1) == face) for o in (floating, int8)]
        return [points("faces told from others, %", *right)]

    return Task(
        "mtcnn_rnet",
        f"{_FACES} faces, {len(pictures) - _FACES} other pictures",
        open_model("mtcnn_rnet"),
        {"x": seen},
        {"x": shown},
        score,
    )


def _prepared(picture: Array) -> Array:
    """[3, 24, 24] in -1 ... 1, from grey values in 0 ... 1."""
    grey = Image.fromarray(np.round(picture * 255).astype(np.uint8))
    scaled = np.asarray(grey.resize((_SIDE, _SIDE), Image.Resampling.BILINEAR), np.float32)
    return np.repeat(((scaled - 127.5) / 128)[None], 3, axis=0).astype(np.float32)
