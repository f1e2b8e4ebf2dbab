"""Rearrangements on the device: the walks that make them, and their bits in programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compile_cases import DATAFLOWS, small_machine
from moves import MOVES, move_model
from ridgeline.compiler import compile
from ridgeline.compiler.layout import layout_of
from ridgeline.compiler.moves import count_elements, element_offsets, places, walks
from ridgeline.compiler.place import place
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.ir import Graph, Node, TensorType, Value
from ridgeline.machine.execute import execute
from ridgeline.numerics.formats import FORMATS
from ridgeline.ops.evaluate import evaluate
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe
from single_node import activation, node_of

FILL = 77


def made_by_walks(
    x: npt.NDArray[Any], index: npt.NDArray[Any], axes: tuple[int, int]
) -> tuple[npt.NDArray[Any], int]:
    """(what the walks bring of x, how many they are), channels along `axes` before and after."""
    machine = small_machine()
    dtype = FORMATS[x.dtype.name]
    source = layout_of(TensorType(x.shape, dtype), axes[0], machine)
    target = layout_of(TensorType(index.shape, dtype), axes[1], machine)
    placed = places(index, [element_offsets(TensorType(x.shape, dtype), source)], target)
    memory = source.packing.pack(x)
    words = FILL * 257 if target.planes == 2 else FILL
    fill = np.full(target.line_bytes, FILL, np.uint8)
    lines = np.zeros((target.n, target.h, target.w, target.row_lines, target.line_bytes), np.uint8)
    count = 0
    for walk in walks(placed, target.box, target):
        count += 1
        base = memory if walk.source == 0 else fill
        for steps in np.ndindex(*(level.count for level in walk.levels)):
            place, offset = list(walk.place), walk.offset
            for step, level in zip(steps, walk.levels, strict=True):
                place[level.axis] += step * level.step
                offset += step * level.device_stride
            n, y, x_, block = place
            lanes = slice(walk.lane, walk.lane + walk.width)
            lines[n, y, x_, block * target.planes + walk.plane, lanes] = base[
                offset : offset + walk.width
            ]
    channels: list[npt.NDArray[Any]] = []
    for block in range(target.blocks):
        part = lines[..., block * target.planes : (block + 1) * target.planes, :]
        part = part[..., : target.block_channels(block)]
        low = part[..., 0, :].astype(np.int64)
        high = part[..., -1, :].view(np.int8).astype(np.int64)
        both = low if target.planes == 1 else low + 256 * high
        channels.append(both.astype(x.dtype))
    rest = tuple(d for i, d in enumerate(index.shape) if i != axes[1])
    joined = np.concatenate(channels, axis=-1).reshape(*rest, index.shape[axes[1]])
    expected = np.where(index < 0, np.asarray(words).astype(x.dtype), x.reshape(-1)[index])
    made = np.moveaxis(joined, -1, axes[1])
    assert np.array_equal(made, expected)
    return made, count


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("seed", range(12))
def test_walks_bring_every_byte_of_any_index(seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(d) for d in rng.integers(1, 7, rng.integers(1, 5)))
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    numbers = np.arange(x.size).reshape(shape)
    index = [
        numbers.transpose(rng.permutation(len(shape))),
        np.pad(numbers, [(1, 2)] * len(shape), constant_values=-1),
        rng.integers(-1, x.size, (3, 4, 5)),
        np.repeat(numbers, 2, axis=-1),
    ][seed % 4]
    axes = int(rng.integers(len(shape))), int(rng.integers(index.ndim))
    made_by_walks(x, index, axes)


KNOWN: dict[str, tuple[tuple[int, ...], Any, int]] = {
    "as it is": ((2, 8, 6, 5), lambda i: i, 1),
    "rows transposed": ((2, 8, 6, 5), lambda i: i.transpose(0, 1, 3, 2), 1),
    "a part": ((2, 8, 6, 5), lambda i: i[:, :, 1:4, ::2], 1),
    "channels split": ((2, 16, 6, 5), lambda i: i[:, 3:14], 2),
    "channels shuffled": ((2, 16, 6, 5), lambda i: i.reshape(2, 2, 8, 6, 5).swapaxes(1, 2)
                          .reshape(2, 16, 6, 5), 4),
    "twice as large": ((1, 8, 6, 5), lambda i: i.repeat(2, 2).repeat(2, 3), 1),
    "padded below": ((1, 8, 6, 5), lambda i: np.pad(i, [(0, 0)] * 2 + [(0, 1), (0, 0)],
                                                   constant_values=-1), 2),
    "channels become columns": ((1, 8, 1, 5), lambda i: i.transpose(0, 3, 2, 1), 5),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_known_moves_take_few_descriptors(name: str) -> None:
    shape, change, most = KNOWN[name]
    numbers = np.arange(np.prod(shape)).reshape(shape)
    x = (numbers % 251).astype(np.uint8)
    _, count = made_by_walks(x, change(numbers), (1, 1))
    assert count <= most


def run(graph: Graph, machine: Any, x: npt.NDArray[Any]) -> Any:
    program = compile(graph, machine)
    made = execute(program, {"x": x}, OnnxRuntimeExecutor())
    expected = evaluate(graph, {"x": x})
    for value in graph.outputs:
        assert np.array_equal(made[value.name], expected[id(value)]), value.name
    return program


@pytest.mark.parametrize("activations", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("name", MOVES)
def test_every_move_runs_on_the_device(name: str, activations: Any) -> None:
    graph = read_onnx(move_model(name).SerializeToString())
    x = np.random.default_rng(0).normal(size=graph.inputs[0].type.shape).astype(np.float32)
    quantised = quantize(graph, {"x": x}, Recipe(activations=activations))
    program = run(quantised, small_machine(), x)
    assert [layer.placed for layer in program.layers] == ["host", "move", "host"]


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("name", ["slice", "pad", "nearest", "space to depth", "gather"])
def test_between_layers_in_tiles(name: str, dataflow: str) -> None:
    """A buffer too small for the tensors: what is moved is spilled, and what is made is tiled."""
    graph = read_onnx(move_model(name).SerializeToString())
    x = np.random.default_rng(0).normal(size=graph.inputs[0].type.shape).astype(np.float32)
    quantised = quantize(graph, {"x": x})
    move = next(n for n in quantised.nodes if n.op == "Move")
    stored = activation("x", x.shape, "uint8", 0.02, 100)
    half = Value("half", TensorType(x.shape, stored.type.dtype, stored.type.quant))
    first = Node("Clip", "first", (stored,), (half,), {"min": -1.0, "max": 1.0})
    between = Value("m", TensorType(move.output.type.shape, half.type.dtype, half.type.quant))
    middle = Node("Move", "middle", (half,), (between,), {**move.attrs, "fill": 0.5})
    last = node_of("Clip", [between], ("uint8", 0.01, 99), {"min": -0.7, "max": 0.7})
    chain = Graph("chain", (stored,), last.outputs, (first, middle, last)).check()
    data = np.random.default_rng(1).integers(0, 256, x.shape, np.uint8)
    for buffer_bytes in (16384, 1024):
        machine = small_machine(dataflow, f"unified_buffer.bytes={buffer_bytes}")
        program = run(chain, machine, data)
        assert all(layer.placed != "host" for layer in program.layers)


def test_constants_and_other_layouts_are_joined() -> None:
    """A Concat whose inputs lie differently, one of them a constant."""
    a = activation("x", (2, 6, 4), "uint8", 0.1, 3)
    rows = Value("rows", TensorType((6, 2, 4), a.type.dtype, a.type.quant))
    turned = Node("Transpose", "turned", (a,), (rows,), {"perm": (1, 0, 2)})
    data = np.arange(16, dtype=np.uint8).reshape(2, 2, 4)
    fixed = Value("fixed", TensorType((2, 2, 4), a.type.dtype, a.type.quant), data)
    joined = node_of("Concat", [rows, fixed], ("uint8", 0.1, 3), {"axis": 0})
    graph = Graph("join", (a,), joined.outputs, (turned, joined)).check()
    x = np.random.default_rng(1).integers(0, 256, (2, 6, 4), np.uint8)
    program = run(graph, small_machine(), x)
    assert program.layers[1].placed == "move"


def test_a_move_of_many_descriptors_stays_on_the_host() -> None:
    rng = np.random.default_rng(0)
    a = activation("x", (80, 64), "uint8", 0.1, 3)
    index = rng.permutation(80 * 64).reshape(80, 64)
    attrs = {"index": index, "function": Graph("none", (), (), ())}
    node = node_of("Move", [a], ("uint8", 0.1, 3), attrs)
    graph = Graph("many", (a,), node.outputs, (node,)).check()
    reason = place(graph, small_machine()).reasons[id(node)]
    assert reason == "it would take more than 2048 descriptors to move its elements"
    layout = layout_of(a.type, 1, small_machine())
    placed = places(index, [element_offsets(a.type, layout)], layout)
    assert count_elements(placed, layout) is None
