"""The shipped model: ten handwritten digits, 450 held-out images of scikit-learn's set."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np

from tasks.task import Arrays, Measure, Task, percent, points


def digits() -> Task:
    folder = Path(str(files("ridgeline"))) / "models"
    test, calibration = np.load(folder / "digits_test.npz"), folder / "digits_calibration.npz"

    def score(floating: Arrays, int8: Arrays) -> list[Measure]:
        right = [percent(o["probabilities"].argmax(1) == test["labels"]) for o in (floating, int8)]
        return [points("images right", *right, allowed=0.5)]

    return Task(
        "digits_cnn",
        "450 held-out images",
        folder / "digits_cnn.onnx",
        {"image": np.load(calibration)["image"]},
        {"image": test["image"]},
        score,
    )
