"""Magika on files of the fetched packages, whose type their name tells."""

from __future__ import annotations

import json
import re
import zipfile
from collections import defaultdict

import numpy as np

from published.catalogue import open_model
from published.fetch import archive, fetch
from tasks.task import Array, Arrays, Measure, Task, percent, points

_PACKAGES = ("matplotlib", "sphinx", "scikit-image", "rapidocr-onnxruntime")
# What Magika calls the files of this ending.
_TYPES = {
    "css": "css", "csv": "csv", "gif": "gif", "gz": "gzip", "html": "html", "jpg": "jpeg",
    "js": "javascript", "npy": "npy", "npz": "npz", "onnx": "onnx", "pdf": "pdf", "png": "png",
    "po": "po", "py": "python", "pyi": "python", "rst": "rst", "so": "elf", "sty": "latex",
    "svg": "svg", "tif": "tiff", "toml": "toml", "ttf": "ttf", "xml": "xml", "yaml": "yaml",
    "lua": "lua", "whl": "zip",
}  # fmt: skip
# Files of these folders look like HTML or XML by their names and are templates of other kinds.
_TEMPLATES = re.compile("/(templates|themes|texinputs_win)/")
_EACH = 8
_BYTES, _BLOCK, _ABSENT = 1024, 4096, 256


def file_types() -> Task:
    labels = json.loads(fetch("magika_v3_3.config.json").read_text())["target_labels_space"]
    found = _files()
    judged = [(kind, content) for kind, contents in found.items() for content in contents[:_EACH]]
    # Files that are not judged, of the types that have more, and the same number of each.
    seen = [content for contents in found.values() for content in contents[_EACH : _EACH + 4]]
    wanted = np.array([labels.index(kind) for kind, _ in judged])

    def score(floating: Arrays, int8: Arrays) -> list[Measure]:
        right = [percent(o["target_label"].argmax(1) == wanted) for o in (floating, int8)]
        return [points("files right, %", *right)]

    return Task(
        "magika_v3_3",
        f"{len(judged)} files of {len(found)} types",
        open_model("magika_v3_3"),
        {"bytes": np.stack([_features(content) for content in seen])},
        {"bytes": np.stack([_features(content) for _, content in judged])},
        score,
    )


def _files() -> dict[str, list[bytes]]:
    """Contents by type, in the order of their names, without files that say almost nothing."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for package in _PACKAGES:
        path = archive(package)
        found["zip"].append(path.read_bytes())
        with zipfile.ZipFile(path) as file:
            for name in sorted(file.namelist()):
                kind = None if _TEMPLATES.search(name) else _TYPES.get(name.rpartition(".")[2])
                if kind is not None and len(content := file.read(name)) >= 256:
                    found[kind].append(content)
    return dict(sorted(found.items()))


def _features(content: bytes) -> Array:
    """[2048] int32: the first and last 1,024 bytes but for white space; 256 where there is none."""
    first = np.frombuffer(content[:_BLOCK].lstrip()[:_BYTES], np.uint8)
    last = np.frombuffer(content[-_BLOCK:].rstrip()[-_BYTES:], np.uint8)
    features = np.full(2 * _BYTES, _ABSENT, np.int32)
    features[: len(first)] = first
    features[2 * _BYTES - len(last) :] = last
    return features
