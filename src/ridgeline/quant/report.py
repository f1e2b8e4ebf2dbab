"""How far each quantised layer is from the float model, on samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.ir import Graph, Value
from ridgeline.numerics.quantize import dequantize
from ridgeline.passes.pipeline import FLOAT_PASSES, run_passes
from ridgeline.quant.calibrate import sample_batches
from ridgeline.quant.quantize import QUANTIZED_SUFFIX

Array = npt.NDArray[Any]


def layer_sqnr_db(
    float_graph: Graph, quantised: Graph, samples: Mapping[str, Array]
) -> dict[str, float]:
    """Signal to quantisation noise of each quantised node's output, in dB, by node name.

    10 log10(sum of squares of the float value / sum of squares of the difference), over all
    samples; infinite where the two agree exactly. Both graphs run in ONNX Runtime. `quantised`
    must come from `quantize(float_graph, ...)`.
    """
    reference = run_passes(float_graph, FLOAT_PASSES)
    named = {v.name: v for n in reference.nodes for v in n.outputs}
    pairs: list[tuple[str, Value, Value]] = []
    for node in quantised.nodes:
        real = named.get(node.output.name.removesuffix(QUANTIZED_SUFFIX))
        if node.op != "QuantizeLinear" and node.output.type.quant is not None and real is not None:
            pairs.append((node.name, real, node.output))
    signal, noise = np.zeros(len(pairs)), np.zeros(len(pairs))
    float_runner = GraphRunner(reference, [real for _, real, _ in pairs])
    stored_runner = GraphRunner(quantised, [stored for _, _, stored in pairs])
    for batch in sample_batches(reference, samples):
        floats, integers = float_runner.run(batch), stored_runner.run(batch)
        for index, (_, _, value) in enumerate(pairs):
            assert value.type.quant is not None
            exact = floats[index].astype(np.float64)
            found = dequantize(integers[index], value.type.quant).astype(np.float64)
            signal[index] += float(np.square(exact).sum())
            noise[index] += float(np.square(exact - found).sum())
    return {
        name: _decibels(float(s), float(n))
        for (name, _, _), s, n in zip(pairs, signal, noise, strict=True)
    }


def _decibels(signal: float, noise: float) -> float:
    if noise == 0.0:
        return float("inf")
    return float(10 * np.log10(signal / noise)) if signal else float("-inf")
