"""The layers of a small convolutional network in NumPy, with their gradients.

Each layer maps its input arrays to one output and the gradient of that output back to gradients of
its inputs and parameters, and names the ONNX operator that computes the same thing. Images are
[batch, channel, row, column] as in ONNX.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Array = np.ndarray


class Layer:
    """One operator: `parameters` are trained, `statistics` are gathered while training.

    The ONNX node takes the layer's inputs, then its parameters, then its statistics, in the order
    of those two dictionaries.
    """

    operator: ClassVar[str]

    def __init__(self) -> None:
        self.parameters: dict[str, Array] = {}
        self.statistics: dict[str, Array] = {}
        self.gradients: dict[str, Array] = {}

    def attributes(self) -> dict[str, Any]:
        return {}

    def forward(self, *inputs: Array, training: bool) -> Array:
        raise NotImplementedError

    def backward(self, gradient: Array) -> tuple[Array, ...]:
        raise NotImplementedError


class Convolution(Layer):
    """A square convolution without bias, padded by half a kernel; one matrix product a group."""

    operator = "Conv"

    def __init__(
        self,
        random: np.random.Generator,
        channels_in: int,
        channels_out: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.kernel, self.stride, self.groups = kernel, stride, groups
        shape = (channels_out, channels_in // groups, kernel, kernel)
        # He et al. 2015, "Delving Deep into Rectifiers": variance 2 / fan-in before a ReLU.
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        self.parameters["weight"] = (random.standard_normal(shape) * deviation).astype(np.float32)

    def attributes(self) -> dict[str, Any]:
        return {
            "kernel_shape": [self.kernel] * 2,
            "pads": [self.kernel // 2] * 4,
            "strides": [self.stride] * 2,
            "group": self.groups,
        }

    def forward(self, *inputs: Array, training: bool) -> Array:
        (images,) = inputs
        pad = self.kernel // 2
        self.padded = np.pad(images, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = sliding_window_view(self.padded, (self.kernel, self.kernel), axis=(2, 3))
        windows = windows[:, :, :: self.stride, :: self.stride]
        batch, channels, rows, columns = windows.shape[:4]
        self.grouped = (batch, self.groups, channels // self.groups, rows, columns)
        self.windows = (
            windows.reshape(*self.grouped, self.kernel**2)
            .transpose(1, 0, 3, 4, 2, 5)
            .reshape(self.groups, batch * rows * columns, -1)
        )
        product = self.windows @ self._weight_matrices()
        return (
            product.reshape(self.groups, batch, rows, columns, -1)
            .transpose(1, 0, 4, 2, 3)
            .reshape(batch, -1, rows, columns)
        )

    def backward(self, gradient: Array) -> tuple[Array, ...]:
        batch, groups, _, rows, columns = self.grouped
        product = (
            gradient.reshape(batch, groups, -1, rows, columns)
            .transpose(1, 0, 3, 4, 2)
            .reshape(groups, batch * rows * columns, -1)
        )
        weight = self.windows.transpose(0, 2, 1) @ product
        self.gradients["weight"] = weight.transpose(0, 2, 1).reshape(
            self.parameters["weight"].shape
        )
        windows = product @ self._weight_matrices().transpose(0, 2, 1)
        return (self._scatter(windows),)

    def _weight_matrices(self) -> Array:
        """Weights as [group, reduction, output channel of the group]."""
        weight = self.parameters["weight"]
        return weight.reshape(self.groups, weight.shape[0] // self.groups, -1).transpose(0, 2, 1)

    def _scatter(self, windows: Array) -> Array:
        """Sum the gradients of overlapping windows back into the images that they were cut from."""
        batch, groups, channels, rows, columns = self.grouped
        windows = windows.reshape(groups, batch, rows, columns, channels, self.kernel, self.kernel)
        windows = windows.transpose(1, 0, 4, 2, 3, 5, 6)
        windows = windows.reshape(batch, -1, rows, columns, self.kernel, self.kernel)
        padded = np.zeros_like(self.padded)
        row_end, column_end = rows * self.stride, columns * self.stride
        for i in range(self.kernel):
            for j in range(self.kernel):
                target = padded[
                    :, :, i : i + row_end : self.stride, j : j + column_end : self.stride
                ]
                target += windows[..., i, j]
        pad = self.kernel // 2
        return padded[:, :, pad : padded.shape[2] - pad, pad : padded.shape[3] - pad]


class BatchNormalization(Layer):
    """Normalise each channel; batch statistics in training, their running mean afterwards."""

    operator = "BatchNormalization"
    epsilon = 1e-5
    momentum = 0.95

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.parameters["scale"] = np.ones(channels, np.float32)
        self.parameters["bias"] = np.zeros(channels, np.float32)
        self.statistics["mean"] = np.zeros(channels, np.float32)
        self.statistics["variance"] = np.ones(channels, np.float32)

    def attributes(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}

    def forward(self, *inputs: Array, training: bool) -> Array:
        (images,) = inputs
        mean, variance = self.statistics["mean"], self.statistics["variance"]
        if training:
            mean, variance = images.mean(axis=(0, 2, 3)), images.var(axis=(0, 2, 3))
            for name, seen in (("mean", mean), ("variance", variance)):
                self.statistics[name] *= self.momentum
                self.statistics[name] += (1 - self.momentum) * seen
        self.inverse = 1 / np.sqrt(variance + self.epsilon)
        self.normal = _per_channel(self.inverse) * (images - _per_channel(mean))
        scale, bias = self.parameters["scale"], self.parameters["bias"]
        return self.normal * _per_channel(scale) + _per_channel(bias)

    def backward(self, gradient: Array) -> tuple[Array, ...]:
        axes = (0, 2, 3)
        self.gradients["scale"] = (gradient * self.normal).sum(axis=axes)
        self.gradients["bias"] = gradient.sum(axis=axes)
        normal = gradient * _per_channel(self.parameters["scale"])
        # Mean and variance depend on the images too: Ioffe and Szegedy 2015, section 3.
        centred = normal - normal.mean(axis=axes, keepdims=True)
        along = (normal * self.normal).mean(axis=axes, keepdims=True)
        return (_per_channel(self.inverse) * (centred - self.normal * along),)


def _per_channel(vector: Array) -> Array:
    return vector[:, None, None]


class Relu(Layer):
    operator = "Relu"

    def forward(self, *inputs: Array, training: bool) -> Array:
        (images,) = inputs
        self.positive = images > 0
        return images * self.positive

    def backward(self, gradient: Array) -> tuple[Array, ...]:
        return (gradient * self.positive,)


class Add(Layer):
    operator = "Add"

    def forward(self, *inputs: Array, training: bool) -> Array:
        left, right = inputs
        return left + right

    def backward(self, gradient: Array) -> tuple[Array, ...]:
        return gradient, gradient


class MaxPool(Layer):
    """The largest of each 2 by 2 block."""

    operator = "MaxPool"

    def attributes(self) -> dict[str, Any]:
        return {"kernel_shape": [2, 2], "strides": [2, 2]}

    def forward(self, *inputs: Array, training: bool) -> Array:
        (images,) = inputs
        batch, channels, rows, columns = images.shape
        blocks = images.reshape(batch, channels, rows // 2, 2, columns // 2, 2)
        blocks = blocks.transpose(0, 1, 2, 4, 3, 5).reshape(*blocks.shape[:3], columns // 2, 4)
        # argmax takes the first of equals, so that a gradient goes to one place only.
        self.chosen = np.eye(4, dtype=images.dtype)[blocks.argmax(axis=-1)]
        return blocks.max(axis=-1)

    def backward(self, gradient: Array) -> tuple[Array, ...]:
        batch, channels, rows, columns = gradient.shape
        blocks = (gradient[..., None] * self.chosen).reshape(batch, channels, rows, columns, 2, 2)
        return (blocks.transpose(0, 1, 2, 4, 3, 5).reshape(batch, channels, 2 * rows, 2 * columns),)


class GlobalAveragePool(Layer):
    operator = "GlobalAveragePool"

    def forward(self, *inputs: Array, training: bool) -> Array:
        (images,) = inputs
        self.shape = images.shape
        return images.mean(axis=(2, 3), keepdims=True)

    def backward(self, gradient: Array) -> tuple[Array, ...]:
        return (np.broadcast_to(gradient / (self.shape[2] * self.shape[3]), self.shape),)


class Flatten(Layer):
    operator = "Flatten"

    def forward(self, *inputs: Array, training: bool) -> Array:
        (images,) = inputs
        self.shape = images.shape
        return images.reshape(len(images), -1)

    def backward(self, gradient: Array) -> tuple[Array, ...]:
        return (gradient.reshape(self.shape),)


class Dense(Layer):
    """A fully connected layer; weights are [output, input], as ONNX's Gemm has them with transB."""

    operator = "Gemm"

    def __init__(self, random: np.random.Generator, features_in: int, features_out: int) -> None:
        super().__init__()
        weight = random.standard_normal((features_out, features_in)) / np.sqrt(features_in)
        self.parameters["weight"] = weight.astype(np.float32)
        self.parameters["bias"] = np.zeros(features_out, np.float32)

    def attributes(self) -> dict[str, Any]:
        return {"transB": 1}

    def forward(self, *inputs: Array, training: bool) -> Array:
        (self.features,) = inputs
        return self.features @ self.parameters["weight"].T + self.parameters["bias"]

    def backward(self, gradient: Array) -> tuple[Array, ...]:
        self.gradients["weight"] = gradient.T @ self.features
        self.gradients["bias"] = gradient.sum(axis=0)
        return (gradient @ self.parameters["weight"],)


class Softmax(Layer):
    """Class probabilities. Its `backward` takes the gradient of the scores, not of its output.

    The gradient of the cross-entropy is simplest, and exact, at the scores (probabilities less
    targets), so `cross_entropy_gradient` enters there.
    """

    operator = "Softmax"

    def attributes(self) -> dict[str, Any]:
        return {"axis": 1}

    def forward(self, *inputs: Array, training: bool) -> Array:
        (scores,) = inputs
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def backward(self, gradient: Array) -> tuple[Array, ...]:
        return (gradient,)


def cross_entropy_gradient(probabilities: Array, labels: Array, smoothing: float) -> Array:
    """The gradient, at the scores, of the mean cross-entropy against smoothed one-hot targets."""
    classes = probabilities.shape[1]
    targets = np.full_like(probabilities, smoothing / classes)
    targets[np.arange(len(labels)), labels] += 1 - smoothing
    return (probabilities - targets) / len(labels)
