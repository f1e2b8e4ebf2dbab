"""ONNX Runtime, set so that its integer results are the same on every matching CPU."""

from __future__ import annotations

import hashlib
import platform
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
import onnxruntime

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.frontend.loops import LoopSession, has_loop
from ridgeline.frontend.onnx_file import refuse_external
from ridgeline.frontend.session_values import run_session

Array = npt.NDArray[Any]

_CACHED_SESSIONS = 16
_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def create_session(model: bytes | str, optimised_path: str | None = None) -> Any:
    """A session on one thread, optimisations on, messages off, integer kernels exact.

    `model` is a serialised model or a path; `optimised_path` also saves the graph that ONNX
    Runtime really runs. Raises ONNX Runtime's own errors.
    """
    if isinstance(model, bytes):
        graph: Any = onnx.load_model_from_string(model).graph
    else:
        graph = onnx.load(model, load_external_data=False).graph
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry(_exactness_key(graph), "1")
    # A DequantizeLinear of weights before a float MatMul becomes MatMulNBits, whose default level
    # rounds the activations to int8; level 1 is float32.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    if optimised_path is not None:
        options.optimized_model_filepath = optimised_path
    kind = LoopSession if has_loop(graph) else onnxruntime.InferenceSession
    return kind(
        model,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["WeightBiasQuantization"] if _keeps_float_weights(graph) else [],
    )


def _exactness_key(graph: Any) -> str:
    """The session option with which AVX2 computes a quantised model exactly, as VNNI does.

    Without VNNI, u8 x s8 kernels saturate pairs of products at int16 unless
    `session.x64quantprecision` widens them. int8 activations would first be turned into uint8
    where they can, which leaves other operators in float; `session.qdqisint8allowed` keeps them,
    and s8 x s8 kernels are exact. The two options exclude each other
    (onnxruntime_session_options_config_keys.h and optimizer/qdq_transformer, ONNX Runtime 1.32).
    """
    signed = _has_int8_activations(graph)
    return "session.qdqisint8allowed" if signed else "session.x64quantprecision"


def _has_int8_activations(graph: Any) -> bool:
    """Whether a QuantizeLinear makes int8, or a graph input is int8."""
    kinds = {tensor.name: int(tensor.data_type) for tensor in graph.initializer}
    int8 = int(onnx.TensorProto.INT8)
    for value in graph.input:
        if value.name not in kinds and value.type.tensor_type.elem_type == int8:
            return True
    quantisers = [n for n in graph.node if n.op_type == "QuantizeLinear" and len(n.input) > 2]
    return any(kinds.get(n.input[2]) == int8 for n in quantisers)


def _keeps_float_weights(graph: Any) -> bool:
    """Whether a product of dequantised activations has float weights, which someone wanted.

    ONNX Runtime's WeightBiasQuantization would turn them into int8.
    """
    floats = {t.name for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    dequantised = {n.output[0] for n in graph.node if n.op_type == "DequantizeLinear"}
    products = [n for n in graph.node if n.op_type in _PRODUCTS and len(n.input) > 1]
    return any(n.input[1] in floats and n.input[0] in dequantised for n in products)


class OnnxRuntimeExecutor:
    """Runs serialised models; sessions are kept by the hash of their content."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[bytes, Any] = OrderedDict()

    def run(self, model: bytes | str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Every output by name. `inputs` are arrays by input name, of the declared shape and type;
        `model` is a serialised model, or the path of one.

        Raises RidgelineError when the model cannot be loaded or an input does not fit.
        """
        session = self._session(model)
        feed = {i.name: _fitting(inputs, i) for i in session.get_inputs()}
        names = [o.name for o in session.get_outputs()]
        try:
            results = run_session(session, feed, names)
        except RidgelineError:
            raise
        except Exception as error:
            raise RidgelineError(
                f"ONNX Runtime stopped: {_text(error)}", fix="Check the inputs' shapes and types."
            ) from error
        return dict(zip(names, results, strict=True))

    def _session(self, model: bytes | str) -> Any:
        key = hashlib.sha256(model).digest() if isinstance(model, bytes) else model.encode()
        session = self._sessions.get(key)
        if session is None:
            try:
                if isinstance(model, bytes):
                    # It may be from anyone's program: whether a file is opened is not left to
                    # ONNX Runtime.
                    refuse_external(onnx.load_model_from_string(model), "a program's host part", "")
                session = create_session(model)
            except RidgelineError:
                raise
            except Exception as error:
                raise RidgelineError(
                    f"ONNX Runtime cannot load the model: {_text(error)}",
                    fix="Check the model with onnx.checker.",
                ) from error
            self._sessions[key] = session
            while len(self._sessions) > _CACHED_SESSIONS:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(key)
        return session


def _fitting(inputs: Mapping[str, Array], declared: Any) -> Array:
    if declared.name not in inputs:
        raise RidgelineError(
            f"input '{declared.name}' is missing",
            fix=f"Give an array of shape {declared.shape}. {did_you_mean(declared.name, inputs)}"
            if inputs
            else f"Give an array of shape {declared.shape}.",
        )
    return inputs[declared.name]


def _text(error: Exception) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


def run_model(source: Path | str | bytes, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every output, by name, of a model given as a path (external data beside it) or as bytes.

    Raises RidgelineError when it cannot be read or loaded, or an input does not fit.
    """
    return OnnxRuntimeExecutor().run(source if isinstance(source, bytes) else str(source), inputs)


def cpu_matches() -> bool:
    """Whether ONNX Runtime's integer results here are those that Ridgeline promises to reproduce.

    They are on x86 with AVX2 and FMA: QLinearAdd uses fused multiply-adds there, and
    `session.x64quantprecision` removes the only difference between AVX2 and VNNI.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    flags = _cpu_flags()
    return flags is None or {"avx2", "fma"} <= flags


def _cpu_flags() -> set[str] | None:
    """The CPU's features as Linux names them, or None where they cannot be known."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()
