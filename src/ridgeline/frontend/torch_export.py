"""A PyTorch module as an ONNX model, through torch.export: needs the extra `torch`."""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Sequence
from typing import Any

import onnx
from onnx import numpy_helper

from ridgeline.errors import RidgelineError

OPSET = 20
"""Attention is spelled out there; from 23 on it would be one operator, which is counted as well."""


def onnx_of(module: Any, arguments: Sequence[Any]) -> bytes:
    """The ONNX model of a torch.nn.Module in evaluation, for arguments of these shapes.

    Raises RidgelineError without PyTorch, and for a module that torch.export cannot follow.
    """
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        raise RidgelineError(
            "PyTorch is not installed", where="module", fix="pip install 'ridgeline[torch]'"
        ) from error
    held = io.BytesIO()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module.eval(),
                tuple(arguments),
                dynamo=True,
                opset_version=OPSET,
                verbose=False,
                optimize=False,  # it would merge weights that are equal
            )
            program.save(held)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise RidgelineError(
            f"torch.export cannot follow {type(module).__name__}: {reason[:200]}",
            where="module",
            fix="Take out what depends on data, or export it to ONNX yourself",
        ) from error
    return _without_sequences(held.getvalue())


def _without_sequences(data: bytes) -> bytes:
    """The exporter's SplitToSequence and the SequenceAt that read it as one Split."""
    model: Any = onnx.load_model_from_string(data)
    graph = model.graph
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer if t.data_type == 7}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    for split in [n for n in graph.node if n.op_type == "SplitToSequence"]:
        readers = [n for n in graph.node if split.output[0] in n.input]
        sizes = constants.get(split.input[1]) if len(split.input) > 1 else None
        if sizes is None or any(n.op_type != "SequenceAt" for n in readers):
            continue
        places = [int(constants[reader.input[1]]) for reader in readers]
        # One size for all means equal parts, as many as are read.
        count = sizes.size if sizes.ndim else max(places) + 1
        names = [f"{split.output[0]}/part{i}" for i in range(count)]
        for place, reader in zip(places, readers, strict=True):
            reader.CopyFrom(onnx.helper.make_node("Identity", [names[place]], reader.output))
        split.op_type = "Split"
        kept = [a for a in split.attribute if a.name == "axis"]
        del split.attribute[:]
        split.attribute.extend(kept)
        if not sizes.ndim:
            del split.input[1:]
            split.attribute.append(onnx.helper.make_attribute("num_outputs", count))
        split.output[:] = names
    made: bytes = model.SerializeToString()
    return made
