from __future__ import annotations

import onnx

from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.passes.dead import remove_dead


def test_only_what_outputs_need_stays() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] unread) => (float[2] y) {'
        " a = Neg(x) b = Abs(a) c = Exp(b) y = Relu(a) }"
    )
    graph = remove_dead(read_onnx(model.SerializeToString()))
    assert [n.op for n in graph.nodes] == ["Neg", "Clip"]
    assert [v.name for v in graph.inputs] == ["x", "unread"]
