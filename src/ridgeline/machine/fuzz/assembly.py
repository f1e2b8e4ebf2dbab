"""Random instructions made into a program: waits, constants, and tensors that show every byte."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Instruction, Unit
from ridgeline.machine.instructions.weights import PARAMETER_BYTES
from ridgeline.machine.order import synchronise
from ridgeline.machine.program import DeviceSegment, HostTensor, Program
from ridgeline.numerics.formats import FORMATS

PARAMETER_RECORDS = 96
"""Records of bias and scale at device address 0, which no instruction overwrites."""

DATA_START = PARAMETER_RECORDS * PARAMETER_BYTES
HOST_BYTES = 2048


def assemble(
    instructions: list[Instruction],
    machine: Machine,
    device_bytes: int,
    rng: np.random.Generator,
) -> Program:
    """A program of these instructions, synchronised, with parameter records as its constants."""
    uses_host = any(one.unit is Unit.LINK for one in instructions)
    host_bytes = HOST_BYTES if uses_host else 0
    ordered = synchronise(instructions, machine, host_bytes, device_bytes)
    whole = HostTensor("memory", (device_bytes,), FORMATS["uint8"], 0)
    host = HostTensor("host", (HOST_BYTES,), FORMATS["uint8"], 0)
    data_bytes = device_bytes - DATA_START
    data = HostTensor("data", (data_bytes,), FORMATS["uint8"], DATA_START)
    return Program(
        name="random",
        machine=machine,
        segments=(DeviceSegment(ordered),),
        layers=(),
        constants=_parameter_records(rng),
        device_bytes=device_bytes,
        host_bytes=host_bytes,
        inputs=(host,) if uses_host else (),
        outputs=(host,) if uses_host else (),
        device_inputs=(data,),
        device_outputs=(whole,),
    )


def _parameter_records(rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Biases and scales: mostly such that results spread over the range, some extreme."""
    count = PARAMETER_RECORDS
    bias = (rng.standard_normal(count) * 2.0 ** rng.integers(0, 24, count)).astype("<i4")
    scale = (rng.random(count) + 0.5) * 2.0 ** rng.integers(-18, 1, count)
    scale[rng.random(count) < 0.1] = 0.5  # ties in every second result
    extremes = np.asarray([0.0, 1e-45, 1e-38, 2.0**-31, 2.0**20, 3e38])
    extreme = rng.random(count) < 0.06
    scale[extreme] = rng.choice(extremes, int(extreme.sum()))
    words = np.stack([bias.view("<u4"), scale.astype("<f4").view("<u4")], axis=1)
    return np.frombuffer(np.ascontiguousarray(words).tobytes(), np.uint8)
