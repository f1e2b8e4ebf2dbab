"""The vector unit: accumulators or lines of the unified buffer through its lanes, and back there.

Three ways lead to the last stages of a lane, which clamp: an accumulator entry through all of it; a
line through zero point, product and sum first; a pair of lines through the lane of real numbers.
They differ in length, and an instruction starts so late that none overtakes another.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, signed

from ridgeline.machine.instructions import Requant, Unit
from ridgeline.machine.latencies import LATENCIES
from ridgeline.rtl import elementwise, multiply_add, requantize
from ridgeline.rtl.array_unit import POSITION_BITS, are_inside
from ridgeline.rtl.elementwise import RealLane
from ridgeline.rtl.holds import BankUse, StoreUse
from ridgeline.rtl.issue import Issue
from ridgeline.rtl.memories import Accumulators, Parameters, UnifiedBuffer
from ridgeline.rtl.operands import PRODUCT_AGE, SUM_AGE, TAP_BITS, VectorOperands
from ridgeline.rtl.registers import Bits, choose_fields, delay, named, travel
from ridgeline.rtl.requantize import RequantizeLane
from ridgeline.rtl.shape import SUM_BITS, Shape
from ridgeline.rtl.vector_decode import COUNT_BITS, Decoded, Decoder
from ridgeline.rtl.walk import Walk
from ridgeline.rtl.words import field

ENTRY_AGE = SUM_AGE - 1
"""A line is as far then as an accumulator entry whose address is shown: its sum comes next."""

LATE_AGE = PRODUCT_AGE + elementwise.STAGES
"""When a pair of lines is a real number; an accumulator entry is, REAL_STAGE after it came."""

TO_LATE = 1 + requantize.REAL_STAGE
"""Cycles from an accumulator entry's address to there."""

Fields = dict[str, Bits]


