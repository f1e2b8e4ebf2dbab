"""A Program performed on byte memories, instruction by instruction in program order, bit for bit.

A legal program gives these bits whatever the timing: `check` proves that every conflicting pair is
ordered as in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError, did_you_mean
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
    """Outputs by name. `watch` is called after each device instruction.

    Raises RidgelineError for an input that is missing, unknown, or of the wrong shape or type.
    """
    state = State.blank(program.machine, program.host_bytes, program.device_bytes)
    state.device[: program.constants.size] = program.constants
    arrays = checked_inputs(program, inputs)
    for tensor in program.inputs:
        tensor.write(state.host, arrays[tensor.name])
    for tensor in program.device_inputs:
        tensor.write(state.device, arrays[tensor.name])
    for segment in program.segments:
        if isinstance(segment, DeviceSegment):
            for instruction in segment.instructions:
                instruction.apply(state)
                if watch is not None:
                    watch(instruction, state)
        else:
            run_on_host(segment, state, host)
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
