"""Other people's models by name: `open_model("ppocr_cls")` is the path of an ONNX file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import onnx

from published import networks
from published.builder import Array
from published.checkpoints import read_checkpoint
from published.fetch import FetchError, fetch, store

Build = Callable[[Mapping[str, Array]], onnx.ModelProto]

# Models made here from fetched weights: the checkpoint, and what writes the network.
BUILT: Mapping[str, tuple[str, Build]] = {
    "efficientnet_lite0": ("efficientnet_lite0.pth", networks.efficientnet_lite0),
    "mtcnn_rnet": ("mtcnn_rnet.pt", networks.mtcnn_rnet),
    "minilm_l6_fp32": ("minilm_l6.safetensors", networks.minilm),
}


def open_model(name: str) -> Path:
    """The path of the ONNX model of this name, fetched or built first. Raises FetchError."""
    if name not in BUILT:
        return fetch(f"{name}.onnx")
    checkpoint, build = BUILT[name]
    weights = fetch(checkpoint)
    # A changed recipe makes another file, so that none is out of date.
    recipe = Path(networks.__file__).read_bytes() + Path(__file__).read_bytes()
    path = store() / "built" / sha256(recipe).hexdigest()[:12] / f"{name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        onnx.save(build(read_checkpoint(weights)), part)
        os.replace(part, path)
    return path


@cache
def listed() -> dict[str, dict[str, Any]]:
    """listed.toml: the models of docs/models.md by name."""
    return tomllib.loads(Path(__file__).with_name("listed.toml").read_text(encoding="utf-8"))


def open_listed(name: str) -> Path:
    """The path of a model of listed.toml. Raises FetchError."""
    entry = listed()[name]
    if entry.get("light", False):
        return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"{name}.onnx"
    if entry.get("exported", False):
        return _exported(name)
    if not entry.get("reference", False):
        return open_model(name)
    folder = os.environ.get("RIDGELINE_REFERENCE")
    if folder is None:
        raise FetchError(f"{name} is in no package; RIDGELINE_REFERENCE must name its folder")
    return Path(folder) / "models" / "onnx" / f"{name}.onnx"


def _exported(name: str) -> Path:
    path = store() / "exports" / f"{name}.onnx"
    if not path.exists():
        raise FetchError(f"{name} must be exported with PyTorch to {path}; see docs/models.md")
    return path
