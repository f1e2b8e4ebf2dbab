"""The array unit: one stage shifts the next tile's weights in, one streams the tile before.

It is `machine.dataflow.array_schedule` in hardware: the loader chases the swap wave of the tile
before by one row, so that tiles follow each other without a bubble.
"""

from __future__ import annotations

from collections.abc import Iterable

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, signed

from ridgeline.machine.instructions import MatMul, Unit
from ridgeline.machine.instructions.array import INT8
from ridgeline.rtl.array import MacArray
from ridgeline.rtl.depths import ACCUMULATE, FEED, depth, spare
from ridgeline.rtl.holds import BankUse, StoreUse
from ridgeline.rtl.issue import Issue
from ridgeline.rtl.memories import Accumulators, UnifiedBuffer, WeightSlots
from ridgeline.rtl.registers import Bits, delay, named, register
from ridgeline.rtl.shape import UNITS, WEIGHT_BITS, Shape
from ridgeline.rtl.walk import Place, Walk
from ridgeline.rtl.words import field, triple, waits_met

POSITION_BITS = 26
"""x and y of a window: a 17-bit origin and 16-bit counts of 8-bit steps."""


def are_inside(places: Iterable[Bits], limits: Iterable[Bits]) -> Bits:
    """Whether each place is at least 0, and below its limit: below 0 is beyond every limit."""
    return Cat(
        *(place.as_unsigned() < limit for place, limit in zip(places, limits, strict=True))
    ).all()


