"""Write tests/golden/numerics/: what ONNX Runtime computes for every case of numeric_cases.

Run on x86 with AVX2 and FMA: `PYTHONPATH=tests .venv/bin/python tests/golden/make_numerics.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from numeric_cases import golden_cases
from single_node import run_onnx_runtime, stored_inputs

DIRECTORY = Path(__file__).parent / "numerics"


def main() -> None:
    arrays: dict[str, np.ndarray] = {}
    for name, node in golden_cases():
        stored = stored_inputs(node, seed=1)
        for value, data in zip(node.inputs, stored, strict=True):
            if value is not None and value.data is None:
                arrays[f"{name}/{value.name}"] = data
        arrays[f"{name}/output"], _ = run_onnx_runtime(node, stored)
    DIRECTORY.mkdir(exist_ok=True)
    np.savez_compressed(DIRECTORY / "onnxruntime-1.32.npz", **arrays)


if __name__ == "__main__":
    main()
