"""A PyTorch module as an ONNX model, through torch.export: needs the extra `torch`."""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Sequence
from typing import Any

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
    return held.getvalue()
