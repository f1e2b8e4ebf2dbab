"""The whole shipped model on the hardware: all that runs on the accelerator, on its test images."""

from __future__ import annotations

import numpy as np

import ridgeline
from conftest import ShippedModel
from ridgeline.compiler import compile
from ridgeline.compiler.device_part import device_part
from ridgeline.machine.loader import load_machine
from ridgeline.numerics.quantize import quantize
from ridgeline.rtl.cosim import CosimCase, cosimulate_many
from rtl_cases import bit_differences, cycle_differences

BATCH, BATCHES = 50, 9


def test_every_test_image(shipped: ShippedModel) -> None:
    with np.load(shipped.calibration) as samples:
        graph = ridgeline.quantize(
            ridgeline.read_onnx(shipped.model, batch=BATCH),
            {name: samples[name] for name in samples},
        )
    machine = load_machine("tiny-16")
    part = device_part(graph, machine)
    source, output = part.inputs[0], part.outputs[0]
    assert source.type.quant is not None
    with np.load(shipped.test) as test:
        images, labels = test["image"], test["labels"]
    stored = quantize(images, source.type.quant, source.type.dtype)
    program = compile(part, machine, host_link=False)
    cases = [
        CosimCase(program, {source.name: stored[BATCH * i : BATCH * (i + 1)]})
        for i in range(BATCHES)
    ]
    results = cosimulate_many(cases)
    right = 0
    for number, (case, result) in enumerate(zip(cases, results, strict=True)):
        assert bit_differences(case, result) == []
        assert cycle_differences(case, result) == []
        best = result.outputs[output.name].argmax(axis=1)
        right += int((best == labels[BATCH * number : BATCH * (number + 1)]).sum())
    assert len(images) == BATCH * BATCHES
    assert right >= 0.97 * len(images)
