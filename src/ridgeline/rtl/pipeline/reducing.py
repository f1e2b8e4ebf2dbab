"""What a stage does with the pixels of a window: products summed, a sum, or the largest."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import data, memory

from ridgeline.rtl import requantize
from ridgeline.rtl.pipeline.layers import MATRIX, MAX, Element
from ridgeline.rtl.pipeline.plan import FETCH_CYCLES, Stage
from ridgeline.rtl.registers import Bits, delay, named, register
from ridgeline.rtl.requantize import RequantizeLane
from ridgeline.rtl.shape import index_bits


class StepFlags(data.StructLayout):
    """What goes with a step: whether it is one, where in the sum it lies, which channels."""

    def __init__(self, stage: Stage) -> None:
        fold, layer = stage.fold, stage.layer
        inner = max(layer.given[0].channels // fold.inputs, 2)
        super().__init__(
            {
                "issues": 1,
                "first": 1,
                "last": 1,
                "inside": 1,
                "pixel_ends": 1,
                "inner": index_bits(inner),
                "group": index_bits(max(stage.groups, 2)),
            }
        )


def parts(pixel: Bits, element: Element) -> list[Bits]:
    """The elements of a pixel, with their signs."""
    found: list[Bits] = []
    for start in range(0, len(pixel), element.bits):
        one = pixel[start : start + element.bits]
        found.append(one.as_signed() if element.signed else one)
    return found


def as_bits(values: Any, bits: int) -> int:
    """Integers side by side, the first lowest, as one number of `bits` each."""
    packed = 0
    for place, value in enumerate(np.asarray(values).reshape(-1).tolist()):
        packed |= (int(value) & ((1 << bits) - 1)) << (place * bits)
    return packed


class Outgoing:
    """The pixel being made, into which stored integers move from the top."""

    def __init__(
        self, m: Module, stage: Stage, stored: list[Bits], enters: Bits, ends: Bits
    ) -> None:
        bits = stage.layer.made.element.bits
        word = Signal(stage.layer.made.pixel_bits, name="outgoing", reset_less=True)
        together = Cat(*(one[:bits] for one in stored))
        with m.If(enters):
            m.d.sync += word.eq(Cat(word, together)[len(together) :])
        self.pixel = word
        self.valid = register(m, enters & ends, "outgoing_valid", control=True)


class Reducing(Elaboratable):
    """`data` comes a cycle after the step's flags; `valid` with `pixel` when one is made."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        layer = stage.layer
        self.flags = Signal(StepFlags(stage))
        self.live: list[Bits] = [self.flags.issues]
        """Whether there is a step, by age."""
        self.data = [Signal(layer.given[0].pixel_bits, name="data_0")]
        self.valid = Signal()
        self.pixel = Signal(layer.made.pixel_bits)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flags = self._travel(m)
        operands = self._operands(m, flags[1])
        sums = self._sums(m, operands, self._weights(m))
        totals = self._accumulate(m, sums, flags)
        self._leave(m, totals, flags[-1])
        return m

    def _travel(self, m: Module) -> list[Any]:
        """The flags so many cycles after the step, up to when its sum is in the accumulator."""
        last = FETCH_CYCLES + 1 + self.stage.tree_stages + 1
        found: list[Any] = [self.flags]
        for age in range(1, last + 1):
            later = Signal(StepFlags(self.stage), name=f"flags_{age}", reset_less=True)
            m.d.sync += later.eq(found[-1])
            found.append(later)
            issued = self.live[age - 1]
            self.live.append(register(m, issued, f"issued_{age}", control=True))
        return found

    def _operands(self, m: Module, flags: Any) -> list[Bits]:
        """Operands of the step, zero points subtracted, a cycle after their pixel came."""
        stage, layer = self.stage, self.stage.layer
        image = layer.given[0]
        element, low, high = image.element, *layer.operand_range
        together = stage.fold.inputs if layer.kind == MATRIX else stage.fold.outputs
        chosen = named(
            m,
            self.data[0].word_select(
                flags.inner if layer.kind == MATRIX else flags.group, together * element.bits
            ),
            "chosen",
        )
        nothing = low if layer.kind == MAX else 0
        zero = 0 if layer.kind == MAX else element.zero
        shape = signed(max(low.bit_length(), high.bit_length()) + 1)
        found: list[Bits] = []
        for number, value in enumerate(parts(chosen, element)):
            operand = Signal(shape, name=f"operand_{number}", reset_less=True)
            m.d.sync += operand.eq(Mux(flags.inside, value - zero, nothing))
            found.append(operand)
        return found

    def _weights(self, m: Module) -> list[list[Bits]]:
        """For each output made together the weights of its operands, with those operands."""
        stage, layer = self.stage, self.stage.layer
        if not layer.weights.size:
            return []
        bits = layer.weight_bits
        rows = self._weight_rows()
        width = bits * stage.multipliers
        cells = memory.Memory(
            shape=width, depth=len(rows), init=[as_bits(row, bits) for row in rows]
        )
        m.submodules.weights = cells
        port = cells.read_port()
        place = Signal(range(max(len(rows), 2)), name="weight_place")
        with m.If(self.flags.issues):
            m.d.sync += place.eq(Mux(self.flags.pixel_ends, 0, place + 1))
        m.d.comb += [port.addr.eq(place), port.en.eq(1)]
        word = register(m, port.data, "weight_word")
        values = [word.word_select(i, bits).as_signed() for i in range(stage.multipliers)]
        inputs = stage.fold.inputs
        return [values[i * inputs : (i + 1) * inputs] for i in range(stage.fold.outputs)]

    def _weight_rows(self) -> list[Any]:
        """The weights of each step, outputs first: [outputs made together, operands]."""
        stage, layer = self.stage, self.stage.layer
        outputs, inputs = stage.fold.outputs, stage.fold.inputs
        taps = layer.window.taps
        rows: list[Any] = []
        for group in range(stage.groups):
            part = layer.weights[group * outputs : (group + 1) * outputs]
            for tap in range(taps):
                if layer.kind != MATRIX:
                    rows.append(part[:, tap])
                    continue
                for first in range(0, part.shape[2], inputs):
                    rows.append(part[:, tap, first : first + inputs])
        return rows

    def _sums(self, m: Module, operands: list[Bits], weights: list[list[Bits]]) -> list[Bits]:
        """Of each output made together the step's sum."""
        found: list[Bits] = []
        for output in range(self.stage.fold.outputs):
            if weights:
                mine = operands if self.stage.layer.kind == MATRIX else [operands[output]]
                pairs = zip(mine, weights[output], strict=True)
                values = [a * b for a, b in pairs]
            else:
                values = [operands[output]]
            terms = [register(m, v, f"product_{output}_{i}") for i, v in enumerate(values)]
            for level in range(self.stage.tree_stages):
                fours = [terms[i : i + 4] for i in range(0, len(terms), 4)]
                terms = [
                    register(m, reduce(_add, four), f"sum_{output}_{level}_{i}")
                    for i, four in enumerate(fours)
                ]
            found.append(terms[0])
        return found

    def _accumulate(self, m: Module, sums: list[Bits], flags: list[Any]) -> list[Bits]:
        age = len(flags) - 2
        layer = self.stage.layer
        bits = layer.sum_bits if layer.kind != MAX else len(sums[0])
        found: list[Bits] = []
        for number, value in enumerate(sums):
            total = Signal(signed(bits), name=f"total_{number}", reset_less=True)
            if layer.kind == MAX:
                after = Mux(flags[age].first | (value > total), value, total)
            else:
                after = value + Mux(flags[age].first, 0, total)
            with m.If(self.live[age]):
                m.d.sync += total.eq(after)
            found.append(total)
        return found

    def _leave(self, m: Module, totals: list[Bits], flags: Any) -> None:
        """Whole sums through the lanes, a part's in `beats` cycles, and into the pixel."""
        stage = self.stage
        lanes, beats = stage.lanes, stage.beats
        bits = len(totals[0])
        whole = named(m, self.live[-1] & flags.last, "whole")
        waiting = Signal(len(totals) * bits, name="waiting", reset_less=True)
        left = Signal(range(beats + 1), name="beats_left")
        leaves = named(m, left != 0, "leaves")
        with m.If(whole):
            m.d.sync += [waiting.eq(Cat(*totals)), left.eq(beats)]
        with m.Elif(leaves):
            m.d.sync += [waiting.eq(waiting[lanes * bits :]), left.eq(left - 1)]
        count = stage.layer.made.channels // lanes
        index = Signal(range(max(count, 2)), name="leaving")
        ends = named(m, index == count - 1, "leaving_ends")
        with m.If(leaves):
            m.d.sync += index.eq(Mux(ends, 0, index + 1))
        sums = [
            register(m, waiting[i * bits : (i + 1) * bits].as_signed(), f"leaving_{i}")
            for i in range(lanes)
        ]
        stored = self._stored(m, sums, index)
        after = 1 + requantize.STAGES
        out = Outgoing(
            m,
            stage,
            stored,
            delay(m, leaves, after, "leaves_later", control=True),
            delay(m, ends, after, "ends_later"),
        )
        m.d.comb += [self.valid.eq(out.valid), self.pixel.eq(out.pixel)]

    def _stored(self, m: Module, sums: list[Bits], index: Bits) -> list[Bits]:
        layer = self.stage.layer
        element = layer.made.element
        if layer.kind == MAX:
            found: list[Bits] = []
            for number, value in enumerate(sums):
                late = named(
                    m, delay(m, value, requantize.STAGES, f"late_{number}"), f"max_{number}"
                )
                bounded = Mux(late < element.low, element.low, late)
                found.append(Mux(bounded > element.high, element.high, bounded)[: element.bits])
            return found
        lanes: list[RequantizeLane] = []
        stored_bits = 8 if element.bits <= 8 else 16
        bias = self._parameters(m, "bias", layer.bias, index)
        scale_words = layer.scale.view(np.uint32).astype(np.int64)
        later = delay(m, index, requantize.SCALE_STAGE, "scaled")
        scale = self._parameters(m, "scale", scale_words, later)
        for number, value in enumerate(sums):
            m.submodules[f"lane_{number}"] = lane = RequantizeLane(stored_bits=stored_bits)
            m.d.comb += [
                lane.accumulator.eq(value),
                lane.bias.eq(bias.word_select(number, 32).as_signed()),
                lane.scale.eq(scale.word_select(number, 32)),
                lane.zero_point.eq(element.zero),
                lane.low.eq(element.low),
                lane.high.eq(element.high),
            ]
            lanes.append(lane)
        return [lane.stored for lane in lanes]

    def _parameters(self, m: Module, name: str, values: Any, index: Bits) -> Bits:
        """The words of the channels that leave together, a cycle after their index."""
        lanes = self.stage.lanes
        rows = [as_bits(values[i : i + lanes], 32) for i in range(0, len(values), lanes)]
        cells = memory.Memory(shape=32 * lanes, depth=len(rows), init=rows)
        m.submodules[name] = cells
        port = cells.read_port()
        m.d.comb += [port.addr.eq(index), port.en.eq(1)]
        return port.data


def _add(one: Bits, other: Bits) -> Bits:
    return one + other
