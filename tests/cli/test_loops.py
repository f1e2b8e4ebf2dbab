"""A model whose Loop has no end, on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

ENDLESS = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 2] x) => (float[1, 2] y)
    <int64 n = {9223372036854775807}, bool yes = {1}> {
        y = Loop(n, yes, x) <body = b (int64 i, bool k, float[1, 2] a)
            => (bool k2, float[1, 2] a2) { k2 = Identity(k) a2 = Sin(a) }>
    }"""


def test_the_command_ends_with_the_limit(
    ridgeline: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIDGELINE_LOOP_SECONDS", "0.3")
    path, data, program = (tmp_path / name for name in ("loop.onnx", "x.npz", "loop.rlp"))
    path.write_bytes(onnx.parser.parse_model(ENDLESS).SerializeToString())
    np.savez(data, x=np.ones((1, 2), np.float32))
    assert ridgeline("compile", path, "-m", "tiny-8", "-o", program).code == 0
    made = ridgeline("execute", program, "--input", data)
    assert made.code == 2
    assert made.err.endswith(
        "a Loop of the model was still running after 0.3 s of processor time, the limit. If it is"
        " meant to take longer, set RIDGELINE_LOOP_SECONDS, 0 for no limit.\n"
    )
