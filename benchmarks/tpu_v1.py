"""The six applications of the TPU v1 paper, timed here beside its performance counters.

    python benchmarks/tpu_v1.py [APPLICATION ...]

Figures, assumed shapes and the cells to be checked lie in benchmarks/data/tpu_v1.toml. Prints the
table of docs/validation.md; exit code 1 when a declared cell is missed.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline import api
from ridgeline.ir import Graph, Node, Quant, TensorType, Value
from ridgeline.machine.ledger import ledger, table3
from ridgeline.numerics.formats import FORMATS
from ridgeline.ops import PRIMITIVES

PAPER = Path(__file__).parent / "data" / "tpu_v1.toml"
WIDE = ("array.macs_per_pe_per_cycle.int16=0.5", "array.accumulator_bits=48")
"""Settings for 16-bit activations, at half speed (the paper's section 2)."""

LEAST_CELL, MOST_POINTS, MOST_SHARE = 5.0, 8.0, 0.20
CELLS = {
    "active": "array active",
    "useful": "useful MACs",
    "unused": "unused MACs",
    "weight_stall": "weight stall",
    "weight_shift": "weight shift",
    "non_matrix": "non-matrix",
    "read_after_write": "RAW stall",
    "input": "input stall",
}


class Maker:
    """A quantised graph under construction, with random weights."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []

    def input(self, dtype: str, *shape: int) -> Value:
        zero = 0 if dtype == "int16" else 128
        made = Value(f"x{len(self.inputs)}", _type(dtype, shape, 0.02, zero))
        self.inputs.append(made)
        return made

    def weights(self, *shape: int) -> Value:
        data = self.random.integers(-127, 128, shape).astype(np.int8)
        return Value(f"w{len(self.nodes)}", _type("int8", shape, 0.01), data)

    def add(self, op: str, inputs: Sequence[Value], dtype: str = "uint8", **attrs: Any) -> Value:
        (kind,) = PRIMITIVES[op].infer(tuple(v.type for v in inputs), attrs)
        name = f"{op.lower()}{len(self.nodes)}"
        output = Value(name, _type(dtype, kind.shape, 0.02, 0 if dtype == "int16" else 128))
        self.nodes.append(Node(op, name, tuple(inputs), (output,), attrs))
        return output

    def dense(self, x: Value, outputs: int, dtype: str = "uint8") -> Value:
        return self.add("MatMul", [x, self.weights(x.type.shape[-1], outputs)], dtype)

    def convolution(self, x: Value, channels: int, side: int) -> Value:
        pad = side // 2
        attrs = {
            "kernel_shape": [side, side],
            "strides": [1, 1],
            "dilations": [1, 1],
            "pads": [pad] * 4,
            "group": 1,
            "clip": (0.0, None),
        }
        weights = self.weights(channels, x.type.shape[1], side, side)
        return self.add("Conv", [x, weights], **attrs)

    def table(self, x: Value) -> Value:
        """A function of one value, such as a sigmoid: any table takes the same time."""
        real = TensorType(x.type.shape, FORMATS["fp32"])
        x_real, y_real = Value("x", real), Value("y", real)
        function = Graph("f", (x_real,), (y_real,), (Node("Sigmoid", "f", (x_real,), (y_real,)),))
        entries = self.random.integers(0, 256, 256).astype(np.uint8)
        table = Value(f"t{len(self.nodes)}", _type("uint8", (256,)), entries)
        return self.add("Lookup", [x, table], function=function)

    def graph(self, name: str) -> Graph:
        read = {id(v) for n in self.nodes for v in n.inputs}
        outputs = [v for n in self.nodes for v in n.outputs if id(v) not in read]
        return Graph(name, tuple(self.inputs), tuple(outputs), tuple(self.nodes)).check()


def _type(dtype: str, shape: Sequence[int], scale: float = 0.02, zero: int = 0) -> TensorType:
    return TensorType(tuple(shape), FORMATS[dtype], Quant.per_tensor(scale, zero))


def _perceptron(batch: int, width: int, layers: int) -> Maker:
    made = Maker()
    x = made.input("uint8", batch, width)
    for _ in range(layers):
        x = made.add("MatMul", [x, made.weights(width, width)], clip=(0.0, None))
    return made


def _lstm(batch: int, width: int, cells: int, last: int = 0) -> Maker:
    """Cells whose input and state come from the host: the vector unit adds 8-bit values only."""
    made = Maker()
    for _ in range(cells):
        x = made.input("int16", batch, 2 * width)
        gates = [made.table(made.dense(x, width)) for _ in range(4)]
        state = made.input("uint8", batch, width)
        kept = made.add("Mul", [gates[0], state])
        fresh = made.add("Mul", [gates[1], gates[2]])
        state = made.add("Add", [kept, fresh])
        made.add("Mul", [gates[3], made.table(state)])
    if last:
        made.dense(made.input("int16", batch, width), last)
    return made


def _board(batch: int) -> Maker:
    made = Maker()
    x = made.input("uint8", batch, 256, 19, 19)
    for side in [3] * 13 + [1] * 3:
        x = made.convolution(x, 256, side)
    return made


def _deep(batch: int) -> Maker:
    made = Maker()
    x = made.input("uint8", batch, 205, 14, 14)
    for number in range(72):
        x = made.convolution(x, 205, 3)
        if number % 6 == 5:
            x = made.add("MaxPool", [x], kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    x = made.add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4)
    x = made.add("Reshape", [x], shape=(batch, 205 * 49))
    for width in (4096, 4096, 2600, 1600):
        x = made.dense(x, width)
    return made


@dataclass(frozen=True, slots=True)
class Application:
    make: Callable[[], Maker]
    settings: tuple[str, ...] = ()


APPLICATIONS = {
    "MLP0": Application(lambda: _perceptron(200, 2000, 5)),
    "MLP1": Application(lambda: _perceptron(168, 1118, 4)),
    "LSTM0": Application(lambda: _lstm(64, 1024, 6), WIDE),
    "LSTM1": Application(lambda: _lstm(96, 600, 9, 13500), WIDE),
    "CNN0": Application(lambda: _board(8)),
    "CNN1": Application(lambda: _deep(32)),
}


def measured(name: str) -> dict[str, float]:
    """Every cell of table 3, as one run here has it."""
    application = APPLICATIONS[name]
    machine = api.load_machine("tpu-v1", application.settings)
    program = api.compile(application.make().graph(name), machine)
    on_host = [layer.name for layer in program.layers if layer.placed == "host"]
    if on_host:
        sys.exit(f"{name}: on the host: {on_host}")
    trace = api.simulate(program)
    found = table3(ledger(trace))
    macs = sum(layer.macs for layer in program.layers)
    cells = {key: found[row] for key, row in CELLS.items()}
    return cells | {"tops": 2 * macs / (trace.cycles / machine.clock_hz) / 1e12}


def missed(key: str, paper: float, here: float) -> bool:
    """Whether a declared cell is outside of what was asked for."""
    if key == "tops":
        return abs(here / paper - 1) > MOST_SHARE
    return paper >= LEAST_CELL and abs(here - paper) > MOST_POINTS


def main() -> None:
    paper = tomllib.loads(PAPER.read_text(encoding="utf-8"))
    names = sys.argv[1:] or list(APPLICATIONS)
    found = {name: measured(name) for name in names}
    print("| paper / here | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names))
    misses: list[str] = []
    for key in (*CELLS, "tops"):
        cells: list[str] = []
        for name in names:
            expected, here = paper[name][key], found[name][key]
            text = f"{expected:.1f} / {here:.1f}"
            if key in paper[name]["declared"]:
                text = f"**{text}**"
                if missed(key, expected, here):
                    text += " miss"
                    misses.append(f"{name} {key}: {expected:.1f} in the paper, {here:.1f} here")
            cells.append(text)
        label = CELLS.get(key, "TOPS")
        print(f"| {label} | " + " | ".join(cells) + " |")
    declared = sum(len(paper[name]["declared"]) for name in names)
    print(f"\n{declared - len(misses)} of {declared} declared cells (bold) within reach")
    print("\n".join(misses))
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
