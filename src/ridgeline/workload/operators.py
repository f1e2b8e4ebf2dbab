"""The table from operators to the rule that counts them."""

from __future__ import annotations

from ridgeline.ir import Node
from ridgeline.workload import attention, costs
from ridgeline.workload.costs import Rule, Work


def _names(text: str) -> list[str]:
    return text.split()


_ELEMENTWISE = _names("""
Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
Cast CastLike Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual
HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Lookup Max Mean Min Mish Mod Mul
Neg Not Or PRelu Pow QuantizeLinear DequantizeLinear Reciprocal Relu Round Selu Shrink Sigmoid Sign
Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor
BatchNormalization RotaryEmbedding
com.microsoft::BiasGelu com.microsoft::FastGelu com.microsoft::Gelu com.microsoft::QuickGelu
com.microsoft::RotaryEmbedding com.microsoft::QLinearAdd com.microsoft::QLinearMul
com.microsoft::QLinearSigmoid com.microsoft::QLinearLeakyRelu
""")
_REDUCTIONS = _names("""
ArgMax ArgMin CumSum DynamicQuantizeLinear GlobalAveragePool GlobalLpPool GlobalMaxPool ReduceL1
ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
ReduceSumSquare com.microsoft::QLinearGlobalAveragePool
""")
_POOLS = _names("AveragePool LpPool MaxPool com.microsoft::QLinearAveragePool")
_NORMALIZATIONS = _names("""
GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization
MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization
SkipLayerNormalization com.microsoft::EmbedLayerNormalization
com.microsoft::SkipLayerNormalization com.microsoft::SimplifiedLayerNormalization
com.microsoft::SkipSimplifiedLayerNormalization com.microsoft::GroupNorm
""")
_MOVES = _names("""
CenterCropPad Col2Im Compress Concat ConstantOfShape DepthToSpace Expand EyeLike Flatten Gather
GatherElements GatherND Identity MaxUnpool Move OneHot Pad Range Reshape ReverseSequence Scatter
ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze TensorScatter Tile Transpose
Trilu Unsqueeze Upsample com.microsoft::QLinearConcat
""")
_UNCOUNTED = _names("""
Bernoulli BlackmanWindow GridSample HammingWindow HannWindow Multinomial NonMaxSuppression NonZero
RandomNormal RandomNormalLike RandomUniform RandomUniformLike RoiAlign MaxRoiPool StringNormalizer
TfIdfVectorizer TopK Unique
""")

TABLE: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, costs.elementwise),
    **dict.fromkeys(_REDUCTIONS, costs.reduction),
    **dict.fromkeys(_POOLS, costs.pooling),
    **dict.fromkeys(_NORMALIZATIONS, costs.normalization),
    **dict.fromkeys(_MOVES, costs.movement),
    **dict.fromkeys(_UNCOUNTED, costs.uncounted),
    "Attention": attention.attention,
    "Conv": costs.convolution(1),
    "ConvInteger": costs.convolution(1),
    "ConvTranspose": costs.transposed_convolution,
    "DeformConv": costs.convolution(1),
    "Einsum": costs.einsum,
    "GRU": costs.recurrent(3),
    "Gemm": costs.general_product,
    "LSTM": costs.recurrent(4),
    "LogSoftmax": costs.softmax,
    "MatMul": costs.matrix_product(1),
    "MatMulInteger": costs.matrix_product(1),
    "QLinearConv": costs.convolution(3),
    "QLinearMatMul": costs.matrix_product(3),
    "RNN": costs.recurrent(1),
    "Resize": costs.resizing,
    "Softmax": costs.softmax,
    "com.microsoft::Attention": attention.packed_attention,
    "com.microsoft::FusedConv": costs.convolution(1),
    "com.microsoft::FusedMatMul": costs.unknown,
    "com.microsoft::GroupQueryAttention": attention.multi_head,
    "com.microsoft::MatMulNBits": attention.packed_weights,
    "com.microsoft::MultiHeadAttention": attention.multi_head,
    "com.microsoft::QGemm": costs.unknown,
}
"""By the name that a graph gives the operator, "domain::name" outside of ONNX."""
REDUCTIONS = frozenset((*_REDUCTIONS, *_NORMALIZATIONS, "Softmax", "LogSoftmax"))
ELEMENTWISE = frozenset(_ELEMENTWISE)


def plain_op(node: Node) -> str:
    """The operator without the mark of a form that only the host has."""
    return node.op.removeprefix("ai.onnx::")


def count(node: Node) -> Work:
    """What the node does; of an operator without a rule everything is unknown."""
    return TABLE.get(plain_op(node), costs.unknown)(node)
