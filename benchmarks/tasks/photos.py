"""EfficientNet-Lite0 on scikit-image's photographs: whole, and hundreds of crops of them."""

from __future__ import annotations

import numpy as np
from PIL import Image

from published.catalogue import open_model
from published.fetch import fetch
from tasks.task import Array, Arrays, Measure, Task, percent

SIDE = 224
CROPS = 520
CALIBRATION_CROPS = 128
# ImageNet's mean and deviation, which the checkpoint was converted for.
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# The class of ImageNet at the top for the whole photograph: an Egyptian cat, an espresso, a
# missile, a moped.
KNOWN = {"chelsea.png": 285, "coffee.png": 967, "rocket.jpg": 657, "motorcycle_left.png": 665}
_PHOTOS = (*KNOWN, "astronaut.png", "motorcycle_right.png")


def photos() -> Task:
    pictures = [Image.open(fetch(name)).convert("RGB") for name in _PHOTOS]
    whole = [_centre(picture) for picture in pictures[: len(KNOWN)]]
    # The calibration crops are mirrored and come from other places, so none is met again.
    seen = [np.flip(c, axis=2) for c in _crops(pictures, CALIBRATION_CROPS, seed=1)]
    crops = _crops(pictures, CROPS, seed=0)
    known = np.array(list(KNOWN.values()))

    def score(floating: Arrays, int8: Arrays) -> list[Measure]:
        top, found = floating["logits"].argmax(1), int8["logits"].argmax(1)
        count = len(known)
        agreement = percent((top == found)[count:])
        flips = int((top != found)[:count].sum())
        right = [percent(t[:count] == known) for t in (top, found)]
        return [
            Measure(
                "top-1 of crops as float's, %", 100.0, agreement, "at least 95", agreement >= 95
            ),
            Measure("whole photographs right, %", *right, "no photograph flips", flips == 0),
        ]

    return Task(
        "efficientnet_lite0",
        f"{len(known)} whole photographs, {CROPS} crops of {len(_PHOTOS)}",
        open_model("efficientnet_lite0"),
        {"x": np.stack(seen).astype(np.float32)},
        {"x": np.stack([*whole, *crops])},
        score,
    )


def _centre(picture: Image.Image) -> Array:
    """The middle of the photograph, its short side 256 pixels before."""
    factor = 256 / min(picture.size)
    width, height = (round(side * factor) for side in picture.size)
    resized = picture.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - SIDE) // 2, (height - SIDE) // 2
    return normalised(resized.crop((left, top, left + SIDE, top + SIDE)))


def _crops(pictures: list[Image.Image], count: int, seed: int) -> list[Array]:
    """Random squares of 35 % to 100 % of the short side, each picture in turn."""
    random = np.random.default_rng(seed)
    crops: list[Array] = []
    for index in range(count):
        picture = pictures[index % len(pictures)]
        side = int(min(picture.size) * random.uniform(0.35, 1.0))
        left, top = (int(random.integers(0, size - side + 1)) for size in picture.size)
        square = picture.crop((left, top, left + side, top + side))
        crops.append(normalised(square.resize((SIDE, SIDE), Image.Resampling.BICUBIC)))
    return crops


def normalised(picture: Image.Image) -> Array:
    """[3, height, width] float32, by ImageNet's mean and deviation."""
    values = np.asarray(picture, np.float32) / 255
    return ((values - np.float32(_MEAN)) / np.float32(_DEVIATION)).transpose(2, 0, 1)
