"""Networks that are measured whole: ResNet-50, MobileNetV2, BERT and others, by what they count."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.predict.work import Work

BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0}


@cache
def tables() -> dict[str, dict[str, Any]]:
    path = resources.files("ridgeline.predict") / "data" / "networks.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def network(name: str, precision: str, batch: int, tokens: int | None = None) -> Work:
    """`batch` samples at once in one precision; an encoder of text needs their `tokens`.

    Raises RidgelineError for an unknown network, or one whose activations no source counts.
    """
    if name not in tables():
        raise RidgelineError(
            f"there is no network '{name}'", where="model", fix=did_you_mean(name, tables())
        )
    table = tables()[name]
    if "encoder_layers" in table:
        return _encoder(name, table, precision, batch, tokens)
    if "activations" not in table:
        raise RidgelineError(
            f"no source counts what {table['title']} writes", where=name, fix="Give the ONNX file"
        )
    size = BYTES[precision]
    weights = table["parameters"] * size
    vectors = batch * table["activations"] * size
    return Work(
        *(table["title"], "sample", batch, int(table["layers"]), 2.0 * batch * table["macs"]),
        *(weights, 0.0, vectors, weights + vectors, (precision,)),
    )


def _encoder(
    name: str, table: dict[str, Any], precision: str, batch: int, tokens: int | None
) -> Work:
    if tokens is None:
        raise RidgelineError("the length of the texts is unknown", where=name, fix="Give tokens")
    layers, hidden, ffn = table["encoder_layers"], table["hidden"], table["ffn"]
    per_layer = 4 * hidden * hidden + 2 * hidden * ffn
    macs = batch * layers * (tokens * per_layer + 2 * tokens * tokens * hidden)
    size = BYTES[precision]
    weights = layers * per_layer * size
    # Queries, keys, values, attention and its product, the wide layer and its product.
    vectors = batch * layers * tokens * (6 * hidden + ffn) * size
    return Work(
        # Six products a layer: a layer of a convolutional network is one.
        *(table["title"], "sample", batch, 6 * layers, 2.0 * macs, weights, 0.0, vectors),
        *(weights + vectors / layers, (precision,)),
    )
