"""What a stage does with two pixels: QLinearAdd, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
from amaranth.hdl import Elaboratable, Module, Mux, Signal

from ridgeline.rtl import elementwise, requantize
from ridgeline.rtl.elementwise import RealLane
from ridgeline.rtl.pipeline.plan import FETCH_CYCLES, Stage
from ridgeline.rtl.pipeline.reducing import Outgoing, StepFlags, parts
from ridgeline.rtl.registers import Bits, delay, named, register
from ridgeline.rtl.requantize import RequantizeLane


class Adding(Elaboratable):
    """`data` of both sources come a cycle after the step's flags: a in a part's first step, b in
    its second. `valid` with `pixel` when one is made.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.flags = Signal(StepFlags(stage))
        self.data = [
            Signal(image.pixel_bits, name=f"data_{i}") for i, image in enumerate(stage.layer.given)
        ]
        self.valid = Signal()
        self.pixel = Signal(stage.layer.made.pixel_bits)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flags = Signal(StepFlags(self.stage), name="flags_1", reset_less=True)
        m.d.sync += flags.eq(self.flags)
        operands = self._operands(m, flags)
        pairs = named(m, self.flags.issues & self.flags.inner[0], "pairs")
        second = delay(
            m, pairs, FETCH_CYCLES + elementwise.SECOND_PASS, "second_pass", control=True
        )
        stored = self._lanes(m, operands, second)
        after = FETCH_CYCLES + elementwise.STAGES - requantize.REAL_STAGE + requantize.STAGES
        out = Outgoing(
            m,
            self.stage,
            stored,
            delay(m, pairs, after, "pairs_later", control=True),
            delay(m, self.flags.pixel_ends, after, "ends_later"),
        )
        m.d.comb += [self.valid.eq(out.valid), self.pixel.eq(out.pixel)]
        return m

    def _operands(self, m: Module, flags: Any) -> list[Bits]:
        outputs = self.stage.fold.outputs
        values: list[list[Bits]] = []
        for place, (word, image) in enumerate(zip(self.data, self.stage.layer.given, strict=True)):
            part = named(
                m, word.word_select(flags.group, outputs * image.element.bits), f"part_{place}"
            )
            values.append(parts(part, image.element))
        return [
            register(m, Mux(flags.inner[0], b, a), f"operand_{i}")
            for i, (a, b) in enumerate(zip(*values, strict=True))
        ]

    def _lanes(self, m: Module, operands: list[Bits], second: Bits) -> list[Bits]:
        element = self.stage.layer.made.element
        a, b, offset = (int(np.float32(v).view(np.uint32)) for v in self.stage.layer.constants)
        stored: list[Bits] = []
        for number, operand in enumerate(operands):
            m.submodules[f"real_{number}"] = real = RealLane()
            m.submodules[f"lane_{number}"] = lane = RequantizeLane()
            m.d.comb += [
                real.product.eq(operand),
                real.second.eq(second),
                real.multiplies.eq(0),
                real.scale.eq(Mux(second, a, b)),
                real.addend.eq(offset),
                lane.real.eq(1),
                lane.real_negative.eq(real.negative),
                lane.real_significand.eq(real.significand),
                lane.real_point.eq(real.point),
                lane.zero_point.eq(0),
                lane.low.eq(element.low),
                lane.high.eq(element.high),
            ]
            stored.append(lane.stored)
        return stored
