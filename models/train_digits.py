"""Train the shipped model, `digits_cnn.onnx`, on scikit-learn's handwritten digits.

Run as `make model`; about a minute on one core. The 450 held-out images are used once, to measure
the final network: they choose neither the network, nor the recipe, nor the epoch. Every random
number comes from SEED and the arithmetic runs on one thread, so a second run on the same computer
writes the same bytes; another processor's matrix products may round differently.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import sklearn
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from layers import (
    Add,
    Array,
    BatchNormalization,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Relu,
    Softmax,
    cross_entropy_gradient,
)

SEED = 2017
EPOCHS = 60
BATCH = 64
LEARNING_RATE = 4e-3
WEIGHT_DECAY = 1e-3
LABEL_SMOOTHING = 0.05
HELD_OUT_IMAGES = 450
CALIBRATION_IMAGES = 64
INPUT = "image"
OUTPUT = "probabilities"
DIRECTORY = Path(__file__).resolve().parents[1] / "src" / "ridgeline" / "models"


class Network:
    """Layers in the order of their execution, each naming the layers whose outputs it reads."""

    def __init__(self) -> None:
        self.layers: dict[str, Layer] = {}
        self.inputs: dict[str, tuple[str, ...]] = {}
        self.last = INPUT

    def append(self, name: str, layer: Layer, *inputs: str) -> None:
        """Add a layer that reads the named layers' outputs; if none is named, the last layer's."""
        self.layers[name] = layer
        self.inputs[name] = inputs or (self.last,)
        self.last = name

    def forward(self, images: Array, *, training: bool) -> Array:
        values = {INPUT: images}
        for name, layer in self.layers.items():
            inputs = (values[source] for source in self.inputs[name])
            values[name] = layer.forward(*inputs, training=training)
        return values[self.last]

    def backward(self, gradient: Array) -> None:
        """Fill every layer's `gradients`; a value that several layers read sums theirs."""
        gradients = {self.last: gradient}
        for name, layer in reversed(self.layers.items()):
            parts = layer.backward(gradients.pop(name))
            for source, part in zip(self.inputs[name], parts, strict=True):
                gradients[source] = gradients[source] + part if source in gradients else part


def build(random: np.random.Generator) -> Network:
    """A stem, two depthwise-separable residual blocks, two plain convolutions and a dense head."""
    network = Network()
    append = network.append

    def append_convolution(block: str, layer: Convolution, relu: str | None) -> None:
        append(block, layer)
        append(f"{block}_norm", BatchNormalization(layer.parameters["weight"].shape[0]))
        if relu is not None:
            append(relu, Relu())

    def append_residual(block: str, channels: int) -> None:
        shortcut = network.last
        depthwise = Convolution(random, channels, channels, kernel=3, groups=channels)
        append_convolution(f"{block}/depthwise", depthwise, f"{block}/depthwise_relu")
        pointwise = Convolution(random, channels, channels, kernel=1)
        append_convolution(f"{block}/pointwise", pointwise, None)
        append(f"{block}/add", Add(), network.last, shortcut)
        append(f"{block}/relu", Relu())

    append_convolution("stem/conv", Convolution(random, 1, 16, kernel=3), "stem/relu")
    append_residual("block1", 16)
    append_convolution("widen/conv", Convolution(random, 16, 32, kernel=3), "widen/relu")
    append("widen/pool", MaxPool())
    append_residual("block2", 32)
    append_convolution(
        "reduce/conv", Convolution(random, 32, 64, kernel=3, stride=2), "reduce/relu"
    )
    append("head/pool", GlobalAveragePool())
    append("head/flatten", Flatten())
    append("head/dense", Dense(random, 64, 10))
    append("head/softmax", Softmax())
    return network


class Adam:
    """Adam with weight decay on the weights alone (Loshchilov and Hutter 2019, "AdamW")."""

    def __init__(self, network: Network) -> None:
        self.layers = list(network.layers.values())
        self.steps = 0
        self.moments = [
            {name: (np.zeros_like(p), np.zeros_like(p)) for name, p in layer.parameters.items()}
            for layer in self.layers
        ]

    def step(self, rate: float) -> None:
        self.steps += 1
        correction = np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for layer, moments in zip(self.layers, self.moments, strict=True):
            for name, parameter in layer.parameters.items():
                gradient, (first, second) = layer.gradients[name], moments[name]
                first += 0.1 * (gradient - first)
                second += 0.001 * (gradient**2 - second)
                parameter -= rate * correction * first / (np.sqrt(second) + 1e-8)
                if name == "weight":
                    parameter -= rate * WEIGHT_DECAY * parameter


