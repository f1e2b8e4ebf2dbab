"""Real models compiled and executed: ONNX Runtime's bits, every multiplication on the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.compiler import compile
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.frontend.runtime import OnnxRuntimeExecutor, cpu_matches, run_model
from ridgeline.ir import Graph
from ridgeline.machine.execute import execute
from ridgeline.machine.loader import load_machine
from ridgeline.machine.simulate import simulate
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(not cpu_matches(), reason="other integer results on this CPU"),
]

INT8 = ("mlperf_tiny_resnet8_int8", "mlperf_tiny_vww_mbv1_int8", "mlperf_tiny_ad_autoenc_int8")
FLOAT = (
    "mlperf_tiny_resnet8_fp32", "mlperf_tiny_vww_mbv1_fp32", "mlperf_tiny_ad_autoenc_fp32",
    "crepe_tiny", "mtcnn_rnet", "digits_cnn", "digits_mlp",
)  # fmt: skip
MACHINES = ("tiny-16", "edge-4tops", "tpu-v1", "server-hbm")


def samples(graph: Graph, count: int = 1) -> dict[str, Any]:
    """Seeded random inputs, `count` times as many as the graph takes."""
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for value in graph.inputs:
        shape = (value.type.shape[0] * count, *value.type.shape[1:])
        dtype = value.type.dtype
        numbers = (
            rng.random(shape) if dtype.is_float else rng.integers(dtype.low, dtype.high, shape)
        )
        made[value.name] = numbers.astype(dtype.numpy)
    return made


def assert_same_bits(graph: Graph, model: Any, machine: str) -> None:
    program = compile(graph, load_machine(machine))
    given = samples(graph)
    made, expected = execute(program, given, OnnxRuntimeExecutor()), run_model(model, given)
    assert made.keys() == expected.keys()
    for name, array in made.items():
        np.testing.assert_array_equal(array, expected[name], name)
    assert all(layer.placed != "host" for layer in program.layers if layer.macs)
    assert simulate(program).cycles > 0


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", INT8)
def test_shipped_int8_models(name: str, machine: str, reference: Path) -> None:
    """Already quantised: taken as they are, the bits of ONNX Runtime on the original file."""
    path = reference / "models" / "onnx" / f"{name}.onnx"
    assert_same_bits(prepare(read_onnx(path)), path, machine)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("name", FLOAT)
def test_float_models_quantised_here(name: str, activations: str, reference: Path) -> None:
    graph = prepare(read_onnx(reference / "models" / "onnx" / f"{name}.onnx"))
    quantised = quantize(graph, samples(graph, 4), Recipe(activations=activations))  # pyright: ignore
    assert_same_bits(quantised, onnx_bytes(quantised), "edge-4tops")
