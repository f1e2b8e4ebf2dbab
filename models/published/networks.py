"""Networks whose packages hold weights only, written as ONNX from the published architectures.

Each function takes the checkpoint's tensors. What the original computes is kept, operator by
operator, so that the known answers of docs/models.md hold.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from published.builder import Array, Builder

_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64

# The stages of EfficientNet-Lite0 (github.com/tensorflow/tpu, efficientnet/lite) whose first block
# halves the image; kernels and channels are read off the weights.
_HALVING_BLOCKS = (1, 3, 5, 11)
_EFFICIENTNET_EPSILON = 1e-3


def efficientnet_lite0(weights: Mapping[str, Array]) -> onnx.ModelProto:
    """x [N, 3, 224, 224], normalised by ImageNet's mean and deviation, to logits [N, 1000]."""
    builder = Builder(weights)
    blocks = 1 + max(int(n.split(".")[1]) for n in weights if n.startswith("_blocks."))
    x = _normalised(builder, "x", "_conv_stem", "_bn0", stride=2, clip=True)
    for index in range(blocks):
        block, start = f"_blocks.{index}.", x
        if f"{block}_expand_conv.weight" in weights:
            x = _normalised(builder, x, f"{block}_expand_conv", f"{block}_bn0", clip=True)
        stride = 2 if index in _HALVING_BLOCKS else 1
        depthwise = f"{block}_depthwise_conv"
        x = _normalised(builder, x, depthwise, f"{block}_bn1", stride=stride, clip=True)
        x = _normalised(builder, x, f"{block}_project_conv", f"{block}_bn2", clip=False)
        same = weights[f"{block}_project_conv.weight"].shape[0] == _channels_in(weights, block)
        if stride == 1 and same:
            x = builder.node("Add", f"{block}add", x, start)
    x = _normalised(builder, x, "_conv_head", "_bn1", clip=True)
    x = builder.node("GlobalAveragePool", "pool", x)
    x = builder.node("Flatten", "flatten", x)
    x = _dense(builder, x, "_fc")
    size = ["N", 3, 224, 224]
    return builder.model("efficientnet_lite0", {"x": (_FLOAT, size)}, {"logits": (x, ["N", 1000])})


def _channels_in(weights: Mapping[str, Array], block: str) -> int:
    expand = weights.get(f"{block}_expand_conv.weight")
    first = weights[f"{block}_depthwise_conv.weight"] if expand is None else expand
    return int(first.shape[0] if expand is None else first.shape[1])


def _normalised(
    builder: Builder, x: str, conv: str, norm: str, *, clip: bool, stride: int = 1
) -> str:
    """Convolution as TensorFlow pads it, normalisation, and perhaps ReLU6."""
    weights = builder.weights[f"{conv}.weight"]
    depthwise = weights.shape[1] == 1
    x = builder.node(
        "Conv", conv, x, builder.weight(f"{conv}.weight"),
        kernel_shape=weights.shape[2:], strides=[stride] * 2, auto_pad="SAME_UPPER",
        group=weights.shape[0] if depthwise else 1,
    )  # fmt: skip
    fields = ("weight", "bias", "running_mean", "running_var")
    parameters = [builder.weight(f"{norm}.{field}") for field in fields]
    x = builder.node("BatchNormalization", norm, x, *parameters, epsilon=_EFFICIENTNET_EPSILON)
    if not clip:
        return x
    bounds = [builder.constant("zero", np.float32(0)), builder.constant("six", np.float32(6))]
    return builder.node("Clip", f"{norm}_relu6", x, *bounds)


def _dense(builder: Builder, x: str, name: str) -> str:
    weights, bias = builder.weight(f"{name}.weight"), builder.weight(f"{name}.bias")
    return builder.node("Gemm", name, x, weights, bias, transB=1)


def mtcnn_rnet(weights: Mapping[str, Array]) -> onnx.ModelProto:
    """x [N, 3, 24, 24], scaled to -1 ... 1, to boxes [N, 4] and the face's probability [N, 2].

    MTCNN's second network (Zhang et al. 2016, arXiv:1604.02878), as facenet-pytorch has it.
    """
    builder = Builder(weights)
    x = "x"
    for index, window in ((1, 3), (2, 3), (3, None)):
        x = _with_prelu(builder, x, f"conv{index}", f"prelu{index}")
        if window is not None:
            x = builder.node(
                "MaxPool", f"pool{index}", x, kernel_shape=[window] * 2, strides=[2, 2], ceil_mode=1
            )
    x = builder.node("Transpose", "transpose", x, perm=[0, 3, 2, 1])
    x = builder.node("Flatten", "flatten", x)
    x = _dense(builder, x, "dense4")
    x = builder.node("PRelu", "prelu4", x, builder.weight("prelu4.weight"))
    boxes = _dense(builder, x, "dense5_2")
    face = builder.node("Softmax", "softmax", _dense(builder, x, "dense5_1"), axis=1)
    return builder.model(
        "mtcnn_rnet",
        {"x": (_FLOAT, ["N", 3, 24, 24])},
        {"boxes": (boxes, ["N", 4]), "face": (face, ["N", 2])},
        opset=13,
    )


def _with_prelu(builder: Builder, x: str, conv: str, prelu: str) -> str:
    kernel = builder.weights[f"{conv}.weight"].shape[2:]
    parameters = builder.weight(f"{conv}.weight"), builder.weight(f"{conv}.bias")
    x = builder.node("Conv", conv, x, *parameters, kernel_shape=kernel)
    slope = builder.constant(
        f"{prelu}.weight", builder.weights[f"{prelu}.weight"].reshape(-1, 1, 1)
    )
    return builder.node("PRelu", prelu, x, slope)


