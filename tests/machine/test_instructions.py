"""What single instructions refuse, and what they store at the ends of float32."""

from __future__ import annotations

import numpy as np
import pytest

from ridgeline.errors import RidgelineError
from ridgeline.ir import Quant
from ridgeline.machine.instructions import (
    Elementwise,
    LoadParams,
    LoadWeights,
    RealElementwise,
    State,
)
from ridgeline.machine.instructions.array import INT8
from ridgeline.machine.instructions.real import REAL_OPERATIONS
from ridgeline.machine.instructions.vector import RESCALE
from ridgeline.machine.loader import load_machine
from ridgeline.numerics import formats
from ridgeline.numerics.quantize import dequantize, quantize


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, -1.0, -0.0])
def test_scales_that_the_lane_does_not_take(scale: float) -> None:
    state = State.blank(load_machine("tiny-8"), 64, 64)
    state.device[4:8] = np.frombuffer(np.float32(scale).tobytes(), np.uint8)
    with pytest.raises(RidgelineError, match="a scale that is negative or not finite"):
        LoadParams(count=1).apply(state)


def _diagonal(blocks: np.ndarray, first_row: int, rows: int, first: int, cols: int) -> np.ndarray:
    """Rows and columns, from `first_row` and `first` on, of a block-diagonal matrix of `blocks`
    [number, inputs, outputs], written without knowing how an instruction counts.
    """
    number, inputs, outputs = blocks.shape
    whole = np.zeros((number * inputs, number * outputs), np.int16)
    for i, block in enumerate(blocks):
        whole[i * inputs : (i + 1) * inputs, i * outputs : (i + 1) * outputs] = block
    cut = np.zeros((rows, cols), np.int16)
    part = whole[first_row : first_row + rows, first : first + cols]
    cut[: part.shape[0], : part.shape[1]] = part
    return cut


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (1, 2), (2, 1), (3, 2), (2, 3), (5, 1)])
def test_block_diagonal_tiles(inputs: int, outputs: int, transposed: int) -> None:
    """Every window of a block-diagonal matrix, from memory that holds its blocks alone."""
    machine = load_machine("tiny-8")
    rng = np.random.default_rng([inputs, outputs, transposed])
    rows, cols = machine.array.rows, machine.array.cols
    blocks = rng.integers(-128, 128, (20, inputs, outputs)).astype(np.int8)
    stored = blocks.reshape(-1, outputs)
    for first_row in range(len(stored) - rows):
        for first in range(0, 20 * outputs - cols, 3):
            k = int(rng.integers(1, rows + 1))
            tile = stored[first_row : first_row + k]
            data = (tile.T if transposed else tile).tobytes()
            state = State.blank(machine, 64, 1024)
            state.device[: len(data)] = np.frombuffer(data, np.uint8)
            state.slots[1] = 99
            one = LoadWeights(
                slot=1,
                row_stride=k if transposed else outputs,
                k=k,
                n=outputs,
                transposed=transposed,
                zero_point=3,
                block_rows=inputs,
                block_row=first_row % inputs,
                column=first_row // inputs * outputs - first,
            )
            one.apply(state)
            expected = _diagonal(blocks.astype(np.int16) - 3, first_row, k, first, cols)
            assert (state.slots[1, :k] == expected).all()
            assert not state.slots[1, k:].any()


SCALES = (1e-45, 1e-30, 1.0, 1e30, 3e38)


def _quant(scale: float, zero_point: int) -> Quant:
    return Quant(np.asarray(scale, np.float32), np.asarray(zero_point, np.int32))


def _stored(one: RealElementwise | Elementwise, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    state = State.blank(load_machine("tiny-8"), 64, 64)
    state.buffer[0, :8], state.buffer[1, :8] = a.view(np.uint8), b.view(np.uint8)
    one.apply(state)
    return state.buffer[2, :8].view(np.int8).copy()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("operation", ["rescale", "subtract", "maximum", "minimum"])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("out_scale", SCALES)
def test_what_leaves_float32_is_stored_as_onnx_runtime_stores_it(
    operation: str, scale: float, out_scale: float
) -> None:
    """`quantize` is held to ONNX Runtime's QuantizeLinear: infinities saturate, NaN is lowest."""
    a = np.array([-128, -3, -1, 0, 1, 5, 100, 127], np.int8)
    b = np.array([-128, 2, -128, 0, 127, 127, -128, 127], np.int8)
    x, y = (dequantize(stored, _quant(scale, 1)) for stored in (a, b))
    walk = {"out_line": 2, "out_format": INT8, "low": -128, "high": 127, "channels": 8}
    walk |= {"format": INT8, "a_line": 0, "b_line": 1, "zero_a": 1, "zero_b": 1}
    one: RealElementwise | Elementwise
    if operation == "rescale":
        walk |= {"operation": RESCALE, "scale_a": scale, "scale_b": out_scale, "b_line": 0}
        one, real = Elementwise(**walk, out_zero_point=3), x
    else:
        walk |= {"operation": REAL_OPERATIONS.index(operation)}
        walk |= {"scale_a": scale, "scale_b": scale, "scale": out_scale}
        one = RealElementwise(**walk, out_zero_point=3)
        with np.errstate(invalid="ignore"):
            real = getattr(np, operation)(x, y)
    expected = quantize(real, _quant(out_scale, 3), formats.INT8)
    assert _stored(one, a, b).tolist() == expected.tolist()
