"""Small networks for pipelines, quantised, and how far the hardware is from what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import ridgeline
from ridgeline.compiler.device_part import device_part
from ridgeline.ir import Graph
from ridgeline.machine.loader import load_machine
from ridgeline.ops.evaluate import evaluate
from ridgeline.quant.recipe import Recipe
from ridgeline.rtl.pipeline.choose import Target, choose
from ridgeline.rtl.pipeline.layers import layers_of, pixels_of
from ridgeline.rtl.pipeline.narrow import narrowed
from ridgeline.rtl.pipeline.plan import Plan
from ridgeline.rtl.pipeline.simulate import stream
from ridgeline.rtl.pipeline.timing import times


class Network:
    """Nodes one behind the other, weights drawn at random."""

    def __init__(self, seed: int, *shape: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shape = [1, *shape]
        self.nodes: list[onnx.NodeProto] = []
        self.held: list[onnx.TensorProto] = []
        self.last = "x"

    def add(self, op: str, *more: str, **attributes: object) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        made = helper.make_node(op, [self.last, *more], [f"{name}_y"], name, **attributes)
        self.nodes.append(made)
        self.last = f"{name}_y"
        return self.last

    def weights(self, *shape: int) -> str:
        fan = max(int(np.prod(shape[1:])), 1)
        data = (self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)
        name = f"w{len(self.held)}"
        self.held.append(numpy_helper.from_array(data, name))
        return name

    def conv(self, outputs: int, inputs: int, kernel: int = 1, **attributes: object) -> str:
        """Of `inputs` channels a group."""
        return self.add(
            "Conv",
            self.weights(outputs, inputs, kernel, kernel),
            self.weights(outputs),
            **attributes,
        )

    def dense(self, outputs: int, inputs: int) -> str:
        return self.add("Gemm", self.weights(inputs, outputs), self.weights(outputs))

    def save(self, path: Path) -> Path:
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        made = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", [given], [made], self.held)
        opset = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
        return path

    def part(
        self, path: Path, bits: Mapping[str, int] | None = None, activations: str = "uint8"
    ) -> Graph:
        """Quantised, without the host's work."""
        graph = ridgeline.read_onnx(self.save(path))
        samples = {"x": self.rng.standard_normal((16, *self.shape[1:])).astype(np.float32)}
        recipe = Recipe(activations=activations)  # type: ignore[arg-type]
        quantised = ridgeline.quantize(graph, samples, recipe)
        wide = ["array.macs_per_pe_per_cycle.int16=0.5", "array.accumulator_bits=48"]
        settings = wide if activations == "int16" else []
        return device_part(narrowed(quantised, bits or {}), load_machine("tiny-16", settings))


def random_network(seed: int) -> Network:
    """Windows, strides, dilations, padding, groups, pooling, a skip, a mean and a dense layer."""
    rng = np.random.default_rng(seed)
    channels, side = int(rng.integers(1, 4)), int(rng.integers(5, 9))
    net = Network(seed, channels, side, side)
    width = int(rng.choice([4, 6, 8]))
    kernel, stride = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    net.conv(width, channels, kernel, pads=[1, 1, 0, 1], strides=[stride, 1])
    net.add("Relu")
    kept = net.last
    dilation = int(rng.integers(1, 3))
    net.conv(width, 1, 3, group=width, pads=[dilation] * 4, dilations=[dilation, dilation])
    net.conv(width, width // 2, 1, group=2)
    net.add("Add", kept)
    net.add("Relu")
    if rng.random() < 0.5:
        net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 1], pads=[0, 1, 0, 0])
    if rng.random() < 0.5:
        net.add("GlobalAveragePool")
    else:
        net.conv(5, width, 2, strides=[2, 2])
    return net


def samples_of(part: Graph, count: int, seed: int = 0) -> list[np.ndarray]:
    value = part.inputs[0]
    rng, kind = np.random.default_rng(seed), value.type.dtype
    return [
        rng.integers(kind.low, kind.high + 1, value.type.shape).astype(kind.numpy)
        for _ in range(count)
    ]


def expected_pixels(part: Graph, plan: Plan, images: list[np.ndarray]) -> np.ndarray:
    """What the graph says, in the order in which it streams out."""
    value, output = part.inputs[0], part.outputs[0]
    made = [evaluate(part, {value.name: one})[id(output)] for one in images]
    return np.concatenate([pixels_of(one, plan.stages[-1].layer.made) for one in made])


def given_pixels(plan: Plan, images: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([pixels_of(one, plan.stages[0].layer.given[0]) for one in images])


def differences(part: Graph, plan: Plan, images: list[np.ndarray]) -> list[str]:
    """Bits without and with random stalls, and the cycle of every pixel in and out."""
    expected, given = expected_pixels(part, plan, images), given_pixels(plan, images)
    found: list[str] = []
    plain, stalled = stream(plan, given), stream(plan, given, 3)
    found += ["bits"] * (not np.array_equal(plain.pixels, expected))
    found += ["bits with stalls"] * (not np.array_equal(stalled.pixels, expected))
    planned = times(plan, len(images))
    found += ["cycles in"] * (planned.taken != plain.taken)
    found += ["cycles out"] * (planned.given != plain.given)
    return found


def plan_of(part: Graph, **target: int) -> Plan:
    return choose(part.name, layers_of(part), Target(**target) if target else None)
