"""The primitive operators: what each means in float and in integers, its cost, its lowering."""

from ridgeline.ops.convolution import Conv
from ridgeline.ops.elementwise import Add, Clip, Max, Min, Mul, PRelu, Sub
from ridgeline.ops.lookup import Lookup
from ridgeline.ops.matmul import MatMul
from ridgeline.ops.move import Move
from ridgeline.ops.movement import Concat, Reshape, Transpose
from ridgeline.ops.normalize import Softmax
from ridgeline.ops.pooling import AveragePool, GlobalAveragePool, MaxPool
from ridgeline.ops.primitive import Cost, Primitive, Template
from ridgeline.ops.quantization import DequantizeLinear, QuantizeLinear

PRIMITIVES: dict[str, Primitive] = {
    primitive.op: primitive
    for primitive in (
        Conv(),
        MatMul(),
        Add(),
        Mul(),
        Sub(),
        Max(),
        Min(),
        PRelu(),
        Clip(),
        Lookup(),
        MaxPool(),
        AveragePool(),
        GlobalAveragePool(),
        Reshape(),
        Transpose(),
        Concat(),
        Move(),
        Softmax(),
        QuantizeLinear(),
        DequantizeLinear(),
    )
}

__all__ = ["PRIMITIVES", "Cost", "Primitive", "Template"]
