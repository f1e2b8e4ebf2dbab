"""The vector unit: accumulator entries through the requantisation lanes into the unified buffer."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal

from ridgeline.machine.instructions import Requant, Unit
from ridgeline.rtl import requantize
from ridgeline.rtl.depths import DEPTHS, depth, spare
from ridgeline.rtl.issue import Issue
from ridgeline.rtl.memories import Accumulators, Parameters, UnifiedBuffer
from ridgeline.rtl.registers import Bits, delay, named
from ridgeline.rtl.requantize import RequantizeLane
from ridgeline.rtl.shape import SUM_BITS, UNITS, Shape
from ridgeline.rtl.walk import Walk
from ridgeline.rtl.words import field, triple, waits_met


class VectorUnit(Elaboratable):
    """Takes Requants from its queue. `started` for a cycle when one begins.

    `starting_banks` are those whose write port it takes in this cycle; `load_banks` those that the
    load unit holds.
    """

    def __init__(
        self,
        shape: Shape,
        issue: Issue,
        buffer: UnifiedBuffer,
        accumulators: Accumulators,
        parameters: Parameters,
    ) -> None:
        self.shape, self.issue, self.buffer = shape, issue, buffer
        self.accumulators, self.parameters = accumulators, parameters
        self.started = Signal(name="vector_started")
        self.starting_banks = Signal(shape.banks)
        self.load_banks = Signal(shape.banks)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        walk = Walk(m, "requantize", {"line": self.shape.line_bits})
        head = self.issue.queues[Unit.VECTOR].head
        starts = self._start(m, walk, head)
        entry = Signal(self.shape.entry_bits, reset_less=True)
        with m.If(walk.busy):
            m.d.sync += entry.eq(entry + 1)
        with m.If(starts):
            m.d.sync += entry.eq(field(head, Requant, "entry"))
        m.d.comb += [
            self.accumulators.vector.enable.eq(walk.busy),
            self.accumulators.vector.address.eq(entry),
        ]
        held = {
            name: self._held(m, starts, field(head, Requant, name), name)
            for name in ("slot", "out_zero_point", "low", "high", "out_lane", "channels")
        }
        self._write(m, walk, held, self._lanes(m, walk, held))
        return m

    def _start(self, m: Module, walk: Walk, head: Bits) -> Bits:
        queue = self.issue.queues[Unit.VECTOR]
        banks = field(head, Requant, "out_banks")[: self.shape.banks]
        starts = named(
            m,
            queue.valid
            & waits_met(head, self.issue.counts, UNITS)
            & (~walk.busy | walk.last)
            & ~(banks & self.load_banks).any(),
            "starts",
        )
        m.d.comb += [
            queue.pop.eq(starts),
            self.started.eq(starts),
            self.starting_banks.eq(Mux(starts, banks, 0)),
        ]
        with m.If(walk.busy):
            walk.step(m)
        with m.If(starts):
            line = (field(head, Requant, "out_line"), triple(head, Requant, "out_stride"))
            m.d.sync += walk.start(triple(head, Requant, "count"), {"line": line})
        return starts

    @staticmethod
    def _held(m: Module, starts: Bits, value: Bits, name: str) -> Signal:
        """`value` of the instruction that issues."""
        out = Signal(value.shape(), name=f"issuing_{name}", reset_less=True)
        with m.If(starts):
            m.d.sync += out.eq(value)
        return out

    def _lanes(self, m: Module, walk: Walk, held: dict[str, Signal]) -> list[Bits]:
        """The lanes, each given parameters and limits in the cycle in which it needs them."""
        slot, parameters = held["slot"][: self.shape.parameter_slot_bits], self.parameters
        scale_delay = requantize.SCALE_STAGE
        bound_delay = 1 + requantize.BOUND_STAGE
        zero = delay(m, held["out_zero_point"], bound_delay, "zero")
        low, high = (delay(m, held[name], bound_delay + 1, name) for name in ("low", "high"))
        m.d.comb += [
            parameters.bias.enable.eq(walk.busy),
            parameters.bias.address.eq(slot),
            parameters.scale.enable.eq(delay(m, walk.busy, scale_delay, "scale", control=True)),
            parameters.scale.address.eq(delay(m, slot, scale_delay, "scale_slot")),
        ]
        stored: list[Bits] = []
        for number in range(self.shape.cols):
            m.submodules[f"lane_{number}"] = lane = RequantizeLane()
            m.d.comb += [
                lane.accumulator.eq(self.accumulators.vector.data.word_select(number, SUM_BITS)),
                lane.bias.eq(parameters.bias.data.word_select(number, 32)),
                lane.scale.eq(parameters.scale.data.word_select(number, 32)),
                lane.zero_point.eq(zero),
                lane.low.eq(low),
                lane.high.eq(high),
            ]
            stored.append(lane.stored)
        return stored

    def _write(self, m: Module, walk: Walk, held: dict[str, Signal], stored: list[Bits]) -> None:
        """Stored integers to their bytes of the line; spare cycles of the latency come first."""
        unused = spare("vector")
        cycles = depth(DEPTHS["vector"]) - 1 + unused
        lane = delay(m, held["out_lane"][: self.shape.lane_bits], cycles, "lane")
        channels = delay(m, held["channels"][: self.shape.extent_bits], cycles, "channels")
        valid = delay(m, walk.busy, cycles, "valid", control=True)
        write = self.buffer.vector
        bytes_used = Cat(*(channels > i for i in range(self.shape.line_bytes)))
        m.d.comb += [
            write.address.eq(delay(m, walk["line"], cycles, "line")),
            write.data.eq(delay(m, Cat(*stored), unused, "stored") << Cat(Const(0, 3), lane)),
            write.mask.eq(Mux(valid, bytes_used << lane, 0)),
            self.issue.drained[Unit.VECTOR].eq(delay(m, walk.last, cycles, "last", control=True)),
        ]
