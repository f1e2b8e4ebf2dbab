"""ONNX's node tests, each taken through Ridgeline: what it makes right, refuses, or gets wrong.

A refusal is a RidgelineError that names the operator and the node; anything else that is not the
expected result is wrong.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from ridgeline.compiler.pipeline import compile
from ridgeline.compiler.place import place
from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import OnnxRuntimeExecutor, run_model
from ridgeline.ir import Graph
from ridgeline.machine.description import Machine
from ridgeline.machine.execute import execute
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import DeviceSegment
from ridgeline.ops.evaluate import evaluate_node
from ridgeline.passes.pipeline import is_quantised, prepare
from ridgeline.quant.quantize import quantize

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
Kind = Literal["right", "runtime", "refused", "wrong"]


@dataclass(frozen=True, slots=True, eq=False)
class NodeTest:
    """A model of one operator, inputs by name, and what it must make, in order of outputs."""

    name: str
    model: Any
    inputs: dict[str, Any]
    expected: tuple[Any, ...]
    rtol: float
    atol: float

    @property
    def operator(self) -> str:
        return self.model.graph.node[0].op_type


@dataclass(frozen=True, slots=True)
class Outcome:
    """`runtime`: ONNX Runtime, given the file itself, makes the same bits and ONNX expects others.

    `reason` is the refusal, or what is wrong.
    """

    kind: Kind
    reason: str = ""


@cache
def node_tests() -> tuple[NodeTest, ...]:
    """Every node test of the installed onnx, made in memory, in order of name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    return tuple(_node_test(case) for case in sorted(cases, key=lambda c: c.name))


def _node_test(case: Any) -> NodeTest:
    inputs, outputs = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    given = {n: _plain(v) for n, v in zip(names, inputs, strict=True)}
    return NodeTest(case.name, case.model, given, tuple(map(_plain, outputs)), case.rtol, case.atol)


