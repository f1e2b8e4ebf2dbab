"""Pipelines in the shape of a model: the bits of its graph, the cycles of its plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeline
from conftest import ShippedModel
from pipeline_cases import (
    Network,
    differences,
    expected_pixels,
    given_pixels,
    plan_of,
    random_network,
    samples_of,
)
from ridgeline.compiler.device_part import device_part
from ridgeline.errors import RidgelineError
from ridgeline.machine.loader import load_machine
from ridgeline.numerics.quantize import quantize
from ridgeline.rtl.pipeline.layers import layers_of
from ridgeline.rtl.pipeline.reducing import Reducing
from ridgeline.rtl.pipeline.simulate import stream
from ridgeline.rtl.pipeline.stage import Buffer, Steps
from ridgeline.rtl.pipeline.timing import times


@pytest.mark.parametrize("seed", range(3))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    part = random_network(seed).part(tmp_path / "net.onnx")
    layers = layers_of(part)
    slowest = max(layer.made.pixels * layer.window.taps for layer in layers)
    plan = plan_of(part, interval_cycles=max(slowest, 64) * (1 + seed))
    assert differences(part, plan, samples_of(part, 3, seed)) == []


def test_every_width_of_weights(tmp_path: Path) -> None:
    """A layer for each from 2 to 8 bits."""
    net = Network(5, 6, 3, 3)
    for _ in range(7):
        net.conv(6, 6)
    bits = {f"conv{number}": number + 2 for number in range(7)}
    part = net.part(tmp_path / "net.onnx", bits)
    plan = plan_of(part, multipliers=40)
    assert [stage.layer.weight_bits for stage in plan.stages] == list(bits.values())
    assert differences(part, plan, samples_of(part, 3)) == []


def test_sixteen_bit_activations(tmp_path: Path) -> None:
    net = Network(6, 3, 4, 4)
    net.conv(4, 3, 3, pads=[1, 1, 1, 1])
    net.conv(5, 4)
    net.conv(3, 5)
    part = net.part(tmp_path / "net.onnx", activations="int16")
    plan = plan_of(part)
    assert [stage.layer.made.element.bits for stage in plan.stages] == [16, 16, 16]
    assert differences(part, plan, samples_of(part, 2)) == []


def test_multilayer_perceptron(tmp_path: Path) -> None:
    net = Network(7, 64)
    net.dense(24, 64)
    net.add("Relu")
    net.dense(16, 24)
    net.add("Relu")
    net.dense(10, 16)
    part = net.part(tmp_path / "net.onnx")
    plan = plan_of(part, interval_cycles=96)
    assert plan.stages[0].layer.given[0].channels == 16  # of a vector of 64, together
    assert differences(part, plan, samples_of(part, 20)) == []


def test_latency_of_one_layer_by_hand(tmp_path: Path) -> None:
    """A product of 8 by 6, all at once: its one pixel comes in in cycle 0, is seen in 1 and read;
    operands 2, product 1, tree 2, total 1, waiting 1, a lane's 12 and its word, two at the end.
    """
    net = Network(8, 8)
    net.dense(6, 8)
    part = net.part(tmp_path / "net.onnx")
    plan = plan_of(part, interval_cycles=1)
    (stage,) = plan.stages
    assert (stage.multipliers, stage.lanes, stage.pixel_steps) == (48, 6, 1)
    assert times(plan).given == (1 + 2 + 1 + 2 + 1 + 1 + 1 + 12 + 2,)
    assert times(plan, 9).interval_cycles == 1
    assert differences(part, plan, samples_of(part, 9)) == []


def test_the_shipped_model_on_every_test_image(shipped: ShippedModel) -> None:
    with np.load(shipped.calibration) as samples:
        graph = ridgeline.quantize(
            ridgeline.read_onnx(shipped.model), {name: samples[name] for name in samples}
        )
    part = device_part(graph, load_machine("tiny-16"))
    with np.load(shipped.test) as test:
        images, labels = test["image"], test["labels"]
    value = part.inputs[0]
    assert value.type.quant is not None
    stored = quantize(images, value.type.quant, value.type.dtype)
    singles = [stored[i : i + 1] for i in range(len(stored))]
    plan = plan_of(part, interval_cycles=1152)
    made, planned = stream(plan, given_pixels(plan, singles)), times(plan, len(singles))
    np.testing.assert_array_equal(made.pixels, expected_pixels(part, plan, singles))
    assert (made.taken, made.given) == (planned.taken, planned.given)
    assert planned.interval_cycles == 1152
    assert (made.pixels.argmax(axis=1) == labels).mean() >= 0.97


def never_waits(self: Steps, m: Any) -> Any:
    from amaranth.hdl import Const

    return Const(1, 1)


def always_room(self: Buffer, claimed: Any) -> Any:
    return claimed == claimed


def of_the_first(self: Reducing, m: Any, name: str, values: Any, index: Any) -> Any:
    return PARAMETERS(self, m, name, np.full_like(values, values[0]), index)


PARAMETERS = Reducing._parameters

MUTATIONS: dict[str, tuple[Any, str, Callable[..., Any], str]] = {
    "passes meet": (Steps, "_passes_free", never_waits, "cycles out"),
    "buffers overflow": (Buffer, "has_room", always_room, "hangs"),
    "one channel's parameters for all": (Reducing, "_parameters", of_the_first, "bits"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_broken_hardware_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    net = Network(9, 4, 6, 6)
    net.conv(4, 4)
    kept = net.last
    net.conv(4, 1, 3, group=4, pads=[1, 1, 1, 1])
    net.add("Add", kept)
    part = net.part(tmp_path / "net.onnx")
    plan = plan_of(part, interval_cycles=400)
    owner, method, replacement, found = MUTATIONS[name]
    monkeypatch.setattr(owner, method, replacement)
    try:
        others = differences(part, plan, samples_of(part, 12))
    except RidgelineError as error:
        others = ["hangs"] if "and then none in" in str(error) else []
    assert found in others