class ArrayUnit(Elaboratable):
    """Takes MatMuls from its queue. `started` for a cycle when one begins to stream, `active` then
    and while more follow; `waiting`: `word` is to stream next.

    `reads` are the banks that it uses; `others_banks` those that others use beyond this cycle, and
    `store`'s, which it must not touch.
    """

    def __init__(
        self,
        shape: Shape,
        issue: Issue,
        buffer: UnifiedBuffer,
        slots: WeightSlots,
        accumulators: Accumulators,
    ) -> None:
        self.shape, self.issue = shape, issue
        self.buffer, self.slots, self.accumulators = buffer, slots, accumulators
        self.queue = issue.queues[Unit.ARRAY]
        self.started = Signal(name="array_started")
        self.active = Signal(name="array_active")
        self.waiting = Signal(name="waiting")
        self.word = Signal(self.queue.bits, reset_less=True, name="word")
        self.reads = BankUse(shape, "array_reads")
        self.others_banks = Signal(shape.banks)
        self.store = StoreUse(shape)
        self.array = MacArray(shape.rows, shape.cols)
        self.entry = Signal(shape.entry_bits, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.array = self.array
        walk = Walk(
            m,
            "stream",
            {
                "line": self.shape.line_bits,
                "x": signed(POSITION_BITS),
                "y": signed(POSITION_BITS),
            },
        )
        self._shift(m, self.waiting, self.word)
        self._start_stream(m, walk, self.waiting, self.word)
        self._feed(m, walk)
        return m

    def _shift(self, m: Module, waiting: Signal, word: Signal) -> None:
        """The first stage: it takes an instruction when it is empty and the loader can start."""
        queue, rows = self.queue, self.shape.rows
        loading = Signal()
        row = Signal(range(rows))
        left = Signal(range(rows + 1))
        slot = Signal(self.slots.fill_slot.shape())
        keeps = field(queue.head, MatMul, "keep_weights")
        free = self.loader_free(loading, left)
        accepts = named(m, queue.valid & ~waiting & (keeps | (free & queue.met)), "accepts")
        m.d.comb += queue.pop.eq(accepts)
        m.d.sync += [row.eq(row + 1), left.eq(left - 1)]
        with m.If(left == 1):
            m.d.sync += loading.eq(0)
        with m.If(~waiting):
            m.d.sync += word.eq(queue.head)
        with m.If(accepts):
            m.d.sync += waiting.eq(1)
        with m.If(free):
            m.d.sync += [
                row.eq(0),
                left.eq(field(queue.head, MatMul, "k")),
                slot.eq(field(queue.head, MatMul, "slot")),
            ]
        with m.If(accepts & ~keeps):
            m.d.sync += loading.eq(1)
        m.d.comb += [
            self.slots.read.enable.eq(loading),
            self.slots.read.address.eq(Cat(row, slot)),
        ]
        valid = register(m, loading, "row_valid", control=True)
        loaded = register(m, row < self.slots.rows, "row_loaded")
        array = self.array
        m.d.comb += [
            array.weights_valid.eq(register(m, valid, "row_valid_2", control=True)),
            array.weight_row.eq(delay(m, row, 2, "row_number")),
            array.weights.eq(register(m, Mux(loaded, self.slots.read.data, 0), "row_weights")),
        ]

    def loader_free(self, loading: Bits, left: Bits) -> Bits:
        """Whether the loader could start now; `left` rows are to be read, this one included."""
        return ~loading | (left == 1)

    def _start_stream(self, m: Module, walk: Walk, waiting: Signal, word: Signal) -> None:
        """The second stage: it takes the instruction of the first when all waits are over."""
        banks = field(word, MatMul, "banks")[: self.shape.banks]
        held = Signal(self.shape.banks, reset_less=True)
        met = Signal(name="word_met")
        m.d.sync += met.eq(
            Mux(waiting, waits_met(word, self.issue.following, UNITS), self.queue.staying)
        )
        free = named(m, ~walk.busy | walk.last, "stream_free")
        could = named(m, waiting & met & free & ~(banks & self.others_banks).any(), "could_start")
        starts = named(m, could & ~self.store.meets(banks), "starts")
        m.d.comb += [
            self.started.eq(starts),
            self.active.eq(starts | (walk.busy & ~walk.last)),
            self.reads.held_banks.eq(Mux(walk.busy & ~walk.last, held, 0)),
            self.reads.next_banks.eq(banks),
            self.reads.starts.eq(starts),
            self.reads.could.eq(could),
        ]
        with m.If(walk.busy):
            m.d.sync += self.entry.eq(self.entry + 1)
            walk.step(m)
        # Loaded whenever they are free, so that their enable does not wait for what starts.
        with m.If(free):
            m.d.sync += [held.eq(banks), self.entry.eq(field(word, MatMul, "entry"))]
            m.d.sync += walk.load(triple(word, MatMul, "count"), self._places(word))
        with m.If(starts):
            m.d.sync += [waiting.eq(0), walk.begin()]
        self._hold(m, word, free)
        self._look_inside(m, walk, word, free)

    def _hold(self, m: Module, word: Bits, free: Bits) -> None:
        """What the instruction that streams says of all its rows."""
        self.keeps = self._held(m, free, field(word, MatMul, "keep_weights"), "keeps")
        self.adds = self._held(m, free, field(word, MatMul, "accumulate"), "adds")
        self.depth = self._held(m, free, field(word, MatMul, "k"), "depth")
        self.signed = self._held(m, free, field(word, MatMul, "format") == INT8, "signed")
        self.zero = self._held(m, free, field(word, MatMul, "zero_point"), "zero")
        self.x_limit = self._held(m, free, field(word, MatMul, "x_limit"), "x_limit")
        self.y_limit = self._held(m, free, field(word, MatMul, "y_limit"), "y_limit")

    def _look_inside(self, m: Module, walk: Walk, word: Bits, free: Bits) -> None:
        """Whether the place at hand lies in the tensor, known in the cycle before."""
        limits = [field(word, MatMul, f"{axis}_limit") for axis in ("x", "y")]
        origins = [field(word, MatMul, f"{axis}_origin") for axis in ("x", "y")]
        places = [walk.following(axis) for axis in ("x", "y")]
        first = are_inside(origins, limits)
        following = are_inside(places, [self.x_limit, self.y_limit])
        self.inside = Signal(name="inside", reset_less=True)
        m.d.sync += self.inside.eq(Mux(free, first, following))

    @staticmethod
    def _held(m: Module, starts: Bits, value: Bits, name: str) -> Signal:
        """`value` of the instruction that streams."""
        out = Signal(value.shape(), name=f"stream_{name}", reset_less=True)
        with m.If(starts):
            m.d.sync += out.eq(value)
        return out

    @staticmethod
    def _places(word: Bits) -> dict[str, Place]:
        def of(name: str) -> Bits:
            return field(word, MatMul, name)

        return {
            "line": (of("line"), triple(word, MatMul, "stride")),
            "x": (of("x_origin"), (of("x_step"), None, None)),
            "y": (of("y_origin"), (None, of("y_step"), None)),
        }

    def _feed(self, m: Module, walk: Walk) -> None:
        """From line addresses to operands, through the array, to the accumulators."""
        m.d.comb += [
            self.buffer.array.enable.eq(walk.busy & self.inside),
            self.buffer.array.address.eq(walk["line"]),
        ]
        self._operands(m, self.inside)
        swap = walk.busy & walk.first & ~self.keeps
        m.d.comb += self.array.swap.eq(delay(m, swap, depth(FEED) - 1, "swap_ahead", control=True))
        through = depth(FEED) + self.shape.rows + self.shape.cols
        counted = through + depth(ACCUMULATE) - 1 + spare("array")
        m.d.comb += [
            self.accumulators.valid.eq(delay(m, walk.busy, through, "valid", control=True)),
            self.accumulators.entry.eq(delay(m, self.entry, through, "entry")),
            self.accumulators.accumulate.eq(delay(m, self.adds, through, "accumulate")),
            self.accumulators.sums.eq(self.array.sums),
            self.issue.drained[Unit.ARRAY].eq(delay(m, walk.last, counted, "last", control=True)),
        ]

    def _operands(self, m: Module, inside: Bits) -> None:
        """Bytes of a line to operands: sign, zero point, zero beyond k and outside the tensor."""
        used = [inside & (self.depth > row) for row in range(self.shape.rows)]
        mask = delay(m, Cat(*used), 2, "used")
        sign = register(m, self.signed, "sign")
        zero = delay(m, self.zero, 2, "zero")
        line = self.buffer.array.data
        for row in range(self.shape.rows):
            byte = line.word_select(row, 8)
            wide = register(m, Cat(byte, byte[7] & sign).as_signed(), f"wide_{row}")
            operand = register(m, Mux(mask[row], wide - zero, 0)[:WEIGHT_BITS], f"operand_{row}")
            m.d.comb += self.array.activations.word_select(row, WEIGHT_BITS).eq(operand)
