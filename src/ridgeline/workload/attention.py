"""Attention as one operator: ONNX's Attention, and those of ONNX Runtime."""

from __future__ import annotations

from math import prod

from ridgeline.ir import Node
from ridgeline.workload.costs import Work, shape
from ridgeline.workload.layer import Product

VECTOR_OPERATIONS_A_SCORE = 5
"""Scale, maximum, exponential, sum and division."""


def attention_work(
    batch: int, heads: int, queries: int, keys: int, depth: int, value_depth: int
) -> Work:
    """Scores and their product with the values, every key for every query, masked or not."""
    groups = batch * heads
    products = (
        Product(groups, queries, keys, depth),
        Product(groups, queries, value_depth, keys),
    )
    axes = (("batch", batch), ("heads", heads), ("tokens", queries))
    vector = VECTOR_OPERATIONS_A_SCORE * groups * queries * keys
    return Work("attention", sum(p.macs for p in products), vector, products, axes)


def attention(node: Node) -> Work:
    """ONNX Attention (opset 23): q, k, v [B, heads, S, d], or [B, S, heads × d]."""
    q, k, v = shape(node, 0), shape(node, 1), shape(node, 2)
    past = node.optional(4)
    before = past.type.shape[2] if past is not None else 0
    if len(q) == 4:
        return attention_work(q[0], q[1], q[2], k[2] + before, q[3], v[3])
    heads, kv_heads = int(node.attrs["q_num_heads"]), int(node.attrs["kv_num_heads"])
    sizes = (q[2] // heads, v[2] // kv_heads)
    return attention_work(q[0], heads, q[1], k[1] + before, *sizes)


def multi_head(node: Node) -> Work:
    """com.microsoft::MultiHeadAttention and GroupQueryAttention; unknown in packed layouts."""
    q, key, value = shape(node, 0), node.optional(1), node.optional(2)
    heads = int(node.attrs.get("num_heads", 0))
    if len(q) != 3 or not heads or key is None or value is None:
        return Work("other", None, None)
    kv_heads = int(node.attrs.get("kv_num_heads", heads))
    grouped = "kv_num_heads" in node.attrs
    depth = q[2] // heads
    k, v = key.type.shape, value.type.shape
    keys = k[-2] if len(k) == 4 else k[1]
    if len(node.outputs) > 1:  # the present keys, with those of the past
        keys = node.outputs[1].type.shape[2]
    value_depth = v[-1] if len(v) == 4 else v[2] // (kv_heads if grouped else heads)
    return attention_work(q[0], heads, q[1], keys, depth, value_depth)


def packed_attention(node: Node) -> Work:
    """com.microsoft::Attention: x [B, S, I] × weights [I, q + k + v], then attention."""
    x, w = shape(node, 0), shape(node, 1)
    heads = int(node.attrs["num_heads"])
    sizes = [int(s) for s in node.attrs.get("qkv_hidden_sizes", ())] or [w[1] // 3] * 3
    past = node.optional(4)
    before = past.type.shape[3] if past is not None else 0
    inner = attention_work(x[0], heads, x[1], x[1] + before, sizes[0] // heads, sizes[2] // heads)
    projection = Product(1, prod(x[:-1]), w[1], x[-1])
    macs = (inner.macs or 0) + projection.macs
    vector = (inner.vector_operations or 0) + prod(x[:-1]) * w[1]
    return Work("attention", macs, vector, (projection, *inner.products), inner.independent)


def packed_weights(node: Node) -> Work:
    """com.microsoft::MatMulNBits: a [..., K] × packed weights [N, ...] of `bits` bits."""
    k, n = int(node.attrs["K"]), int(node.attrs["N"])
    rows = prod(shape(node, 0)[:-1])
    product = Product(1, rows, n, k)
    return Work("product", product.macs, rows * n, (product,), (("rows", rows), ("channels", n)))
