"""Functions of one value as exporters spell them, for the tests of tables."""

from __future__ import annotations

import onnx

CONSTANTS = (
    "<float zero = {0}, float third = {0.1666667}, float half = {0.5}, float one = {1},"
    " float two = {2}, float three = {3}, float six = {6}, float root = {1.4142135},"
    " float cubic = {0.044715}, float slope = {0.25}, float pi = {0.7978845}>"
)

# name: the nodes from x to y.
SPELLED: dict[str, str] = {
    "sigmoid": "y = Sigmoid(x)",
    "tanh": "y = Tanh(x)",
    "leaky": "y = LeakyRelu<alpha = 0.1>(x)",
    "one slope": "y = PRelu(x, slope)",
    "elu": "y = Elu<alpha = 0.7>(x)",
    "softplus": "y = Softplus(x)",
    "erf": "y = Erf(x)",
    "exponential": "y = Exp(x)",
    "absolute": "y = Abs(x)",
    "negative": "y = Neg(x)",
    "gelu": 'y = Gelu<approximate = "none">(x)',
    "hard-swish": "y = HardSwish(x)",
    "root": "a = Abs(x) y = Sqrt(a)",
    "silu": "s = Sigmoid(x) y = Mul(x, s)",
    "hard-swish by division": "a = Add(x, three) c = Clip(a, zero, six) d = Div(c, six)"
    " y = Mul(x, d)",
    "hard-swish by product": "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c)"
    " y = Mul(m, third)",
    "hard-sigmoid": "h = HardSigmoid<alpha = 0.16667, beta = 0.5>(x) y = Mul(x, h)",
    "gelu by erf": "d = Div(x, root) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
    "gelu by tanh": "p = Pow(x, three) c = Mul(p, cubic) a = Add(x, c) m = Mul(a, pi) t = Tanh(m)"
    " b = Add(t, one) n = Mul(x, b) y = Mul(n, half)",
    "mish": "s = Softplus(x) t = Tanh(s) y = Mul(x, t)",
    "fourth power": "s = Mul(x, x) y = Mul(s, s)",
    "where": "b = Less(x, zero) n = Mul(x, slope) y = Where(b, n, x)",
}


def function_model(name: str, shape: str = "2, 6, 5, 3") -> onnx.ModelProto:
    """The function applied to one float tensor."""
    text = f"agraph (float[{shape}] x) => (float[{shape}] y) {CONSTANTS} {{ {SPELLED[name]} }}"
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')


def function_after_convolution(name: str) -> onnx.ModelProto:
    """A convolution, the function, another convolution."""
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 20]>
        agraph (float[1, 6, 9, 8] image, float[12, 6, 3, 3] v, float[5, 12, 1, 1] w) =>
        (float[1, 5, 9, 8] z) {CONSTANTS} {{
            x = Conv<pads = [1, 1, 1, 1]>(image, v)
            {SPELLED[name]}
            z = Conv(y, w)
        }}"""
    )