def _plain(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value if value is None or isinstance(value, list) else np.asarray(value)


def outcome_of(test: NodeTest, take: Callable[[NodeTest], list[Array]]) -> Outcome:
    """What became of one way of computing the test: `take` makes its outputs or refuses."""
    try:
        made = take(test)
    except RidgelineError as error:
        return Outcome("refused", str(error))
    except Exception as error:
        return Outcome("wrong", f"{type(error).__name__}: {error}")
    if _is_random(test):
        pairs = zip(made, test.expected, strict=True)
        made = [right if a.shape == right.shape else a for a, right in pairs]
    wrong = difference(test, made, test.expected)
    if wrong is None:
        return Outcome("right")
    return Outcome("runtime" if _as_onnx_runtime(test, made) else "wrong", wrong)


def _is_random(test: NodeTest) -> bool:
    """Whether ONNX leaves the numbers open, so that only their count can be right."""
    return any(n.op_type in ("Bernoulli", "RandomUniformLike") for n in test.model.graph.node)


def difference(test: NodeTest, made: list[Array], expected: Iterable[Any]) -> str | None:
    """Where the outputs are not the expected ones within the test's tolerance."""
    wanted = list(expected)
    if len(made) != len(wanted):
        return f"{len(made)} outputs, not {len(wanted)}"
    for index, (found, right) in enumerate(zip(made, wanted, strict=True)):
        try:
            _assert_close(found, right, test)
        except AssertionError as error:
            text = " ".join(str(error).split())
            return f"output {index}: {text[:200]}"
    return None


def _assert_close(found: Array, right: Any, test: NodeTest) -> None:
    assert found.dtype == right.dtype, f"{found.dtype}, not {right.dtype}"
    assert found.shape == right.shape, f"{found.shape}, not {right.shape}"
    if found.dtype.kind == "O" or right.dtype.kind in "US":
        np.testing.assert_array_equal(found, right)
    elif found.dtype.kind in "Vf":
        wide = (found.astype(np.float64), right.astype(np.float64))
        np.testing.assert_allclose(*wide, rtol=test.rtol, atol=test.atol)
    else:
        np.testing.assert_allclose(found, right, rtol=test.rtol, atol=test.atol)


def _as_onnx_runtime(test: NodeTest, made: list[Array]) -> bool:
    try:
        results = run_model(test.model.SerializeToString(), test.inputs)
    except RidgelineError:
        return False
    return difference(test, made, results.values()) is None


def read_and_run(test: NodeTest) -> list[Array]:
    """Read, fold, fuse, write back, run in ONNX Runtime."""
    graph = prepare(read_onnx(test.model.SerializeToString()))
    return GraphRunner(graph).run(test.inputs)


def compile_and_execute(test: NodeTest) -> list[Array]:
    """Read, fold, fuse, compile for tiny-16, execute; what the device lacks runs on the host."""
    graph = prepare(read_onnx(test.model.SerializeToString()))
    made = execute(compile(graph, _machine()), test.inputs, _host())
    return [made[value.name] for value in graph.outputs]


@dataclass(frozen=True, slots=True)
class Acceleration:
    """A test quantised with its own inputs as samples and compiled.

    `layers` run on the device; `wrong` says where the bits differ from the integer meaning.
    `constants`: every input but the first was made a constant, as a model has its parameters.
    `decibels`: signal to quantisation noise against what ONNX expects, of the worst float output.
    """

    layers: int = 0
    constants: bool = False
    wrong: str = ""
    decibels: float = float("inf")


def accelerate(test: NodeTest) -> Acceleration:
    """The test quantised as it is, else with its parameters as constants."""
    found = Acceleration()
    if not test.model.graph.input:
        return found
    for form in (test, with_constants(test)):
        try:
            found = _accelerated(form, form is not test)
        except RidgelineError:
            continue
        except Exception as error:
            return Acceleration(wrong=f"{type(error).__name__}: {error}")
        if found.layers:
            break
    return found


def with_constants(test: NodeTest) -> NodeTest:
    """The test with every input but the first made an initialiser."""
    model = type(test.model)()
    model.CopyFrom(test.model)
    first, *rest = [value.name for value in model.graph.input]
    del model.graph.input[1:]
    for name in rest:
        if isinstance(test.inputs[name], np.ndarray):
            model.graph.initializer.append(numpy_helper.from_array(test.inputs[name], name))
    inputs = {first: test.inputs[first]}
    return replace(test, model=model, inputs=inputs)


def _accelerated(test: NodeTest, constants: bool) -> Acceleration:
    graph = read_onnx(test.model.SerializeToString())
    quantised = graph if is_quantised(graph) else quantize(graph, test.inputs)
    quantised = prepare(quantised)
    program = compile(quantised, _machine())
    layers = {
        i.layer for s in program.segments if isinstance(s, DeviceSegment) for i in s.instructions
    }
    if not layers:
        return Acceleration()
    made = execute(program, test.inputs, _host())
    meant = _integer_meaning(quantised, test.inputs)
    wrong = [v.name for v in quantised.outputs if not _same(made[v.name], meant[id(v)])]
    difference = ", ".join(f"'{n}' differs" for n in wrong)
    results = [made[v.name] for v in quantised.outputs]
    decibels = min(map(_decibels, results, test.expected), default=float("inf"))
    return Acceleration(len(layers), constants, difference, decibels)


def _decibels(made: Array, expected: Any) -> float:
    """10 log10(signal / noise); infinite for equal numbers and for what is not float."""
    if not isinstance(expected, np.ndarray) or expected.dtype.kind != "f":
        return float("inf")
    wanted = expected.astype(np.float64)
    noise = float(np.square(made.astype(np.float64) - wanted).sum())
    signal = float(np.square(wanted).sum())
    if noise == 0.0:
        return float("inf")
    if signal / noise == 0.0:
        return float("-inf")
    return float(10 * np.log10(signal / noise))


def _integer_meaning(graph: Graph, inputs: Arrays) -> dict[int, Array]:
    """Every value that crosses a border: device nodes by `ops`, host segments by ONNX Runtime."""
    values = {id(v): np.asarray(inputs[v.name]) for v in graph.inputs}
    values |= {id(v): v.data for v in graph.constants() if v.data is not None}
    parts = place(graph, _machine()).segments
    for on_device, nodes in parts:
        if on_device:
            for node in nodes:
                arrays = [None if v is None else values[id(v)] for v in node.inputs]
                values |= zip(map(id, node.outputs), evaluate_node(node, arrays), strict=True)
            continue
        inside = {id(v) for n in nodes for v in n.outputs}
        reads = {id(v): v for n in nodes for v in n.inputs if v and not v.is_constant}
        entering = tuple(v for key, v in reads.items() if key not in inside)
        wanted = {id(v) for n in graph.nodes if n not in nodes for v in n.inputs}
        wanted |= {id(v) for v in graph.outputs}
        leaving = tuple(v for n in nodes for v in n.outputs if id(v) in wanted)
        part = Graph("host", entering, leaving, nodes, graph.opset).check()
        feed = {v.name: values[id(v)] for v in entering}
        values |= zip(map(id, leaving), GraphRunner(part).run(feed), strict=True)
    return values


def _same(made: Array, meant: Array) -> bool:
    return np.array_equal(made, meant, equal_nan=made.dtype.kind == "f")


@cache
def _machine() -> Machine:
    return load_machine("tiny-16")


@cache
def _host() -> OnnxRuntimeExecutor:
    return OnnxRuntimeExecutor()


CLOSE_DECIBELS = 20.0
"""Noise of a tenth of the signal: more and 8 bits have lost what the test is about."""


@dataclass(frozen=True, slots=True)
class Conformance:
    """Counts over some node tests; `wrong` has a line for each test that must not be there."""

    tests: int
    read: Counter[str]
    executed: Counter[str]
    refused_to_read: Counter[str]
    refused_to_execute: Counter[str]
    accelerated: Counter[str]
    far: tuple[str, ...]
    """Accelerated tests whose numbers are less than CLOSE_DECIBELS from the expected ones."""
    operators: tuple[str, ...]
    wrong: tuple[str, ...]


def conformance(tests: Iterable[NodeTest]) -> Conformance:
    """What becomes of each test: read and run, compiled and executed, accelerated."""
    chosen = list(tests)
    read = [outcome_of(test, read_and_run) for test in chosen]
    executed = [outcome_of(test, compile_and_execute) for test in chosen]
    fast = [accelerate(test) for test in chosen]
    wrong = [
        f"{test.name}: {problem}"
        for test, a, b, c in zip(chosen, read, executed, fast, strict=True)
        for problem in (_wrong(a), _wrong(b), c.wrong)
        if problem
    ]
    right = [t for t, o in zip(chosen, executed, strict=True) if o.kind in ("right", "runtime")]
    return Conformance(
        len(chosen),
        Counter(o.kind for o in read),
        Counter(o.kind for o in executed),
        Counter(reason_class(o.reason) for o in read if o.kind == "refused"),
        Counter(reason_class(o.reason) for o in executed if o.kind == "refused"),
        Counter("parameters constant" if a.constants else "as it is" for a in fast if a.layers),
        tuple(
            test.name
            for test, a in zip(chosen, fast, strict=True)
            if a.layers and a.decibels < CLOSE_DECIBELS
        ),
        tuple(sorted({n.op_type for t in right for n in t.model.graph.node})),
        tuple(wrong),
    )


def _wrong(outcome: Outcome) -> str:
    return outcome.reason if outcome.kind == "wrong" else ""


# Refusals by what they say, in the order in which they are tried.
_CLASSES: tuple[tuple[str, str], ...] = (
    ("sequences, maps or optionals", r"is not a tensor|, not a tensor"),
    ("text", r"holds text"),
    ("a number format that Ridgeline lacks", r"the element type|values of type"),
    ("a size that depends on data", r"depends on data"),
    ("ONNX Runtime lacks the operator", r"which is the host, has no|NOT_IMPLEMENTED|not a reg"),
    ("ONNX Runtime refuses the model", r"ONNX Runtime (cannot|stopped)"),
    ("inputs that do not fit", r"do not fit|cannot become|was compiled for"),
    ("NaN or infinity", r"NaN|infinit"),
    ("nothing to compute", r"nothing computes it"),
)


def reason_class(reason: str) -> str:
    """The class of a refusal."""
    return next((name for name, text in _CLASSES if re.search(text, reason)), "another reason")
