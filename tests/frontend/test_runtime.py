from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.runtime import OnnxRuntimeExecutor, cpu_matches, run_model

ADD = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] a, float[2] b) => (float[2] y) { y = Add(a, b) }
"""


@pytest.fixture
def add() -> bytes:
    return onnx.parser.parse_model(ADD).SerializeToString()


def test_outputs_by_name_from_bytes_and_from_a_path(add: bytes, tmp_path: Path) -> None:
    inputs = {"a": np.ones(2, np.float32), "b": np.full(2, 2, np.float32)}
    (tmp_path / "m.onnx").write_bytes(add)
    for source in (add, tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        assert run_model(source, inputs)["y"].tolist() == [3, 3]


def test_sessions_are_kept_by_content(add: bytes) -> None:
    executor = OnnxRuntimeExecutor()
    inputs = {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)}
    for _ in range(3):
        executor.run(bytes(bytearray(add)), inputs)
    assert len(executor._sessions) == 1


def test_a_missing_input(add: bytes) -> None:
    text = "input 'b' is missing. Give an array of shape [2]. Did you mean 'bb'?"
    with pytest.raises(RidgelineError, match=re.escape(text)):
        run_model(add, {"a": np.ones(2, np.float32), "bb": np.ones(2, np.float32)})


def test_an_input_of_the_wrong_shape(add: bytes) -> None:
    with pytest.raises(RidgelineError, match=r"ONNX Runtime stopped: .*Got invalid dimensions"):
        run_model(add, {"a": np.ones(3, np.float32), "b": np.ones(2, np.float32)})


def test_a_model_that_cannot_be_loaded() -> None:
    with pytest.raises(RidgelineError, match="ONNX Runtime cannot load the model"):
        run_model(b"not a model", {})


@pytest.mark.skipif(not cpu_matches(), reason="other integer results on this CPU")
@pytest.mark.parametrize("signed", [False, True])
def test_extreme_products_do_not_saturate(signed: bool) -> None:
    """Pairs of 255 x 127 leave int16: kernels without VNNI lose them unless told not to."""
    dtype = np.int8 if signed else np.uint8
    low = -128 if signed else 0
    depth = 64
    constants = {
        "s": np.float32(1),
        "z": dtype(low),
        "w": np.full((depth, 4), 127, np.int8),
        "zw": np.int8(0),
        "t": np.float32(depth * 255),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s", "zw"], ["v"]),
        helper.make_node("MatMul", ["d", "v"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "t", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "t", "z"], ["y"]),
    ]
    info = [
        helper.make_tensor_value_info("x", 1, [2, depth]),
        helper.make_tensor_value_info("y", 1, [2, 4]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], tensors)
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    result = run_model(model, {"x": np.full((2, depth), 255, np.float32)})["y"]
    assert (result == 127 * depth * 255).all()


def test_the_package_starts_without_onnx() -> None:
    code = "import sys, ridgeline, ridgeline.ops; print('onnx' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
