"""What each operator counts: the rules, one for each kind, and the table of who has which.

A multiply-accumulate is one step of a sum of products: of convolutions, matrix products, attention
and recurrent cells, padding included. Everything else is vector operations: one for each element
written, or read by a reduction. An operator without a rule has what is certain, and None else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ridgeline.ir import Node
from ridgeline.workload.layer import Kind, Product

Independent = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What one node does. None is unknown."""

    kind: Kind
    macs: int | None = 0
    vector_operations: int | None = 0
    products: tuple[Product, ...] = ()
    independent: Independent = ()


Rule = Callable[[Node], Work]


def shape(node: Node, index: int) -> tuple[int, ...]:
    return node.input(index).type.shape


def written(node: Node) -> int:
    return sum(output.type.elements for output in node.outputs)


def product_work(node: Node, products: tuple[Product, ...], independent: Independent) -> Work:
    """Each result passes the vector unit once: bias, activation, requantisation."""
    macs = sum(p.macs for p in products)
    return Work("product", macs, node.output.type.elements, products, independent)


def convolution(weights: int) -> Rule:
    """A convolution whose weights [O, C/group, kernel...] are input `weights`."""

    def rule(node: Node) -> Work:
        group = int(node.attrs.get("group", 1))
        out, kernel = node.output.type.shape, shape(node, weights)
        positions = prod(out[2:])
        product = Product(group, out[0] * positions, out[1] // max(1, group), prod(kernel[1:]))
        axes = (("batch", out[0]), ("positions", positions), ("channels", out[1]))
        return product_work(node, (product,), axes)

    return rule


def transposed_convolution(node: Node) -> Work:
    """Every input element meets every weight of its channel: [C, O/group, kernel...]."""
    group = int(node.attrs.get("group", 1))
    x, w = shape(node, 0), shape(node, 1)
    positions = prod(x[2:])
    product = Product(group, x[0] * positions, prod(w[1:]), x[1] // max(1, group))
    axes = (("batch", x[0]), ("positions", positions), ("channels", node.output.type.shape[1]))
    return product_work(node, (product,), axes)


def matrix_product(b: int) -> Rule:
    """a [..., m, k] × input `b` [..., k, n]; vectors are rows or columns."""

    def rule(node: Node) -> Work:
        left, right = shape(node, 0), shape(node, b)
        k = left[-1] if left else 1
        n = right[-1] if len(right) > 1 else 1
        rows = node.output.type.elements // n if n else 0
        groups = prod(right[:-2])
        if groups > 1 and rows % groups == 0:
            return product_work(
                node, (Product(groups, rows // groups, n, k),), _rows(node.output.type.shape)
            )
        if groups == 1:
            return product_work(node, (Product(1, rows, n, k),), _rows(node.output.type.shape))
        # b is broadcast along some of a's leading dimensions.
        m = left[-2] if len(left) > 1 else 1
        product = Product(rows // m if m else 0, m, n, k)
        return product_work(node, (product,), _rows(node.output.type.shape))

    return rule


def _rows(out: tuple[int, ...]) -> Independent:
    channels = (("channels", out[-1] if out else 1),)
    if len(out) < 3:
        return (("rows", prod(out[:-1])), *channels)
    if len(out) == 3:
        return (("batch", out[0]), ("tokens", out[1]), *channels)
    return (("batch", out[0]), ("heads", prod(out[1:-2])), ("tokens", out[-2]), *channels)


def general_product(node: Node) -> Work:
    """Gemm as ONNX has it, with transposes."""
    a, b = shape(node, 0), shape(node, 1)
    m, k = a[::-1] if node.attrs.get("transA") else a
    n = b[0] if node.attrs.get("transB") else b[1]
    return product_work(node, (Product(1, m, n, k),), (("rows", m), ("channels", n)))


def einsum(node: Node) -> Work:
    """A sum of products over labels; of more than two operands pairs from left to right."""
    equation = str(node.attrs["equation"]).replace(" ", "")
    left, arrow, out = equation.partition("->")
    terms = [_labels(t, shape(node, i)) for i, t in enumerate(left.split(","))]
    sizes = {label: size for term in terms for label, size in term}
    names = [tuple(label for label, _ in term) for term in terms]
    wanted = _out_labels(out, names) if arrow else _implied(names)
    if len(terms) == 1:
        return Work("vector", 0, node.input(0).type.elements)
    products: list[Product] = []
    vector = 0
    done = set(names[0])
    for i, term in enumerate(names[1:], start=1):
        later = set(wanted).union(*names[i + 1 :])
        added = _pair(done, set(term), later, sizes)
        done = (done | set(term)) & later
        if added.k > 1 or (set(term) | done) - later:
            products.append(added)
        else:
            vector += added.macs
    if not products:
        return Work("vector", 0, vector)
    work = product_work(node, tuple(products), _rows(node.output.type.shape))
    return Work("product", work.macs, (work.vector_operations or 0) + vector, work.products)


def _labels(term: str, dims: tuple[int, ...]) -> list[tuple[str, int]]:
    """Each dimension with its label; those of an ellipsis are called "..." with their place."""
    before, dots, after = term.partition("...")
    spread = len(dims) - len(before) - len(after) if dots else 0
    names = [*before, *(f"...{i - spread}" for i in range(spread)), *after]
    return [(name, dim) for name, dim in zip(names, dims, strict=True)]


def _out_labels(out: str, names: list[tuple[str, ...]]) -> tuple[str, ...]:
    dots = sorted({n for term in names for n in term if n.startswith("...")}, reverse=True)
    return (*dots, *out.replace("...", ""))


def _implied(names: list[tuple[str, ...]]) -> tuple[str, ...]:
    every = [n for term in names for n in term]
    return tuple(n for n in dict.fromkeys(every) if n.startswith("...") or every.count(n) == 1)


def _pair(a: set[str], b: set[str], later: set[str], sizes: dict[str, int]) -> Product:
    shared = a & b
    summed = (a | b) - later
    both = prod(sizes[n] for n in shared - summed)
    m = prod(sizes[n] for n in a - b)
    n = prod(sizes[n] for n in b - a)
    return Product(both, m, n, prod(sizes[n] for n in shared & summed))


def recurrent(gates: int) -> Rule:
    """LSTM, GRU and RNN: x [T, batch, I], W [directions, gates × H, I], R [.., H], in T steps."""

    def rule(node: Node) -> Work:
        x, w = shape(node, 0), shape(node, 1)
        if int(node.attrs.get("layout", 0)):
            x = (x[1], x[0], x[2])
        steps, batch, features = x
        directions, hidden = w[0], shape(node, 2)[2]
        gated = gates * hidden
        products = (
            Product(directions, steps * batch, gated, features),
            Product(directions, batch, gated, hidden, steps),
        )
        axes = (("batch", batch), ("channels", directions * gated))
        macs = sum(p.macs for p in products)
        vector = 2 * gated * directions * batch * steps
        return Work("recurrent", macs, vector, products, axes)

    return rule


def softmax(node: Node) -> Work:
    """Maximum, exponential, sum and division of every element."""
    return Work("vector", 0, 4 * node.output.type.elements)


def normalization(node: Node) -> Work:
    """Sum, sum of squares, scale and shift of every element."""
    return Work("vector", 0, 4 * node.input(0).type.elements)


def elementwise(node: Node) -> Work:
    return Work("vector", 0, written(node))


def reduction(node: Node) -> Work:
    return Work("vector", 0, sum(v.type.elements for v in node.inputs[:1] if v is not None))


def pooling(node: Node) -> Work:
    kernel = prod(int(d) for d in node.attrs.get("kernel_shape", ()))
    return Work("vector", 0, node.output.type.elements * kernel)


def movement(node: Node) -> Work:
    return Work("move")


def resizing(node: Node) -> Work:
    """Nearest moves elements; linear and cubic weigh 2 or 4 of them along each axis resized."""
    taps = {"linear": 2, "cubic": 4}.get(str(node.attrs.get("mode", "nearest")))
    if taps is None:
        return Work("move")
    changed = sum(a != b for a, b in zip(shape(node, 0), node.output.type.shape, strict=True))
    return Work("vector", 0, node.output.type.elements * taps**changed)


def uncounted(node: Node) -> Work:
    """Sorting, searching, random numbers: no products, and nobody says how many operations."""
    return Work("other", 0, None)


def unknown(node: Node) -> Work:
    return Work("other", None, None)
