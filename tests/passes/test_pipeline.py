from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.frontend.runtime import run_model
from ridgeline.ir import Graph
from ridgeline.passes.pipeline import FLOAT_PASSES, QDQ_PASSES, is_quantised, prepare

FLOAT_MODELS = (
    "digits_cnn",
    "digits_mlp",
    "mlperf_tiny_resnet8_fp32",
    "mlperf_tiny_vww_mbv1_fp32",
    "mlperf_tiny_ad_autoenc_fp32",
    "crepe_tiny",
    "mtcnn_onet",
    "mtcnn_rnet",
)


def _stages(graph: Graph) -> dict[str, Graph]:
    stages = {"read": graph}
    prepare(graph, stages.__setitem__)
    return stages


def _every_stage_agrees(source: Any, graph: Graph) -> None:
    generator = np.random.default_rng(0)
    inputs = {
        v.name: generator.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs
    }
    expected = run_model(source, inputs)
    for name, stage in _stages(graph).items():
        onnx.checker.check_model(onnx.load_from_string(onnx_bytes(stage)), full_check=True)
        for value, found in zip(stage.outputs, GraphRunner(stage).run(inputs), strict=True):
            scale = np.abs(expected[value.name]).max()
            np.testing.assert_allclose(
                found, expected[value.name], rtol=0, atol=1e-5 * scale, err_msg=name
            )


def test_every_stage_of_the_shipped_model(shipped: Any, golden: Callable[[str, str], None]) -> None:
    graph = read_onnx(shipped.model, batch=3)
    assert list(_stages(graph)) == ["read", *(name for name, _ in FLOAT_PASSES)]
    _every_stage_agrees_on(shipped.model, graph)
    golden("passes/digits_cnn_prepared.txt", str(prepare(graph)))


def _every_stage_agrees_on(path: Any, graph: Graph) -> None:
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = graph.inputs[0].type.shape[0]
    _every_stage_agrees(model.SerializeToString(), graph)


def test_a_quantised_file_takes_the_other_passes() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y)'
        " <float s = {0.5}, uint8 z = {3}>"
        " { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"
    )
    graph = read_onnx(model.SerializeToString())
    assert is_quantised(graph)
    assert list(_stages(graph))[1:] == [name for name, _ in QDQ_PASSES]


@pytest.mark.peer
@pytest.mark.parametrize("name", FLOAT_MODELS)
def test_every_stage_of_a_real_model(reference: Any, name: str) -> None:
    path = reference / "models" / "onnx" / f"{name}.onnx"
    _every_stage_agrees(path, read_onnx(path))


@pytest.mark.peer
def test_a_language_model_reads_and_agrees(reference: Any) -> None:
    path = reference / "models" / "onnx" / "stories260K_prefill.onnx"
    graph = read_onnx(path, shapes={"input_ids": (1, 12)})
    ids = np.arange(1, 13, dtype=np.int64).reshape(1, 12)
    expected = run_model(path, {"input_ids": ids})["logits"]
    for name, stage in _stages(graph).items():
        (found,) = GraphRunner(stage).run({"input_ids": ids})
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=1e-5 * np.abs(expected).max(), err_msg=name
        )
