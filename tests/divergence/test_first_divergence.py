"""Faults put into programs: the layer, the instruction and the value must be named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper

from ridgeline import api
from ridgeline.compiler.pipeline import Compiled, compile_located
from ridgeline.divergence.explain import first_divergence
from ridgeline.divergence.find import Divergence, executed_values
from ridgeline.divergence.references import (
    Reference,
    by_meaning,
    by_onnx_runtime,
    from_arrays,
)
from ridgeline.divergence.walk import Step, steps
from ridgeline.errors import RidgelineError
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.machine.instructions import Instruction, Load, LoadWeights, Store, Unit
from ridgeline.machine.program import DeviceSegment, HostSegment, Program

HOST = OnnxRuntimeExecutor()
SMALL = ("unified_buffer.bytes=4096",)
"""So small a buffer that layers work through their tensors in tiles."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The shipped model on tiny-8, two images, and what each value should be."""

    compiled: Compiled
    inputs: Mapping[str, npt.NDArray[Any]]
    reference: Reference

    def divergence(self, program: Program) -> Divergence | None:
        return first_divergence(self.compiled, program, self.inputs, self.reference, HOST)


@cache
def _case(*settings: str) -> Case:
    folder = files("ridgeline") / "models"
    with np.load(str(folder / "digits_calibration.npz")) as arrays:
        images = arrays["image"]
    graph = api.read_onnx((folder / "digits_cnn.onnx").read_bytes(), batch=2)
    graph = api.quantize(graph, {"image": images})
    compiled = compile_located(graph, api.load_machine("tiny-8", settings))
    inputs = {"image": images[:2]}
    return Case(compiled, inputs, by_meaning(compiled.graph, inputs))


def _instructions(program: Program, kind: str) -> list[Step]:
    return [s for s in steps(program) if type(s.work).__name__ == kind]


def _with(program: Program, step: Step, **operands: Any) -> Program:
    """The program with other operands in one instruction."""
    segments = list(program.segments)
    segment = segments[step.segment]
    assert isinstance(segment, DeviceSegment)
    code = list(segment.instructions)
    code[step.index] = replace(code[step.index], **operands)
    segments[step.segment] = DeviceSegment(tuple(code))
    return replace(program, segments=tuple(segments))


@pytest.mark.parametrize("settings", [(), SMALL])
def test_a_program_as_compiled_never_differs(settings: tuple[str, ...]) -> None:
    case = _case(*settings)
    assert case.divergence(case.compiled.program) is None
    runtime = by_onnx_runtime(case.compiled.graph, case.inputs)
    program = case.compiled.program
    assert first_divergence(case.compiled, program, case.inputs, runtime, HOST) is None
    values = executed_values(case.compiled, case.inputs, HOST)
    again = from_arrays(case.compiled.graph, values, "dump")
    assert len(again) >= 12
    assert first_divergence(case.compiled, program, case.inputs, again, HOST) is None


