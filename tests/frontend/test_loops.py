"""Loops without an end: their run ends with a message that names the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from ridgeline import api
from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.runtime import run_model

X = {"x": np.ones(2, np.float32)}
MESSAGE = (
    "a Loop of the model was still running after 0.3 s of processor time, the limit. If it is"
    " meant to take longer, set RIDGELINE_LOOP_SECONDS, 0 for no limit."
)
LARGEST = (1 << 63) - 1


def _model(trips: int, inner_trips: int = 0) -> bytes:
    body = "a2 = Sin(a)"
    if inner_trips:
        body = """a2 = Loop(m, k, a) <body = c (int64 j, bool l, float[2] d)
            => (bool l2, float[2] d2) { l2 = Identity(l) d2 = Sin(d) }>"""
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y)
        <int64 n = {{{trips}}}, int64 m = {{{inner_trips}}}, bool yes = {{1}}> {{
            y = Loop(n, yes, x) <body = b (int64 i, bool k, float[2] a)
                => (bool k2, float[2] a2) {{ k2 = Identity(k) {body} }}>
        }}"""
    ).SerializeToString()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIDGELINE_LOOP_SECONDS", "0.3")


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("model", [_model(LARGEST), _model(LARGEST, LARGEST), _model(2, LARGEST)])
def test_an_endless_loop_ends_with_the_limit(model: bytes) -> None:
    program = api.compile(api.read_onnx(model), api.load_machine("tiny-8"))
    runs: list[Callable[[], Any]] = [
        lambda: run_model(model, X),
        lambda: GraphRunner(api.read_onnx(model)).run(X),
        lambda: api.execute(program, X),
    ]
    for run in runs:
        with pytest.raises(RidgelineError) as found:
            run()
        assert str(found.value).endswith(MESSAGE)


@pytest.mark.parametrize("limit", ["0.3", "0", ""])
def test_a_loop_that_ends_is_computed(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIDGELINE_LOOP_SECONDS", limit)
    expected = X["x"]
    for _ in range(6):
        expected = np.sin(expected)
    made = run_model(_model(3, 2), X)["y"]
    np.testing.assert_allclose(made, expected, rtol=1e-6)


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_limit_that_is_no_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIDGELINE_LOOP_SECONDS", text)
    with pytest.raises(RidgelineError) as found:
        run_model(_model(2), X)
    wanted = f"RIDGELINE_LOOP_SECONDS: '{text}' is not a number of seconds. For example: 60"
    assert str(found.value) == wanted
