"""A pipeline in Verilator: the pixels that come out and the cycle of each."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.back import verilog

from ridgeline.errors import RidgelineError
from ridgeline.rtl.build import build_program
from ridgeline.rtl.pipeline.hardware import Pipeline
from ridgeline.rtl.pipeline.layers import Image
from ridgeline.rtl.pipeline.plan import Plan
from ridgeline.rtl.pipeline.timing import times
from ridgeline.rtl.streaming import stored_bytes
from ridgeline.rtl.verilog import TOP, Port, zeros_in_loops

PATIENCE = 16
"""So many times the time of one image without a pixel, stalls or not, is taken for hanging."""


@dataclass(frozen=True, slots=True, eq=False)
class Streamed:
    """`pixels` [pixels out, channels]; `taken` and `given`: cycles of every pixel in and out, from
    the first one taken.
    """

    pixels: npt.NDArray[np.int64]
    taken: tuple[int, ...]
    given: tuple[int, ...]


def generate(plan: Plan) -> tuple[str, list[Port]]:
    """The pipeline as Verilog whose top module is TOP, and its pins."""
    pipeline = Pipeline(plan)
    text = verilog.convert(pipeline, name=TOP, ports=pipeline.pins, emit_src=False)
    return zeros_in_loops(text), pipeline.ports()


def stream(plan: Plan, pixels: npt.NDArray[Any], stalls_seed: int | None = None) -> Streamed:
    """Stored integers [images * pixels, channels] through the pipeline's hardware.

    Raises RidgelineError when there are no tools, or the hardware stops.
    """
    program = build_program(generate(plan)[0], "pipeline.cpp", [])
    given, made = plan.stages[0].layer.given[0], plan.stages[-1].layer.made
    images = len(pixels) // given.pixels
    wanted = images * made.pixels
    patience = PATIENCE * times(plan).latency_cycles + 1000
    # Zero means no stalls, so seeds begin at one.
    seed = 0 if stalls_seed is None else (stalls_seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    with tempfile.TemporaryDirectory(prefix="ridgeline-pipeline-") as folder:
        asked, answered = Path(folder) / "given", Path(folder) / "made"
        _packed(pixels, given).tofile(asked)
        counts = [str(n) for n in (len(pixels), wanted, seed, patience)]
        done = subprocess.run([str(program), str(asked), str(answered), *counts])
        if done.returncode:
            raise RidgelineError(f"the simulation ended with code {done.returncode}")
        answer = answered.read_bytes()
    taken_count, given_count = np.frombuffer(answer, "<u8", 2)
    if given_count < wanted:
        raise RidgelineError(
            f"the pipeline gave {given_count} of {wanted} pixels and then none in"
            f" {patience:,} cycles",
            where=f"pipeline '{plan.name}'",
        )
    cycles = np.frombuffer(answer, "<u8", int(taken_count + given_count), 16).astype(np.int64)
    first = int(cycles[0])
    words = np.frombuffer(answer, np.uint8, offset=16 + cycles.nbytes)
    return Streamed(
        _unpacked(words.reshape(wanted, -1), made),
        tuple(int(c) - first for c in cycles[: int(taken_count)]),
        tuple(int(c) - first for c in cycles[int(taken_count) :]),
    )


def _packed(pixels: npt.NDArray[Any], image: Image) -> npt.NDArray[np.uint8]:
    """Each pixel's channels side by side, the first one lowest, in as many bytes as a port has."""
    bits = image.element.bits
    places = np.arange(bits)
    flat = (pixels.astype(np.int64)[:, :, None] >> places & 1).astype(np.uint8)
    rows = np.packbits(flat.reshape(len(pixels), -1), axis=1, bitorder="little")
    wide = np.zeros((len(pixels), stored_bytes(image.pixel_bits)), np.uint8)
    wide[:, : rows.shape[1]] = rows
    return wide


def _unpacked(words: npt.NDArray[np.uint8], image: Image) -> npt.NDArray[np.int64]:
    bits = image.element.bits
    flat = np.unpackbits(words, axis=1, bitorder="little")[:, : image.pixel_bits]
    parts = flat.reshape(len(words), image.channels, bits).astype(np.int64)
    values = (parts << np.arange(bits)).sum(axis=2)
    if image.element.signed:
        values -= (values >> (bits - 1)) << bits
    return values
