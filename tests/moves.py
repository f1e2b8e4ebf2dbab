"""Rearrangements as ONNX models, for the tests of moves."""

from __future__ import annotations

import onnx

# name: (input shape, constants, nodes from x to y)
MOVES: dict[str, tuple[str, str, str]] = {
    "slice": ("2, 6, 9, 8", "int64[2] s = {1, 0}, int64[2] e = {8, 7}, int64[2] a = {2, 3},"
              " int64[2] t = {2, 3}", "y = Slice(x, s, e, a, t)"),
    "slice of channels": ("2, 23, 3, 4", "int64[1] s = {5}, int64[1] e = {19}, int64[1] a = {1}",
                          "y = Slice(x, s, e, a)"),
    "reversed": ("2, 6, 9, 8", "int64[1] s = {-1}, int64[1] e = {-99}, int64[1] a = {3},"
                 " int64[1] t = {-1}", "y = Slice(x, s, e, a, t)"),
    "pad": ("2, 6, 5, 4", "int64[8] p = {0, 1, 2, 0, 0, 3, 0, 1}, float v = {0.75}",
            "y = Pad(x, p, v)"),
    "reflect": ("1, 6, 5, 4", "int64[8] p = {0, 0, 2, 1, 0, 0, 1, 3}",
                'y = Pad<mode = "reflect">(x, p)'),
    "edge": ("1, 6, 5, 4", "int64[8] p = {0, 0, 2, 1, 0, 0, 1, 3}", 'y = Pad<mode = "edge">(x, p)'),
    "tile": ("2, 3, 4, 5", "int64[4] r = {1, 2, 1, 3}", "y = Tile(x, r)"),
    "expand": ("2, 1, 1, 5", "int64[4] r = {2, 6, 4, 5}", "y = Expand(x, r)"),
    "depth to space": ("2, 12, 3, 4", "float u = {0}", "y = DepthToSpace<blocksize = 2>(x)"),
    "depth to space by columns": ("1, 12, 3, 4", "float u = {0}",
                                  'y = DepthToSpace<blocksize = 2, mode = "CRD">(x)'),
    "space to depth": ("2, 3, 6, 8", "float u = {0}", "y = SpaceToDepth<blocksize = 2>(x)"),
    "nearest": ("1, 6, 4, 5", "float[4] r = {1, 1, 2, 2}", "y = Resize(x, , r)"),
    "nearest by three halves": ("1, 6, 4, 6", "float[4] r = {1, 1, 1.5, 1.5}",
                                "y = Resize(x, , r)"),
    "smaller": ("1, 6, 8, 6", "float[4] r = {1, 1, 0.5, 0.5}", "y = Resize(x, , r)"),
    "gather": ("2, 9, 3, 4", "int64[4] i = {7, 0, 0, 3}", "y = Gather<axis = 1>(x, i)"),
    "gather rows": ("2, 9, 3, 4", "int64[3] i = {2, 0, 1}", "y = Gather<axis = 2>(x, i)"),
    "lower triangle": ("2, 5, 6", "int64 k = {0}", "y = Trilu<upper = 0>(x, k)"),
    "rows": ("7, 5", "int64[2] s = {1, 1}, int64[2] e = {6, 4}, int64[2] a = {0, 1}",
             "y = Slice(x, s, e, a)"),
    "line": ("11", "int64[1] s = {2}, int64[1] e = {11}, int64[1] a = {0}, int64[1] t = {2}",
             "y = Slice(x, s, e, a, t)"),
}  # fmt: skip


def move_model(name: str) -> onnx.ModelProto:
    """The operator applied to one float tensor x."""
    shape, constants, nodes = MOVES[name]
    text = f"g (float[{shape}] x) => (float[] y) <{constants}> {{ {nodes} }}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 19]> {text}')
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model
