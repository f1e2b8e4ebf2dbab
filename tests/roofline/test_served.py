"""A file as a job: what it asks beside what is kept of the same network by name."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import ridgeline
from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.predict.networks import network
from ridgeline.roofline.served import job_of, work_of
from ridgeline.workload.build import workload_of
from ridgeline.workload.layer import Layer, Operand, Workload

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"


def test_the_file_asks_for_what_the_network_known_by_name_asks_for() -> None:
    job = job_of(workload_of(read_onnx(LIGHT, weights=False)), "int8")
    for batch in (1, 16):
        file, known = job.work(batch), network("resnet-50", "int8", batch)
        assert file.operations == known.operations
        assert file.weight_bytes == pytest.approx(known.weight_bytes, rel=0.01)
        assert file.vector_bytes == pytest.approx(known.vector_bytes, rel=0.25)
        assert file.link_bytes == batch * (3 * 224 * 224 + 1000)
    assert job.work(1).layers == 54


def test_choosing_by_file_or_by_name_is_the_same() -> None:
    found, jobs = ridgeline.choose([str(LIGHT), "resnet-50=2"], chips=["l4"])
    assert [job.share for job in jobs] == [1, 2]
    file, known = (run.estimate.seconds for run in found[0].runs)
    assert file == pytest.approx(known, rel=0.02)


def _layer(macs: int | None, elements: int) -> Layer:
    operands = (
        Operand("w", 0, "weight", 100, 100, 32),
        Operand("x", 1, "input", elements, elements, 32),
        Operand("y", 2, "output", elements, elements, 32),
    )
    return Layer("one", "MatMul", "product", macs, 0, operands, parameters=100)


def test_weights_stay_and_the_rest_grows_with_the_batch() -> None:
    layer = _layer(5000, 50)
    border = (layer.operands[1],)
    job = job_of(Workload("small", (layer,), 1, border, (layer.operands[2],)), "fp16")
    one, many = job.work(1), job.work(10)
    assert (one.weight_bytes, one.vector_bytes, one.link_bytes) == (200, 100, 200)
    assert (many.weight_bytes, many.vector_bytes, many.link_bytes) == (200, 1000, 2000)
    assert many.operations == 10 * one.operations == 100_000
    assert many.stored_bytes == 200 + 10 * 200


def test_a_weight_that_two_layers_use_is_stored_once() -> None:
    layer = _layer(5000, 50)
    work = work_of(Workload("tied", (layer, layer), 1), "int8")
    assert work.weight_bytes <= 200
    assert work.stored_bytes == 100 + 2 * 50


def test_unknown_work_is_refused() -> None:
    with pytest.raises(RidgelineError) as caught:
        work_of(Workload("odd", (_layer(None, 5),), 1), "int8")
    assert str(caught.value) == (
        "odd: the multiply-accumulates of one (MatMul) are unknown."
        " Give the dimensions of the inputs, or split the model there"
    )


def test_a_file_that_is_not_there_says_so() -> None:
    with pytest.raises(RidgelineError, match=r"none\.onnx: no such file"):
        ridgeline.choose(["none.onnx"])