_HEADS = 12
_BERT_EPSILON = 1e-12
_MASKED = -1e9


def minilm(weights: Mapping[str, Array]) -> onnx.ModelProto:
    """input_ids, attention_mask, token_type_ids [B, T] to last_hidden_state [B, T, 384].

    A BERT encoder (Devlin et al. 2019, arXiv:1810.04805) of 6 layers, operators spelled out as
    exporters do at opset 17, but GELU's erf form, which has no operator before opset 20.
    """
    builder = Builder(weights)
    width = weights["embeddings.word_embeddings.weight"].shape[1]
    builder.constant("split", np.array([0, 0, _HEADS, width // _HEADS]))
    builder.constant("join", np.array([0, 0, width]))
    builder.constant("root", np.float32(np.sqrt(width // _HEADS)))
    x = _layer_norm(builder, _embedded(builder), "embeddings.LayerNorm")
    mask = _attention_mask(builder)
    layers = 1 + max(int(n.split(".")[2]) for n in weights if n.startswith("encoder.layer."))
    for index in range(layers):
        layer = f"encoder.layer.{index}"
        attended = _attention(builder, x, mask, f"{layer}.attention")
        x = builder.node("Add", f"{layer}.attention.residual", attended, x)
        x = _layer_norm(builder, x, f"{layer}.attention.output.LayerNorm")
        wide = _linear(builder, x, f"{layer}.intermediate.dense")
        narrow = _linear(builder, _gelu(builder, wide, layer), f"{layer}.output.dense")
        x = builder.node("Add", f"{layer}.residual", narrow, x)
        x = _layer_norm(builder, x, f"{layer}.output.LayerNorm")
    names = ("input_ids", "attention_mask", "token_type_ids")
    return builder.model(
        "minilm_l6",
        {name: (_INT64, ["B", "T"]) for name in names},
        {"last_hidden_state": (x, ["B", "T", width])},
    )


def _embedded(builder: Builder) -> str:
    """The sum of the tables' rows for words, their kinds and their places."""
    table = "embeddings.{}_embeddings.weight"
    words = builder.node("Gather", "words", builder.weight(table.format("word")), "input_ids")
    kinds = builder.weight(table.format("token_type"))
    kinds = builder.node("Gather", "kinds", kinds, "token_type_ids")
    shape = builder.node("Shape", "shape", "input_ids")
    length = builder.node("Gather", "length", shape, builder.constant("one", np.array([1])))
    start, axis = builder.constant("start", np.array([0])), builder.constant("axis", np.array([0]))
    places = builder.weight(table.format("position"))
    places = builder.node("Slice", "places", places, start, length, axis)
    return builder.node("Add", "embedded", builder.node("Add", "known", words, kinds), places)


def _attention_mask(builder: Builder) -> str:
    """[B, 1, 1, T]: 0 for a word, a large negative number for padding."""
    axes = builder.constant("mask_axes", np.array([1, 2]))
    mask = builder.node("Unsqueeze", "mask_axes_added", "attention_mask", axes)
    mask = builder.node("Cast", "mask_float", mask, to=_FLOAT)
    mask = builder.node("Sub", "mask_absent", builder.constant("present", np.float32(1)), mask)
    return builder.node("Mul", "mask", mask, builder.constant("masked", np.float32(_MASKED)))


def _attention(builder: Builder, x: str, mask: str, name: str) -> str:
    heads: dict[str, str] = {}
    for role, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
        part = _linear(builder, x, f"{name}.self.{role}")
        part = builder.node("Reshape", f"{name}.{role}.split", part, "split")
        heads[role] = builder.node("Transpose", f"{name}.{role}.heads", part, perm=perm)
    scores = builder.node("MatMul", f"{name}.scores", heads["query"], heads["key"])
    scores = builder.node("Div", f"{name}.scaled", scores, "root")
    scores = builder.node("Add", f"{name}.masked", scores, mask)
    shares = builder.node("Softmax", f"{name}.softmax", scores, axis=-1)
    mixed = builder.node("MatMul", f"{name}.mixed", shares, heads["value"])
    mixed = builder.node("Transpose", f"{name}.rows", mixed, perm=[0, 2, 1, 3])
    mixed = builder.node("Reshape", f"{name}.joined", mixed, "join")
    return _linear(builder, mixed, f"{name}.output.dense")


def _linear(builder: Builder, x: str, name: str) -> str:
    weights = builder.weight(f"{name}.weight", transposed=True)
    product = builder.node("MatMul", name, x, weights)
    return builder.node("Add", f"{name}.add", product, builder.weight(f"{name}.bias"))


def _layer_norm(builder: Builder, x: str, name: str) -> str:
    scale, shift = builder.weight(f"{name}.weight"), builder.weight(f"{name}.bias")
    return builder.node("LayerNormalization", name, x, scale, shift, epsilon=_BERT_EPSILON)


def _gelu(builder: Builder, x: str, name: str) -> str:
    """x · (1 + erf(x / √2)) / 2."""
    root = builder.constant("root_of_two", np.float32(np.sqrt(2)))
    erf = builder.node("Erf", f"{name}.erf", builder.node("Div", f"{name}.gelu_div", x, root))
    shifted = builder.node("Add", f"{name}.gelu_add", erf, builder.constant("unit", np.float32(1)))
    product = builder.node("Mul", f"{name}.gelu_mul", x, shifted)
    return builder.node("Mul", f"{name}.gelu", product, builder.constant("half", np.float32(0.5)))
