"""A Program performed on byte memories in program order, bit for bit.

A legal program gives these bits whatever the timing: `check` proves that every conflicting pair is
ordered as in the program. A plan (`execution`) performs many instructions at once with the same
result; `watch` is shown them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.machine.execution import plan
from ridgeline.machine.execution.scratch import Scratch
from ridgeline.machine.instructions import Instruction, State
from ridgeline.machine.program import DeviceSegment, HostSegment, HostTensor, Program

Arrays = dict[str, npt.NDArray[Any]]
Watcher = Callable[[Instruction, State], None]


class HostExecutor(Protocol):
    """Runs an ONNX model on the host; its implementation lives in `frontend`."""

    def run(self, model: bytes, inputs: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        """Outputs by name for inputs by name."""
        ...


def execute(
    program: Program,
    inputs: Mapping[str, npt.NDArray[Any]],
    host: HostExecutor | None = None,
    watch: Watcher | None = None,
) -> Arrays:
    """Outputs by name. With `watch`, instructions are performed one at a time, and it is called
    after each.

    Raises RidgelineError for an input that is missing, unknown, or of the wrong shape or type.
    """
    if watch is not None:
        return _outputs(program, memories_singly(program, inputs, host, watch))
    return Execution(program, host).run(inputs)


class Execution:
    """A program made ready once, to be run on many inputs."""

    def __init__(self, program: Program, host: HostExecutor | None = None) -> None:
        """Raises RidgelineError for constants that an instruction refuses."""
        self.program = program
        self.host = host
        self._plan = plan(program)
        self._scratch = Scratch()

    def run(self, inputs: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        """Outputs by name, with the errors of `execute`. Every run starts with blank memories."""
        return _outputs(self.program, self.memories(inputs))

    def memories(self, inputs: Mapping[str, npt.NDArray[Any]]) -> State:
        """All memories after a run. Slots, and sums that nothing reads any more, may differ from
        those of `memories_singly`; host memory, device memory and unified buffer do not.
        """
        if self._plan is None:
            return memories_singly(self.program, inputs, self.host)
        state = started(self.program, inputs)
        for number, segment in enumerate(self.program.segments):
            if isinstance(segment, DeviceSegment):
                for step in self._plan.steps[number]:
                    step.run(state, self._scratch)
            else:
                run_on_host(segment, state, self.host)
        return state


def memories_singly(
    program: Program,
    inputs: Mapping[str, npt.NDArray[Any]],
    host: HostExecutor | None = None,
    watch: Watcher | None = None,
) -> State:
    """All memories after each instruction's own `apply`, one after the other: what programs mean.

    `watch` is called after each instruction.
    """
    state = started(program, inputs)
    for segment in program.segments:
        if isinstance(segment, DeviceSegment):
            for instruction in segment.instructions:
                instruction.apply(state)
                if watch is not None:
                    watch(instruction, state)
        else:
            run_on_host(segment, state, host)
    return state


def started(program: Program, inputs: Mapping[str, npt.NDArray[Any]]) -> State:
    """The memories before the first segment: constants and inputs in their places, zeros elsewhere.

    Raises RidgelineError for inputs that do not fit.
    """
    arrays = checked_inputs(program, inputs)
    state = State.blank(program.machine, program.host_bytes, program.device_bytes)
    state.device[: program.constants.size] = program.constants
    for tensor in program.inputs:
        tensor.write(state.host, arrays[tensor.name])
    for tensor in program.device_inputs:
        tensor.write(state.device, arrays[tensor.name])
    return state


def _outputs(program: Program, state: State) -> Arrays:
    outputs = {t.name: t.read(state.host) for t in program.outputs}
    outputs.update({t.name: t.read(state.device) for t in program.device_outputs})
    return outputs


def run_on_host(segment: HostSegment, state: State, host: HostExecutor | None) -> None:
    """Perform a host segment: its tensors from host memory, and what it makes back there."""
    if host is None:
        raise RidgelineError(
            f"host segment '{segment.name}' needs a host executor",
            fix="Pass host=ridgeline.frontend.runtime.OnnxRuntimeExecutor()",
        )
    given = {t.name: t.read(state.host) for t in segment.inputs}
    made = host.run(segment.model, given)
    for tensor in segment.outputs:
        array = made[tensor.name]
        if tuple(array.shape) != tensor.shape:
            raise RidgelineError(
                f"made shape {tuple(array.shape)}, the program expects {tensor.shape}",
                where=f"host segment '{segment.name}', output '{tensor.name}'",
            )
        tensor.write(state.host, array)


def checked_inputs(program: Program, inputs: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """The program's inputs as arrays of exactly its shapes and types."""
    wanted = {t.name: t for t in program.inputs + program.device_inputs}
    for name in inputs:
        if name not in wanted:
            raise RidgelineError(f"the model has no input '{name}'", fix=did_you_mean(name, wanted))
    return {name: _checked(tensor, inputs.get(name)) for name, tensor in wanted.items()}


def _checked(tensor: HostTensor, array: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    if array is None:
        raise RidgelineError(
            f"input '{tensor.name}' is missing", fix="Give it an array of that name"
        )
    found = np.asarray(array)
    if tuple(found.shape) != tensor.shape:
        raise RidgelineError(
            f"has shape {tuple(found.shape)}, the program was compiled for {tensor.shape}",
            where=f"input '{tensor.name}'",
            fix="Compile again with that --shape or --batch, or give the arrays it expects",
        )
    if found.dtype != tensor.dtype.numpy:
        if found.dtype.kind not in "fiu" or tensor.dtype.kind != "float":
            raise RidgelineError(
                f"has type {found.dtype}, the program expects {tensor.dtype}",
                where=f"input '{tensor.name}'",
            )
        found = found.astype(tensor.dtype.numpy)
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise RidgelineError("holds NaN or infinity", where=f"input '{tensor.name}'")
    return found