class VectorUnit(Elaboratable):
    """Takes vector instructions from its queue. `started` for a cycle when one begins,
    `active` then and while it issues more.

    `reads` and `writes` are the banks that it uses; `load_banks` those that the load unit writes,
    `others_banks` those that others read beyond this cycle. The `array` goes first, and it must not
    touch what `store` reads.
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
        self.active = Signal(name="vector_active")
        self.reads = BankUse(shape, "vector_reads")
        self.writes = BankUse(shape, "vector_writes")
        self.load_banks = Signal(shape.banks)
        self.others_banks = Signal(shape.banks)
        self.array = BankUse(shape, "array_before_vector")
        self.store = StoreUse(shape)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        head = self.issue.queues[Unit.VECTOR].head
        decoded = Decoder(m, self.shape, head).decoded()
        places = {
            "line": self.shape.line_bits,
            "other": self.shape.line_bits,
            "out": self.shape.line_bits,
            "tap": TAP_BITS,
            "x": signed(POSITION_BITS),
            "y": signed(POSITION_BITS),
        }
        self.walk = walk = Walk(m, "vector", places, COUNT_BITS)
        self.preloading = Signal()
        self.preload = Walk(m, "preload", {"line": self.shape.line_bits, "place": TAP_BITS}, (8, 8))
        self.last = named(m, walk.last & ~self.preloading, "last_place")
        # Loaded whenever they are free, so that their enable does not wait for what starts.
        free = named(m, ~walk.busy | self.last, "issuing_free")
        self._start(m, decoded, head, free)
        held = {name: self._held(m, free, value, name) for name, value in decoded.constants.items()}
        entry = Signal(self.shape.entry_bits, reset_less=True)
        with m.If(walk.busy):
            m.d.sync += entry.eq(entry + 1)
        with m.If(free):
            m.d.sync += entry.eq(field(head, Requant, "entry"))
        m.d.comb += [
            self.accumulators.vector.enable.eq(walk.busy & held["requants"]),
            self.accumulators.vector.address.eq(entry),
        ]
        m.submodules.operands = operands = VectorOperands(self.shape, self.buffer)
        self._look_inside(m, decoded, held, free)
        self._read_lines(m, held, operands)
        self._lanes(m, held, operands)
        return m

    def _start(self, m: Module, decoded: Decoded, head: Bits, free: Bits) -> None:
        queue, walk = self.issue.queues[Unit.VECTOR], self.walk
        written = field(head, Requant, "out_banks")[: self.shape.banks]
        read = named(m, decoded.read_banks[: self.shape.banks], "read_banks")
        latency = named(m, decoded.latency, "latency")
        # Cycles until what has been issued has drained; what follows must take at least as long.
        ahead = Signal(range(max(LATENCIES.vector_real, 2) + 1))
        issuing = self._held(m, free, latency, "latency")
        until = named(m, Mux(walk.busy, issuing, ahead), "until_drained")
        may = named(
            m,
            queue.ready
            & free
            & self.keeps_order(until, latency)
            & ~(written & self.load_banks).any()
            & ~(read & self.others_banks).any(),
            "may_start",
        )
        could = named(m, may & ~self.array.meets(read, early=True), "could_start")
        meets = self.array.meets(read, early=False) | self.store.meets(read)
        starts = named(m, may & ~meets, "starts")
        held = self._held(m, free, read, "read_banks")
        m.d.comb += [
            queue.pop.eq(starts),
            self.started.eq(starts),
            self.active.eq(starts | (walk.busy & ~self.last)),
            self.reads.held_banks.eq(Mux(walk.busy & ~self.last, held, 0)),
            self.reads.next_banks.eq(read),
            self.writes.next_banks.eq(written),
        ]
        for use in (self.reads, self.writes):
            m.d.comb += [use.starts.eq(starts), use.could.eq(could)]
        m.d.sync += ahead.eq(Mux(until == 0, 0, until - 1))
        self._walk(m, decoded, free, starts)

    def _walk(self, m: Module, decoded: Decoded, free: Bits, starts: Bits) -> None:
        """The walk over lines that are preloaded, then the one over all others."""
        walk = self.walk
        with m.If(walk.busy & ~self.preloading):
            walk.step(m)
        with m.If(self.preloading):
            self.preload.step(m)
            with m.If(self.preload.ends[-1]):
                m.d.sync += self.preloading.eq(0)
        with m.If(free):
            lines, one = decoded.preload_counts[0], Const(1)
            m.d.sync += self.preloading.eq(decoded.preloads)
            m.d.sync += walk.load(decoded.counts, decoded.places)
            m.d.sync += self.preload.load(
                decoded.preload_counts,
                {"line": (decoded.preload_line, (one, lines)), "place": (Const(0), (one, lines))},
            )
        with m.If(starts):
            m.d.sync += walk.begin()

    def keeps_order(self, until_drained: Bits, latency: Bits) -> Bits:
        """Whether an instruction of this latency drains behind all before it."""
        return until_drained <= latency

    @staticmethod
    def _held(m: Module, starts: Bits, value: Bits, name: str) -> Signal:
        """`value` of the instruction that issues."""
        out = Signal(value.shape(), name=f"issuing_{name}", reset_less=True)
        with m.If(starts):
            m.d.sync += out.eq(value)
        return out

    def _look_inside(self, m: Module, decoded: Decoded, held: Fields, free: Bits) -> None:
        """Whether the line at hand lies in the tensor, known in the cycle before."""
        axes = ("x", "y")
        limits = [decoded.constants[f"{axis}_limit"] for axis in axes]
        first = are_inside([decoded.places[axis][0] for axis in axes], limits)
        now = [held[f"{axis}_limit"] for axis in axes]
        following = are_inside([self.walk.following(axis) for axis in axes], now)
        self.inside = Signal(name="inside", reset_less=True)
        with m.If(free):
            m.d.sync += self.inside.eq(first)
        with m.Elif(~self.preloading):
            m.d.sync += self.inside.eq(following)

    def _read_lines(self, m: Module, held: Fields, operands: VectorOperands) -> None:
        """Lines' addresses, and what is to be done with them."""
        walk, preload, loads = self.walk, self.preload, self.preloading
        second = named(m, held["pairs"] & self._follows(m), "second")
        reads = walk.busy & ~held["requants"] & (loads | self.inside)
        line = Mux(loads, preload["line"], Mux(second, walk["other"], walk["line"]))
        fills = named(m, walk.busy & loads, "fills")
        zero = Mux(loads, held["weights_zero"], Mux(second, held["zero_b"], held["zero_a"]))
        use = operands.use
        m.d.comb += [
            self.buffer.vector_read.enable.eq(reads),
            self.buffer.vector_read.address.eq(line),
            use.lane.eq(Mux(loads & held["looks_up"], 0, held["lane"])),
            use.signed.eq(Mux(loads, held["weights_signed"], held["signed"])),
            use.zero.eq(zero),
            use.fills_weights.eq(fills & held["weighs"]),
            use.fills_table.eq(fills & held["looks_up"]),
            use.place.eq(Mux(loads, preload["place"], walk["tap"])),
            use.inside.eq(self.inside),
            use.looks_up.eq(held["looks_up"]),
            use.table_signed.eq(held["table_signed"]),
            use.weighs.eq(held["weighs"]),
            use.multiplies.eq(held["multiplies"] & second),
            use.first.eq(self.first_tap),
            use.greatest.eq(held["greatest"]),
        ]

    def _follows(self, m: Module) -> Bits:
        """Whether this is not the first tap of a vector, or line of a pair."""
        self.first_tap = Signal(name="first_tap", reset_less=True)
        with m.If(~self.walk.busy | self.last):
            m.d.sync += self.first_tap.eq(1)
        with m.Elif(~self.preloading):
            m.d.sync += self.first_tap.eq(self.walk.ends[1])
        return ~self.first_tap

    def _lanes(self, m: Module, held: Fields, operands: VectorOperands) -> None:
        """Constants travel beside the data and meet them where they are needed."""
        done = named(m, self.walk.busy & ~self.preloading & self.walk.ends[1], "place_done")
        end = {
            **{name: held[name] for name in ("zero_point", "low", "high")},
            "lane": held["out_lane"][: self.shape.lane_bits],
            "channels": held["channels"][: self.shape.extent_bits],
            "line": self.walk["out"],
            "last": self.last,
        }
        begin = {
            "slot": held["slot"][: self.shape.parameter_slot_bits],
            "uses_parameters": held["uses_parameters"],
            "scale": held["scale_a"],
            "sums": ~held["requants"],
        }
        sums = named(m, done & ~held["requants"] & ~held["pairs"], "sum_done")
        summed = delay(m, sums, ENTRY_AGE, "summed", control=True)
        enters = named(m, summed | (done & held["requants"]), "enters")
        now = begin | end
        entry = choose_fields(m, summed, travel(m, now, ENTRY_AGE, "sum_fields"), now, "entry")
        lanes = self._requantise(m, operands, enters, {name: entry[name] for name in begin})
        paired = named(m, done & held["pairs"], "pair_done")
        late = delay(m, enters, TO_LATE, "late", control=True)
        paired_late = delay(m, paired, LATE_AGE, "paired", control=True)
        fields = choose_fields(
            m,
            paired_late,
            travel(m, end, LATE_AGE, "pair_fields"),
            travel(m, {name: entry[name] for name in end}, TO_LATE, "late_fields"),
            "late",
        )
        self._real(m, held, operands, paired, paired_late, lanes)
        self._finish(m, lanes, named(m, late | paired_late, "valid_late"), fields)

    def _requantise(
        self, m: Module, operands: VectorOperands, enters: Bits, entry: Fields
    ) -> list[RequantizeLane]:
        """The lanes, given their sums, and parameters in the cycles in which they need them."""
        parameters = self.parameters
        first = travel(m, entry, 1, "lane_fields")
        before = travel(m, first, requantize.SCALE_STAGE - 1, "scale_fields")
        scale = travel(m, before, 1, "scaling_fields")
        m.d.comb += [
            parameters.bias.enable.eq(enters),
            parameters.bias.address.eq(entry["slot"]),
            parameters.scale.enable.eq(before["uses_parameters"]),
            parameters.scale.address.eq(before["slot"]),
        ]
        lanes: list[RequantizeLane] = []
        mode = self.shape.machine.vector.requantize
        for number, total in enumerate(operands.sums):
            m.submodules[f"lane_{number}"] = lane = RequantizeLane(mode)
            sums = self.accumulators.vector.data.word_select(number, SUM_BITS)
            bias = parameters.bias.data.word_select(number, 32)
            word = parameters.scale.data.word_select(number, 32)
            m.d.comb += [
                lane.accumulator.eq(Mux(first["sums"], total, sums.as_signed())),
                lane.bias.eq(Mux(first["uses_parameters"], bias, 0)),
                lane.scale.eq(Mux(scale["uses_parameters"], word, scale["scale"])),
            ]
            lanes.append(lane)
        return lanes

    def _real(
        self,
        m: Module,
        held: Fields,
        operands: VectorOperands,
        paired: Bits,
        paired_late: Bits,
        lanes: list[RequantizeLane],
    ) -> None:
        """Pairs of lines through the lanes of real numbers into the last stages of the others."""
        if not self.shape.has("add", "mul"):
            return
        multiplies = held["multiplies"]
        wait = elementwise.SECOND_PASS
        first = travel(
            m,
            {
                "multiplies": multiplies,
                "scale": Mux(multiplies, held["scale_a"], held["scale_b"]),
                "addend": Mux(multiplies, 0, held["offset"]),
                "scale_again": Mux(multiplies, held["offset"], held["scale_a"]),
            },
            PRODUCT_AGE,
            "first_pass",
        )
        again = {name: first[name] for name in ("multiplies", "scale_again")}
        second = travel(m, again, wait, "second_pass")
        passes = delay(m, paired, PRODUCT_AGE + wait, "passes_again", control=True)
        scale = named(m, Mux(passes, second["scale_again"], first["scale"]), "pass_scale")
        addend = delay(m, first["addend"], multiply_add.ADDEND_STAGE, "pass_addend")
        for number, lane in enumerate(lanes):
            m.submodules[f"real_{number}"] = real = RealLane()
            m.d.comb += [
                real.product.eq(operands.products[number]),
                real.second.eq(passes),
                real.multiplies.eq(second["multiplies"]),
                real.scale.eq(scale),
                real.addend.eq(addend),
                lane.real.eq(paired_late),
                lane.real_negative.eq(real.negative),
                lane.real_significand.eq(real.significand),
                lane.real_point.eq(real.point),
            ]

    def _finish(self, m: Module, lanes: list[RequantizeLane], valid: Bits, fields: Fields) -> None:
        """Zero points and limits, then the stored integers to their bytes of the line."""
        bound = travel(m, fields, requantize.BOUND_STAGE - requantize.REAL_STAGE, "bound_fields")
        limit = travel(m, bound, 1, "limit_fields")
        end = travel(m, limit, requantize.STAGES - requantize.BOUND_STAGE - 1, "end_fields")
        for lane in lanes:
            m.d.comb += [
                lane.zero_point.eq(bound["zero_point"]),
                lane.low.eq(limit["low"]),
                lane.high.eq(limit["high"]),
            ]
        cycles = requantize.STAGES - requantize.REAL_STAGE
        writes = delay(m, valid, cycles, "valid_end", control=True)
        write = self.buffer.vector
        bytes_used: Bits = Cat(*(end["channels"] > i for i in range(self.shape.line_bytes)))
        stored: Bits = Cat(*(lane.stored for lane in lanes))
        m.d.comb += [
            write.address.eq(end["line"]),
            write.data.eq(stored << Cat(Const(0, 3), end["lane"])),
            write.mask.eq(Mux(writes, bytes_used << end["lane"], 0)),
            self.issue.drained[Unit.VECTOR].eq(writes & end["last"]),
        ]
