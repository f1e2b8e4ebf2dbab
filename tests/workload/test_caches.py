"""Keys and values that come in or go out are caches; what else crosses the borders does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counting_cases import FLOAT, model, node, weights
from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.workload.build import workload_of
from ridgeline.workload.layer import Workload
from ridgeline.workload.read import read_workloads

HEADS, PAST, DEPTH = 4, 31, 8
Q = (FLOAT, [1, HEADS, 1, DEPTH])
NEW = (FLOAT, [1, HEADS, 1, DEPTH])
CACHE = (FLOAT, [1, HEADS, PAST, DEPTH])


def _counted(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], **rest: Any) -> Workload:
    made = dict.fromkeys(outputs, (FLOAT, None))
    return workload_of(read_onnx(model(nodes, inputs, made, **rest), weights=False))


def _names(workload: Workload) -> tuple[set[str], set[str], set[str]]:
    every = (workload.inputs, workload.outputs, workload.caches)
    inputs, outputs, caches = ({o.name for o in one} for one in every)
    return inputs, outputs, caches


def _attention(keys: str, values: str) -> list[Any]:
    return [
        node("Transpose", [keys], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", values], ["y"]),
    ]


def test_keys_and_values_of_tokens_before_are_caches() -> None:
    """Appended to, given out, and read by attention: as exporters write a step of decoding."""
    nodes = [
        node("Concat", ["past_k", "k"], ["present_k"], axis=2),
        node("Concat", ["past_v", "v"], ["present_v"], axis=2),
        *_attention("present_k", "present_v"),
    ]
    inputs = {"q": Q, "k": NEW, "v": NEW, "past_k": CACHE, "past_v": CACHE}
    workload = _counted(nodes, inputs, ["y", "present_k", "present_v"])
    caches = {"past_k", "past_v", "present_k", "present_v"}
    assert caches <= _names(workload)[2]
    # The new row of each comes from the host, if it is an input: it is part of the cache too.
    assert _names(workload)[0] == {"q"}
    assert _names(workload)[1] == {"y"}
    assert workload.border_bytes == 4 * 2 * HEADS * DEPTH
    assert "keys and values that come in or go out stay in the chip's memory" in workload.notes


def test_projections_in_between_bring_their_input_from_the_host() -> None:
    """Keys that are multiplied first are no cache: what they are made of has to arrive."""
    nodes = [
        node("MatMul", ["memory", "w"], ["k"]),
        node("MatMul", ["memory", "w"], ["v"]),
        *_attention("k", "v"),
    ]
    inputs = {"q": Q, "memory": CACHE}
    workload = _counted(nodes, inputs, ["y"], constants={"w": weights(DEPTH, DEPTH)})
    assert _names(workload) == ({"q", "memory"}, {"y"}, set())
    assert not workload.notes


def test_what_is_read_as_queries_too_is_no_cache() -> None:
    nodes = _attention("q", "q")
    workload = _counted(nodes, {"q": (FLOAT, [1, HEADS, PAST, DEPTH])}, ["y"])
    assert _names(workload) == ({"q"}, {"y"}, set())


def test_what_something_else_reads_too_is_no_cache() -> None:
    nodes = [*_attention("past_k", "past_v"), node("Relu", ["past_v"], ["z"])]
    inputs = {"q": Q, "past_k": CACHE, "past_v": CACHE}
    workload = _counted(nodes, inputs, ["y", "z"])
    assert _names(workload) == ({"q", "past_v"}, {"y", "z"}, {"past_k"})


def test_the_caches_of_an_attention_operator() -> None:
    attention = node(
        "Attention", ["q", "k", "v", "", "past_k", "past_v"], ["y", "present_k", "present_v"]
    )
    inputs = {"q": Q, "k": NEW, "v": NEW, "past_k": CACHE, "past_v": CACHE}
    outputs = ["y", "present_k", "present_v"]
    workload = _counted([attention], inputs, outputs, opset=23)
    assert {"past_k", "past_v", "present_k", "present_v"} <= _names(workload)[2]
    assert _names(workload)[1] == {"y"}


def _cell(op: str, gates: int, dims: list[int | str], **attrs: Any) -> bytes:
    constants = {"w": np.ones((1, gates * 8, 16), np.float32), "r": weights(1, gates * 8, 8)}
    made = node(op, ["x", "w", "r"], ["y"], hidden_size=8, **attrs)
    return model([made], {"x": (FLOAT, dims)}, {"y": (FLOAT, None)}, constants)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_steps_are_no_batch(op: str, gates: int) -> None:
    """x [steps, batch, features], or with layout 1 [batch, steps, features]."""
    (steps_first,) = read_workloads(_cell(op, gates, [100, 2, 16]))
    (batch_first,) = read_workloads(_cell(op, gates, [2, 100, 16], layout=1))
    assert (steps_first.batch, batch_first.batch) == (2, 2)
    assert steps_first.macs == batch_first.macs == 100 * 2 * gates * 8 * (16 + 8)


@pytest.mark.parametrize("dims", [[100, 2, 16], ["steps", 2, 16], [100, "batch", 16]])
def test_a_batch_is_not_put_where_steps_are(dims: list[int | str]) -> None:
    shapes = {"x": (100, 2, 16)}
    message = "the first dimension of input 'x' is the steps of LSTM 'y', not the batch"
    with pytest.raises(RidgelineError, match=message) as caught:
        read_workloads(_cell("LSTM", 4, dims), [8], shapes if dims[0] == 100 else None)
    assert "--shape x=" in str(caught.value)
    assert str(caught.value).endswith(",8,16")


def test_a_batch_of_a_cell_that_has_it_first() -> None:
    (one,), (eight,) = (
        read_workloads(_cell("LSTM", 4, ["batch", 100, 16], layout=1), [n]) for n in (1, 8)
    )
    assert (one.batch, eight.batch) == (1, 8)
    assert one.macs is not None
    assert eight.macs == 8 * one.macs
