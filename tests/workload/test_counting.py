import json
import os
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from counting_cases import CASES, FLOAT, INT64, model, node, weights
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.passes.pipeline import prepare
from ridgeline.workload.build import workload_of
from ridgeline.workload.layer import Layer, Workload

REFERENCE = Path(os.environ.get("RIDGELINE_REFERENCE", "/nowhere"))


def _counted(data: bytes, **options: object) -> Workload:
    return workload_of(read_onnx(data, weights=False, **options))  # type: ignore[arg-type]


def _by_op(workload: Workload, op: str) -> Layer:
    return next(layer for layer in workload.layers if layer.op == op)


@pytest.mark.parametrize("case", CASES)
def test_macs_and_parameters(case: str) -> None:
    data, macs, parameters = CASES[case]
    workload = _counted(data)
    assert (workload.macs, workload.parameters) == (macs, parameters)
    assert workload.operations == 2 * macs


@pytest.mark.parametrize("case", [c for c in CASES if c not in ("weights of four bits",)])
def test_counting_does_not_depend_on_passes(case: str) -> None:
    """Reading with weights, folding and fusing change no multiply-accumulate."""
    data, macs, _ = CASES[case]
    graph = read_onnx(data)
    # The compiler makes a transposed convolution from others that have more to do.
    if case not in ("transposed convolution", "nothing to multiply"):
        graph = prepare(graph)
    assert workload_of(graph).macs == macs


@pytest.mark.peer
def test_other_peoples_cases() -> None:
    folder = REFERENCE / "data" / "count_cases"
    truth = json.loads((folder / "truth.json").read_text())
    found = {}
    for name in truth:
        workload = _counted((folder / f"{name}.onnx").read_bytes())
        found[name] = {"macs": workload.macs, "parameters": workload.parameters}
    assert found == truth
    assert len(truth) == 12


def test_of_a_table_only_the_gathered_rows_are_read() -> None:
    layer = _counted(CASES["embedding"][0]).layers[0]
    assert layer.weight_bytes == 16 * 64 * 4
    assert layer.operands[0].stored_bytes == 64000 * 4


def test_a_shared_weight_is_stored_once() -> None:
    nodes = [node("MatMul", [x, "w"], [y]) for x, y in (("x", "a"), ("a", "b"), ("b", "y"))]
    shape = (FLOAT, [3, 100])
    workload = _counted(model(nodes, {"x": shape}, {"y": shape}, {"w": weights(100, 100)}))
    assert workload.macs == 3 * 3 * 100 * 100
    assert (workload.parameters, workload.logical_parameters) == (10_000, 30_000)
    assert workload.parameter_bytes == 40_000


def test_a_tied_embedding_is_stored_once() -> None:
    """The table is gathered from, and transposed it is the last product's weight."""
    nodes = [
        node("Gather", ["w", "i"], ["e"]),
        node("Transpose", ["w"], ["t"], perm=[1, 0]),
        node("MatMul", ["e", "t"], ["y"]),
    ]
    data = model(nodes, {"i": (INT64, [1, 4])}, {"y": (FLOAT, None)}, {"w": weights(1000, 64)})
    workload = _counted(data)
    assert (workload.parameters, workload.logical_parameters) == (64_000, 128_000)


def _attention(mask: bool) -> bytes:
    nodes = [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Mul", ["s", "scale"], ["scaled"]),
        node("Add", ["scaled", "mask"], ["masked"]),
        node("Softmax", ["masked" if mask else "scaled"], ["p"]),
        node("MatMul", ["p", "v"], ["o"]),
        node("Transpose", ["o"], ["y"], perm=[0, 2, 1, 3]),
    ]
    if not mask:
        del nodes[3]
    keys = (FLOAT, [1, 12, 1024, 64])
    inputs = {"q": (FLOAT, [1, 12, 1, 64]), "k": keys, "v": keys}
    constants = {"scale": np.float32(0.125), "mask": weights(1, 1, 1, 1024)}
    return model(nodes, inputs, {"y": (FLOAT, None)}, constants)


