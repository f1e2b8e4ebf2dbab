"""PP-OCR on rendered lines: which way up a line is, and what it says."""

from __future__ import annotations

import numpy as np
import onnx
from PIL import Image

from published.catalogue import open_model
from ridgeline.quant.recipe import Recipe
from tasks.rendered import CALIBRATION_LINES, LINES, drawn_lines, line
from tasks.task import Array, Arrays, Measure, Task, percent, points

HEIGHT = 48
DIRECTION_WIDTH = 192
LINE_WIDTH = 320


def direction() -> Task:
    def score(floating: Arrays, int8: Arrays) -> list[Measure]:
        turned = np.arange(2 * len(LINES)) % 2
        right = [percent(next(iter(o.values())).argmax(1) == turned) for o in (floating, int8)]
        return [points("lines right, %", *right)]

    return Task(
        "ppocr_cls",
        f"{len(LINES)} rendered lines, upright and turned",
        open_model("ppocr_cls"),
        {"x": _both_ways(CALIBRATION_LINES)},
        {"x": _both_ways(LINES)},
        score,
        {"x": (1, 3, HEIGHT, DIRECTION_WIDTH)},
    )


def _both_ways(texts: tuple[str, ...]) -> Array:
    pictures = [line(text) for text in texts]
    turned = (p.transpose(Image.Transpose.ROTATE_180) for p in pictures)
    pairs = (p for pair in zip(pictures, turned, strict=True) for p in pair)
    return np.stack([fitted(picture, DIRECTION_WIDTH) for picture in pairs])


def recognition() -> Task:
    path = open_model("ppocrv4_rec")
    letters = _letters(path.read_bytes())
    calibration = (*CALIBRATION_LINES, *drawn_lines(60, seed=7))

    def score(floating: Arrays, int8: Arrays) -> list[Measure]:
        read = [
            [_decoded(row, letters) for row in next(iter(o.values()))] for o in (floating, int8)
        ]
        right = [percent(np.array(texts) == np.array(LINES)) for texts in read]
        count = sum(map(len, LINES))
        errors = [100.0 * sum(map(_distance, texts, LINES)) / count for texts in read]
        return [
            points("lines right, %", *right),
            Measure(
                "wrong characters, %", *errors, "at most 1 point above float",
                errors[1] <= errors[0] + 1,
            ),
        ]  # fmt: skip

    return Task(
        "ppocrv4_rec",
        f"{len(LINES)} rendered lines",
        path,
        {"x": np.stack([fitted(line(text), LINE_WIDTH) for text in calibration])},
        {"x": np.stack([fitted(line(text), LINE_WIDTH) for text in LINES])},
        score,
        {"x": (1, 3, HEIGHT, LINE_WIDTH)},
        # Its depthwise convolutions make a few values twice as large as nearly all others.
        Recipe(observer="chosen"),
    )


def fitted(picture: Image.Image, width: int) -> Array:
    """[3, 48, width] float32 in -1 ... 1: scaled to the height, squeezed if too long, 0 beyond."""
    scaled = min(width, round(picture.width * HEIGHT / picture.height))
    resized = picture.resize((scaled, HEIGHT), Image.Resampling.BILINEAR)
    values = (np.asarray(resized, np.float32).transpose(2, 0, 1) / 255 - 0.5) / 0.5
    return np.pad(values, ((0, 0), (0, 0), (0, width - scaled)))


def _letters(model: bytes) -> list[str]:
    """What each class means: nothing, the model's own list, a space."""
    metadata = {p.key: p.value for p in onnx.load_from_string(model).metadata_props}
    return ["", *metadata["character"].splitlines(), " "]


def _decoded(scores: Array, letters: list[str]) -> str:
    """The text of [steps, classes] (connectionist temporal classification, greedy)."""
    best = scores.argmax(1)
    kept = best[np.concatenate([[True], best[1:] != best[:-1]])]
    return "".join(letters[index] for index in kept).strip()


def _distance(found: str, wanted: str) -> int:
    """Levenshtein's: the fewest characters to insert, remove or change."""
    row = list(range(len(wanted) + 1))
    for i, a in enumerate(found, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(wanted, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]
