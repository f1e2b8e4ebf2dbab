"""Ridgeline: from an ONNX model to a simulated INT8 accelerator and its RTL.

    import ridgeline

    machine = ridgeline.load_machine("tiny-16")
    graph = ridgeline.read_onnx("model.onnx", batch=4)
    quantised = ridgeline.quantize(graph, {"image": samples})
    program = ridgeline.compile(quantised, machine)
    outputs = ridgeline.execute(program, {"image": images})
    report = ridgeline.report(program, ridgeline.simulate(program))

The functions are those of `ridgeline.api`, imported when first used, so that `import ridgeline` is
quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeline.api import (
        Demand,
        advise,
        advise_machine,
        analyze,
        choose,
        compile,
        execute,
        load_machine,
        predict_gemm,
        quantize,
        read_onnx,
        report,
        simulate,
    )

__version__ = "0.1.0"

__all__ = [
    "Demand",
    "__version__",
    "advise",
    "advise_machine",
    "analyze",
    "choose",
    "compile",
    "execute",
    "load_machine",
    "predict_gemm",
    "quantize",
    "read_onnx",
    "report",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ridgeline' has no attribute '{name}'")
    from ridgeline import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
