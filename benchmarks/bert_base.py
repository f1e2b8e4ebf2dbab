"""BERT-base with random weights, as an exporter writes it: attention and GELU spelled out.

Devlin et al. 2018 (arXiv:1810.04805): 12 layers of 768, 12 heads, 3072 inside, 30,522 words.
Nothing is downloaded: speed does not depend on what the weights are.
"""

from __future__ import annotations

import numpy as np
from exported import Writer
from onnx import TensorProto, checker, helper, numpy_helper

LAYERS, HIDDEN, HEADS, INNER, WORDS, PLACES = 12, 768, 12, 3072, 30_522, 512


def bert_base(tokens: int) -> bytes:
    """The float encoder for "ids" [1, tokens], to "states" [1, tokens, 768]."""
    made = Writer()
    x = made.node("Gather", [made.constant("words", (WORDS, HIDDEN), 0.02), "ids"], "word")
    places = made.constant("places", (1, PLACES, HIDDEN), 0.02)
    bounds = [_integers(made, name, [v]) for name, v in (("zero", 0), ("end", tokens), ("one", 1))]
    place = made.node("Slice", [places, bounds[0], bounds[1], bounds[2]], "place")
    x = _norm(made, made.node("Add", [x, place], "embedded"), "norm")
    for number in range(LAYERS):
        x = _layer(made, x, f"layer{number}", tokens)
    made.nodes.append(helper.make_node("Identity", [x], ["states"], "states"))
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, tokens])
    states = helper.make_tensor_value_info("states", TensorProto.FLOAT, [1, tokens, HIDDEN])
    graph = helper.make_graph(made.nodes, "bert-base", [ids], [states], made.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    return model.SerializeToString()


def macs(tokens: int) -> int:
    """By the closed form: projections, scores and their product, the inner layers."""
    each = 4 * tokens * HIDDEN * HIDDEN + 2 * tokens * tokens * HIDDEN + 2 * tokens * HIDDEN * INNER
    return LAYERS * each


def _integers(made: Writer, name: str, values: list[int]) -> str:
    if all(i.name != name for i in made.initializers):  # type: ignore[attr-defined]
        made.initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
    return name


def _number(made: Writer, name: str, value: float) -> str:
    if all(i.name != name for i in made.initializers):  # type: ignore[attr-defined]
        made.initializers.append(numpy_helper.from_array(np.float32(value), name))
    return name


def _linear(made: Writer, x: str, name: str, read: int, wide: int) -> str:
    w = made.constant(f"{name}.w", (read, wide), 0.02)
    b = made.constant(f"{name}.b", (wide,), 0.02)
    return made.node("Add", [made.node("MatMul", [x, w], f"{name}.product"), b], name)


def _norm(made: Writer, x: str, name: str) -> str:
    scale = made.constant(f"{name}.scale", (HIDDEN,), 0.02)
    shift = made.constant(f"{name}.shift", (HIDDEN,), 0.02)
    return made.node("LayerNormalization", [x, scale, shift], name, axis=-1)


def _heads(made: Writer, x: str, name: str, tokens: int, perm: list[int]) -> str:
    dims = _integers(made, "heads", [1, tokens, HEADS, HIDDEN // HEADS])
    split = made.node("Reshape", [x, dims], f"{name}.split")
    return made.node("Transpose", [split], f"{name}.heads", perm=perm)


def _layer(made: Writer, x: str, name: str, tokens: int) -> str:
    q, k, v = (_linear(made, x, f"{name}.{part}", HIDDEN, HIDDEN) for part in "qkv")
    q = _heads(made, q, f"{name}.q", tokens, [0, 2, 1, 3])
    k = _heads(made, k, f"{name}.k", tokens, [0, 2, 3, 1])
    v = _heads(made, v, f"{name}.v", tokens, [0, 2, 1, 3])
    scores = made.node("MatMul", [q, k], f"{name}.scores")
    scaled = made.node("Div", [scores, _number(made, "root", 8.0)], f"{name}.scaled")
    shares = made.node("Softmax", [scaled], f"{name}.softmax", axis=-1)
    y = made.node("MatMul", [shares, v], f"{name}.mixed")
    y = made.node("Transpose", [y], f"{name}.joined", perm=[0, 2, 1, 3])
    dims = _integers(made, "flat", [1, tokens, HIDDEN])
    y = made.node("Reshape", [y, dims], f"{name}.flat")
    y = _linear(made, y, f"{name}.o", HIDDEN, HIDDEN)
    x = _norm(made, made.node("Add", [x, y], f"{name}.attended"), f"{name}.norm1")
    y = _linear(made, x, f"{name}.up", HIDDEN, INNER)
    y = _gelu(made, y, f"{name}.gelu")
    y = _linear(made, y, f"{name}.down", INNER, HIDDEN)
    return _norm(made, made.node("Add", [x, y], f"{name}.fed"), f"{name}.norm2")


def _gelu(made: Writer, x: str, name: str) -> str:
    scaled = made.node("Div", [x, _number(made, "root2", 2**0.5)], f"{name}.scaled")
    part = made.node("Erf", [scaled], f"{name}.erf")
    part = made.node("Add", [part, _number(made, "unit", 1.0)], f"{name}.plus")
    product = made.node("Mul", [x, part], f"{name}.product")
    return made.node("Mul", [product, _number(made, "half", 0.5)], f"{name}.out")