def shift(images: Array, random: np.random.Generator) -> Array:
    """Move each image by up to one pixel each way, the edges filled with background."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, images.shape[2:], axis=(2, 3))
    rows, columns = random.integers(0, 3, (2, len(images)))
    return windows[np.arange(len(images)), :, rows, columns]


def train(network: Network, images: Array, labels: Array, random: np.random.Generator) -> None:
    optimiser = Adam(network)
    total_steps = EPOCHS * (len(images) // BATCH)
    for epoch in range(EPOCHS):
        order = random.permutation(len(images))
        # The last, smaller batch is left out: its statistics would disturb the normalisation.
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            probabilities = network.forward(shift(images[chosen], random), training=True)
            network.backward(cross_entropy_gradient(probabilities, labels[chosen], LABEL_SMOOTHING))
            progress = optimiser.steps / total_steps
            optimiser.step(LEARNING_RATE * (1 + np.cos(np.pi * progress)) / 2)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:2}: training accuracy {accuracy(network, images, labels):.4f}")


def accuracy(network: Network, images: Array, labels: Array) -> float:
    probabilities = network.forward(images, training=False)
    return float((probabilities.argmax(axis=1) == labels).mean())


def to_onnx(network: Network, metadata: dict[str, str]) -> onnx.ModelProto:
    """The network as an ONNX model, one node a layer, under the layer's name."""
    value_of = {name: name for name in network.layers} | {INPUT: INPUT, network.last: OUTPUT}
    nodes: list[onnx.NodeProto] = []
    initializers: list[onnx.TensorProto] = []
    for name, layer in network.layers.items():
        constants = layer.parameters | layer.statistics
        initializers += [numpy_helper.from_array(a, f"{name}/{c}") for c, a in constants.items()]
        nodes.append(
            helper.make_node(
                layer.operator,
                [value_of[source] for source in network.inputs[name]]
                + [f"{name}/{constant}" for constant in constants],
                [value_of[name]],
                name,
                **layer.attributes(),
            )
        )
    graph = helper.make_graph(
        nodes,
        "digits_cnn",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["N", 10])],
        initializers,
    )
    # IR version 8 is the one that opset 17 came with, so that older readers open the file too.
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="ridgeline"
    )
    helper.set_model_props(model, metadata)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model, full_check=True)
    return model


def describe(held_out_accuracy: float) -> dict[str, str]:
    """What the file says about its own making."""
    return {
        "made_by": "models/train_digits.py",
        "data": "scikit-learn load_digits (UCI Optical Recognition of Handwritten Digits, "
        f"test part: 1797 images, 8x8), pixels / 16; {HELD_OUT_IMAGES} held out, stratified",
        "recipe": f"AdamW, {EPOCHS} epochs, batch {BATCH}, rate {LEARNING_RATE} with cosine decay, "
        f"weight decay {WEIGHT_DECAY}, label smoothing {LABEL_SMOOTHING}, shifts of one pixel",
        "seed": str(SEED),
        "held_out_accuracy": f"{held_out_accuracy:.4f}",
        "versions": f"numpy {np.__version__}, scikit-learn {sklearn.__version__}, "
        f"onnx {onnx.__version__}",
    }


def check_with_onnxruntime(model: onnx.ModelProto, network: Network, images: Array) -> None:
    """Refuse a file that does not compute what was trained."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (probabilities,) = session.run([OUTPUT], {INPUT: images})
    np.testing.assert_allclose(
        probabilities, network.forward(images, training=False), rtol=1e-3, atol=1e-5
    )


def main() -> None:
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int64)
    images, held_out, labels, held_out_labels = train_test_split(
        images, labels, test_size=HELD_OUT_IMAGES, stratify=labels, random_state=SEED
    )
    random = np.random.default_rng(SEED)
    network = build(random)
    with threadpool_limits(limits=1):
        train(network, images, labels, random)
        measured = accuracy(network, held_out, held_out_labels)
    model = to_onnx(network, describe(measured))
    check_with_onnxruntime(model, network, held_out)
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    onnx.save(model, DIRECTORY / "digits_cnn.onnx")
    np.savez_compressed(DIRECTORY / "digits_test.npz", image=held_out, labels=held_out_labels)
    np.savez_compressed(DIRECTORY / "digits_calibration.npz", image=images[:CALIBRATION_IMAGES])
    print(f"held-out accuracy {measured:.4f} of {len(held_out)} images; wrote {DIRECTORY}")


if __name__ == "__main__":
    main()
