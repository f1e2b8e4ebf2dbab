"""Add, Mul and Clip, element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.ir import Node, TensorType
from ridgeline.numerics.qlinear import qlinear_add, qlinear_mul
from ridgeline.ops.primitive import (
    Array,
    Attributes,
    Cost,
    Template,
    clipped,
    cost_of,
    present,
    to_float,
)
from ridgeline.ops.stored import (
    all_eight_bits,
    output_bounds,
    real,
    scalars_of,
    store,
    within_bounds,
)


class _Binary:
    """a op b with ONNX's broadcast, which is NumPy's."""

    op = ""

    def __init__(self, real_operation: Callable[..., Any], quantized: Callable[..., Any]) -> None:
        self._real = real_operation
        self._quantized = quantized

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        a: TensorType = present(inputs, 0, self.op)
        b: TensorType = present(inputs, 1, self.op)
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError as error:
            raise RidgelineError(f"{self.op} cannot broadcast {a.shape} with {b.shape}") from error
        return (TensorType(shape, a.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        a: Array = present(inputs, 0, self.op)
        b: Array = present(inputs, 1, self.op)
        if not np.issubdtype(a.dtype, np.integer):
            return [clipped(self._real(to_float(a), to_float(b)), attrs).astype(a.dtype)]
        return [np.asarray(self._real(a, b))]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """QLinearAdd or QLinearMul for 8-bit values.

        Otherwise (int16) float32 between dequantize and quantize, as ONNX Runtime has it.
        """
        a: Array = present(inputs, 0, self.op)
        b: Array = present(inputs, 1, self.op)
        if not all_eight_bits(node):
            left, right = real(a, node.input(0), node), real(b, node.input(1), node)
            return [store(self._real(left, right), node)]
        first, second = scalars_of(node.input(0), node), scalars_of(node.input(1), node)
        output = scalars_of(node.output, node)
        result = self._quantized(a, b, first, second, output, *output_bounds(node))
        return [within_bounds(result, node)]

    def cost(self, node: Node) -> Cost:
        return cost_of(node, vector_operations=node.output.type.elements)

    def template(self, node: Node) -> Template:
        return "vector"


class Add(_Binary):
    """a + b."""

    op = "Add"

    def __init__(self) -> None:
        super().__init__(np.add, qlinear_add)


class Mul(_Binary):
    """a * b."""

    op = "Mul"

    def __init__(self) -> None:
        super().__init__(np.multiply, qlinear_mul)


class _Real(_Binary):
    """a op b in float32 between dequantize and quantize: ONNX Runtime has no integer kernel."""

    def __init__(self, real_operation: Callable[..., Any]) -> None:
        super().__init__(real_operation, real_operation)

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        a, b = present(inputs, 0, self.op), present(inputs, 1, self.op)
        return [store(self._real(real(a, node.input(0), node), real(b, node.input(1), node)), node)]


class Sub(_Real):
    """a - b."""

    op = "Sub"

    def __init__(self) -> None:
        super().__init__(np.subtract)


class Max(_Real):
    """The larger of a and b."""

    op = "Max"

    def __init__(self) -> None:
        super().__init__(np.maximum)


class Min(_Real):
    """The smaller of a and b."""

    op = "Min"

    def __init__(self) -> None:
        super().__init__(np.minimum)


class PRelu:
    """x, or where x is below 0 x * slope. The slope is real, also in a quantised graph."""

    op = "PRelu"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        slope: TensorType = present(inputs, 1, self.op)
        try:
            fits = np.broadcast_shapes(x.shape, slope.shape) == x.shape
        except ValueError:
            fits = False
        if not fits:
            raise RidgelineError(f"PRelu cannot broadcast a slope {slope.shape} to {x.shape}")
        return (TensorType(x.shape, x.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        slope: Array = present(inputs, 1, self.op)
        wide = to_float(x)
        return [np.where(wide < 0, wide * to_float(slope), wide).astype(x.dtype)]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """quantize(PRelu(dequantize(x))), each product rounded to float32."""
        x: Array = present(inputs, 0, self.op)
        slope: Array = present(inputs, 1, self.op)
        made = self.float_meaning([real(x, node.input(0), node), slope], node.attrs)
        return [store(made[0], node)]

    def cost(self, node: Node) -> Cost:
        return cost_of(node, vector_operations=node.output.type.elements)

    def template(self, node: Node) -> Template:
        return "vector"


class Clip:
    """x within [min, max], either of which may be absent. Relu is Clip(min=0)."""

    op = "Clip"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        low, high = attrs.get("min"), attrs.get("max")
        if low is not None and high is not None and low > high:
            raise RidgelineError(f"Clip has min {low} above max {high}")
        return (TensorType(x.shape, x.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        limits = {"clip": (attrs.get("min"), attrs.get("max"))}
        return [clipped(to_float(x), limits).astype(x.dtype)]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """quantize(clip(dequantize(x))): a table of one entry for each stored value."""
        x: Array = present(inputs, 0, self.op)
        bounded: npt.NDArray[np.float32] = self.float_meaning(
            [real(x, node.input(0), node)], node.attrs
        )[0]
        return [store(bounded, node)]

    def cost(self, node: Node) -> Cost:
        return cost_of(node, vector_operations=node.output.type.elements)

    def template(self, node: Node) -> Template:
        return "vector"