@pytest.mark.parametrize("mask", [False, True])
def test_attention_is_one_layer_that_stores_no_scores(mask: bool) -> None:
    workload = _counted(_attention(mask))
    assert [layer.op for layer in workload.layers] == ["Attention"]
    layer = workload.layers[0]
    assert layer.macs == 1_572_864
    assert layer.kv_bytes == 2 * 12 * 1024 * 64 * 4
    assert layer.input_bytes == layer.output_bytes == 12 * 64 * 4
    assert dict(layer.independent) == {"batch": 1, "heads": 12, "tokens": 1}
    assert workload.parameters == 0


def test_a_convolution_takes_in_what_follows() -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"]),
        node("Add", ["n", "x"], ["a"]),
        node("Relu", ["a"]),
    ]
    channels = {name: weights(8) for name in "gbmv"}
    data = model(
        nodes,
        {"x": (FLOAT, [1, 8, 4, 4])},
        {"y": (FLOAT, None)},
        {"w": weights(8, 8, 1, 1), **channels},
    )
    workload = _counted(data)
    assert [layer.op for layer in workload.layers] == ["Conv"]
    # Scale and shift are parameters; mean and variance are measured.
    assert workload.parameters == 64 + 16
    assert workload.layers[0].input_bytes == 8 * 16 * 4


def test_a_spelled_normalisation_is_one_layer() -> None:
    nodes = [
        node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        node("Sub", ["x", "mean"], ["d"]),
        node("Mul", ["d", "d"], ["d2"]),
        node("ReduceMean", ["d2"], ["var"], axes=[-1]),
        node("Add", ["var", "e"], ["vare"]),
        node("Sqrt", ["vare"], ["std"]),
        node("Div", ["d", "std"], ["n"]),
        node("Mul", ["n", "g"], ["y"]),
    ]
    data = model(
        nodes,
        {"x": (FLOAT, [4, 64])},
        {"y": (FLOAT, None)},
        {"e": np.float32(1e-5), "g": weights(64)},
    )
    workload = _counted(data)
    assert [layer.op for layer in workload.layers] == ["ReduceMean"]
    assert workload.layers[0].input_bytes == workload.layers[0].output_bytes == 4 * 64 * 4
    assert workload.parameters == 64


def test_a_ring_is_never_fused() -> None:
    """The Add could join the first product, but the second, which it reads too, needs that."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("MatMul", ["a", "w"], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    shape = (FLOAT, [4, 16])
    workload = _counted(model(nodes, {"x": shape}, {"y": shape}, {"w": weights(16, 16)}))
    assert [len(layer.origin) for layer in workload.layers] == [1, 2]
    assert workload.layers[1].input_bytes == 4 * 16 * 4


def test_a_loop_counts_every_turn() -> None:
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["c", "w"], ["c2"]),
            helper.make_node("Identity", ["go"], ["go2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("c", FLOAT, [4, 16]),
        ],
        [
            helper.make_tensor_value_info("go2", TensorProto.BOOL, []),
            helper.make_tensor_value_info("c2", FLOAT, [4, 16]),
        ],
    )
    shape = (FLOAT, [4, 16])
    constants = {"w": weights(16, 16), "n": np.int64(7)}
    made = node("Loop", ["n", "", "x"], ["y"], body=body)
    workload = _counted(model([made], {"x": shape}, {"y": shape}, constants))
    assert (workload.macs, workload.parameters) == (7 * 4 * 16 * 16, 256)


def test_what_no_rule_counts_is_unknown() -> None:
    made = node("TopK", ["x", "k"], ["y", "i"])
    data = model(
        [made], {"x": (FLOAT, [1, 64])}, {"y": (FLOAT, None)}, {"k": np.asarray([2], np.int64)}
    )
    workload = _counted(data)
    assert workload.macs == 0
    assert workload.vector_operations is None


def test_weights_need_not_be_there(tmp_path: Path) -> None:
    import onnx

    data, macs, parameters = CASES["grouped convolution"]
    held = onnx.load_model_from_string(data)
    path = tmp_path / "model.onnx"
    onnx.save_model(held, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    workload = workload_of(read_onnx(path, weights=False))
    assert (workload.macs, workload.parameters) == (macs, parameters)
