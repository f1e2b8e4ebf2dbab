"""Which constants of a node are parameters: what training sets, not masks, bounds and scales."""

from __future__ import annotations

from collections.abc import Iterator

from ridgeline.ir import Node, Value
from ridgeline.workload.operators import plain_op
from ridgeline.workload.sources import Sources

_PLACES: dict[str, tuple[int, ...]] = {
    "Attention": (),
    "BatchNormalization": (1, 2),  # mean and variance are measured
    "Conv": (1, 2),
    "ConvInteger": (1,),
    "ConvTranspose": (1, 2),
    "DeformConv": (1, 3),
    "Einsum": (0, 1, 2, 3),
    "GRU": (1, 2, 3),
    "Gather": (0,),
    "GatherND": (0,),
    "Gemm": (0, 1, 2),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LSTM": (1, 2, 3, 7),
    "LayerNormalization": (1, 2),
    "MatMul": (0, 1, 2),
    "MatMulInteger": (0, 1),
    "PRelu": (1,),
    "QLinearConv": (3, 8),
    "QLinearMatMul": (0, 3),
    "RMSNormalization": (1,),
    "RNN": (1, 2, 3),
    "SimplifiedLayerNormalization": (1,),
    "com.microsoft::Attention": (1, 2),
    "com.microsoft::BiasGelu": (1,),
    "com.microsoft::EmbedLayerNormalization": (2, 3, 4, 5, 6),
    "com.microsoft::FusedConv": (1, 2),
    "com.microsoft::MatMulNBits": (1, 5),
    "com.microsoft::MultiHeadAttention": (3,),
    "com.microsoft::SimplifiedLayerNormalization": (1,),
    "com.microsoft::SkipLayerNormalization": (2, 3, 4),
    "com.microsoft::SkipSimplifiedLayerNormalization": (2, 3),
}
# Of these any constant of more than one element may be a parameter: biases, scales, class tokens.
_ANYWHERE = frozenset(("Add", "Sub", "Mul", "Div", "Concat"))


def parameters_of(node: Node, sources: Sources, in_attention: bool) -> Iterator[Value]:
    """The values whose bytes are parameters, once for each place that they stand in."""
    op = plain_op(node)
    places = _PLACES.get(op)
    if places is None:
        # Between scores and softmax stand scales and masks.
        places = range(len(node.inputs)) if op in _ANYWHERE and not in_attention else ()
    for place in places:
        value = node.optional(place)
        if value is None or not sources.is_constant(value):
            continue
        for stored in sources.of(value).roots:
            if _is_parameter(stored, op):
                yield stored


def _is_parameter(stored: Value, op: str) -> bool:
    single = stored.type.elements == 1 if op in _ANYWHERE else not stored.type.shape
    if single:
        return False
    trained = stored.type.dtype.is_float or stored.type.quant is not None
    return trained or (op not in _ANYWHERE and stored.type.dtype.bits <= 8)