@pytest.mark.parametrize("settings", [(), SMALL])
@pytest.mark.parametrize("share", range(8))
def test_a_corrupted_weight_tile_is_named(share: int, settings: tuple[str, ...]) -> None:
    case = _case(*settings)
    program = case.compiled.program
    loads = _instructions(program, "LoadWeights")
    step = loads[share * (len(loads) - 1) // 7]
    tile = step.work
    assert isinstance(tile, LoadWeights)
    first = next(
        s for s in loads if isinstance(s.work, LoadWeights) and s.work.address == tile.address
    )
    constants = program.constants.copy()
    for row in tile.rows():
        constants[row : row + tile.n] ^= 0x40
    found = case.divergence(replace(program, constants=constants))
    assert found is not None
    assert found.layer == tile.layer
    assert first.number in [s.number for s in found.chain]
    assert found.changes[0].step.number == first.number
    assert f"{tile.k * tile.n} of the constants that it reads are others" in found.changes[0].text
    _check_value(case, replace(program, constants=constants), found)


def _layer(program: Program, name: str) -> int:
    return next(i for i, layer in enumerate(program.layers) if layer.name == name)


def _check_value(case: Case, program: Program, found: Divergence) -> None:
    """What is said to be expected is the reference's; what is got, this program's."""
    assert found.expected == case.reference[id(found.value)][found.index]
    assert found.got != found.expected
    values = executed_values(replace(case.compiled, program=program), case.inputs, HOST)
    assert found.got == values[found.value.name][found.index]


OPERANDS = [
    ("MatMul", "zero_point", 3),
    ("MatMul", "entry", -1),
    ("MatMul", "line", 1),
    ("Requant", "out_zero_point", 2),
    ("Requant", "out_line", 1),
    ("Requant", "entry", 1),
    ("WindowReduce", "line", 1),
    ("Elementwise", "a_line", 1),
    ("LoadWeights", "address", 8),
    ("LoadParams", "count", -1),
    ("Load", "line", 1),
]


@pytest.mark.parametrize(("kind", "operand", "more"), OPERANDS)
@pytest.mark.parametrize("settings", [(), SMALL])
def test_a_wrong_operand_is_named(
    kind: str, operand: str, more: int, settings: tuple[str, ...]
) -> None:
    case = _case(*settings)
    program = case.compiled.program
    every = _instructions(program, kind)
    step = every[len(every) // 2]
    assert isinstance(step.work, Instruction)
    wrong = _with(program, step, **{operand: getattr(step.work, operand) + more})
    found = case.divergence(wrong)
    assert found is not None
    assert found.layer == step.layer
    [change] = found.changes
    assert change.step.number == step.number
    value = getattr(step.work, operand)
    assert change.text == f"{operand} is {value + more}, not {value}"
    assert isinstance(found.step.work, Instruction)
    assert found.step.work.unit is Unit.VECTOR


def test_a_store_that_takes_other_lines_is_named() -> None:
    case = _case()
    program = case.compiled.program
    step = _instructions(program, "Store")[-1]
    assert isinstance(step.work, Store)
    found = case.divergence(_with(program, step, line=step.work.line + 2))
    assert found is not None
    assert found.value.name == "head/dense_quantized"
    assert found.step.label.startswith("link.")
    assert step.number in [s.number for s in found.chain]
    assert [c.step.number for c in found.changes] == [step.number]


def test_a_fault_of_the_compiler_itself_has_no_change_but_its_place() -> None:
    """Both programs are wrong alike: the reference finds it, and the operand that came wrong."""
    case = _case(*SMALL)
    program = case.compiled.program
    step = next(
        s for s in _instructions(program, "Load") if s.layer == _layer(program, "block1/add")
    )
    assert isinstance(step.work, Load)
    wrong = _with(program, step, device_address=step.work.device_address + 8)
    compiled = replace(case.compiled, program=wrong)
    found = first_divergence(compiled, wrong, case.inputs, case.reference, HOST)
    assert found is not None
    assert found.layer == step.layer
    assert found.changes == ()
    assert step.number in [s.number for s in found.chain]
    assert any("is wrong on chip already" in text for text in found.inputs)


def test_a_host_segment_with_other_operators_is_named() -> None:
    case = _case()
    program = case.compiled.program
    number, segment = next(
        (i, s) for i, s in enumerate(program.segments) if isinstance(s, HostSegment)
    )
    model = onnx.load_model_from_string(segment.model)
    scale = next(t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT)
    doubled = numpy_helper.to_array(scale) * np.float32(2)
    scale.CopyFrom(numpy_helper.from_array(np.asarray(doubled), scale.name))
    other = replace(segment, model=model.SerializeToString())
    segments = (*program.segments[:number], other, *program.segments[number + 1 :])
    found = case.divergence(replace(program, segments=segments))
    assert found is not None
    assert isinstance(found.step.work, HostSegment)
    assert [c.text for c in found.changes] == ["its operators are others"]


def test_arrays_of_other_names_or_shapes_are_refused() -> None:
    graph = _case().compiled.graph
    with pytest.raises(RidgelineError, match=r"^f: none of its arrays has the name of a value"):
        from_arrays(graph, {"nothing": np.zeros(3)}, "f")
    with pytest.raises(RidgelineError, match=r"^f: array 'head/dense_quantized' is float64\[3\]"):
        from_arrays(graph, {"head/dense_quantized": np.zeros(3)}, "f")
