"""The shipped model is small, valid, accurate, and holds the operators that it is there for."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest


@pytest.fixture(scope="module")
def model(shipped) -> onnx.ModelProto:
    return onnx.load(shipped.model)


def test_is_small(shipped):
    assert shipped.model.stat().st_size < 200_000


def test_passes_the_onnx_checker(model):
    onnx.checker.check_model(model, full_check=True)


def test_batch_is_symbolic(model):
    (image,), (probabilities,) = model.graph.input, model.graph.output
    assert (image.name, probabilities.name) == ("image", "probabilities")
    assert [d.dim_param or d.dim_value for d in image.type.tensor_type.shape.dim] == ["N", 1, 8, 8]
    assert [d.dim_param or d.dim_value for d in probabilities.type.tensor_type.shape.dim] == [
        "N",
        10,
    ]


def test_holds_the_operators(model):
    assert {node.op_type for node in model.graph.node} == {
        "Add",
        "BatchNormalization",
        "Conv",
        "Flatten",
        "Gemm",
        "GlobalAveragePool",
        "MaxPool",
        "Relu",
        "Softmax",
    }
    assert model.graph.node[-1].op_type == "Softmax"


def test_convolutions_are_plain_depthwise_pointwise_and_strided(model):
    attributes = {
        node.name: {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        for node in model.graph.node
        if node.op_type == "Conv"
    }
    assert attributes["block1/depthwise"]["group"] == 16
    assert attributes["block2/depthwise"]["group"] == 32
    assert attributes["block1/pointwise"]["kernel_shape"] == [1, 1]
    assert attributes["reduce/conv"]["strides"] == [2, 2]
    assert attributes["widen/conv"]["group"] == 1


def test_batch_statistics_were_trained(model):
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            scale, bias, mean, variance = (constants[name] for name in node.input[1:])
            for trained in (scale - 1, bias, mean, variance - 1):
                assert np.any(np.abs(trained) > 1e-3), node.name


def test_nodes_have_distinct_names(model):
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    assert all("/" in name for name in names)


def test_says_how_it_was_made(model):
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["made_by"] == "models/train_digits.py"
    assert float(metadata["held_out_accuracy"]) >= 0.975


def test_classifies_held_out_images(shipped):
    test = np.load(shipped.test)
    assert test["image"].shape == (450, 1, 8, 8)
    assert test["image"].dtype == np.float32
    assert test["labels"].dtype == np.int64
    session = onnxruntime.InferenceSession(shipped.model)
    (probabilities,) = session.run(["probabilities"], {"image": test["image"]})
    assert np.mean(probabilities.argmax(axis=1) == test["labels"]) >= 0.975


def test_calibration_images_are_not_held_out(shipped):
    calibration, held_out = np.load(shipped.calibration)["image"], np.load(shipped.test)["image"]
    assert calibration.shape == (64, 1, 8, 8)
    assert calibration.dtype == np.float32
    assert not {image.tobytes() for image in calibration} & {i.tobytes() for i in held_out}
