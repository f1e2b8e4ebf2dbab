"""The users of the device-memory port: load, store and weights units around one descriptor engine.

The port serves one descriptor at a time, so one address walk, one burst counter and one return path
serve three units; each keeps its own queue and count.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import data

from ridgeline.machine.instructions import Load, LoadParams, LoadWeights, Store, Unit
from ridgeline.machine.instructions.weights import PARAMETER_BYTES
from ridgeline.machine.instructions.word import COUNT_BITS
from ridgeline.rtl.arbiter import RequestOrder
from ridgeline.rtl.issue import Issue
from ridgeline.rtl.memories import UnifiedBuffer, WeightSlots
from ridgeline.rtl.registers import Bits, named
from ridgeline.rtl.shape import UNITS, WEIGHT_BITS, Shape
from ridgeline.rtl.walk import Counts, Walk
from ridgeline.rtl.weight_rows import COLUMN_BITS, BufferWeights, Columns
from ridgeline.rtl.words import field, opcode, triple, waits_met

PORT_UNITS = (Unit.LOAD, Unit.STORE, Unit.WEIGHTS)
"""Users of the port; the order is the tie rule."""

LOAD, STORE, WEIGHTS, PARAMETERS = range(4)
"""What the engine moves."""


def tag_layout(shape: Shape) -> data.StructLayout:
    """What is remembered of a read request until its data come."""
    return data.StructLayout(
        {
            "kind": 2,
            "last": 1,
            "target": shape.target_bits,
            "extent": shape.extent_bits,
            "lane": shape.lane_bits,
            "zero_point": WEIGHT_BITS,
            "signed": 1,
            "column": signed(COLUMN_BITS),
        }
    )


class Transfers(Elaboratable):
    """Starts descriptors in order of request and issues their elements' requests.

    An element's request leaves in the last cycle that its bursts cost. `read_*` asks device memory;
    `store_*` goes to the store path. `started[unit]` for a cycle when a descriptor begins, `active`
    then and while it goes on.
    """

    def __init__(
        self, shape: Shape, issue: Issue, buffer: UnifiedBuffer, slots: WeightSlots
    ) -> None:
        self.shape, self.issue, self.buffer, self.slots = shape, issue, buffer, slots
        self.started = {unit: Signal(name=f"{unit.name.lower()}_started") for unit in PORT_UNITS}
        self.active = {unit: Signal(name=f"{unit.name.lower()}_active") for unit in PORT_UNITS}
        self.reading_banks = Signal(shape.banks)
        self.vector_banks = Signal(shape.banks)
        self.store_banks = Signal(shape.banks)
        self.starting_load_banks = Signal(shape.banks)
        self.read_valid = Signal()
        self.read_ready = Signal()
        self.read_bytes = Signal(shape.request_bits)
        self.store_valid = Signal()
        self.store_ready = Signal()
        self.address = Signal(shape.address_bits)
        self.tag = Signal(tag_layout(shape))
        self.columns = Columns("transfer")
        self.from_buffer = BufferWeights(shape, buffer, issue.queues[Unit.WEIGHTS].head)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        walk = Walk(
            m,
            "transfer",
            {"device": self.shape.address_bits, "target": self.shape.target_bits},
        )
        kind = Signal(2)
        moves = self._pay_bursts(m, walk, kind)
        finishing = named(m, moves & walk.last, "finishing")
        self._start(m, walk, kind, finishing)
        return m

    def _pay_bursts(self, m: Module, walk: Walk, kind: Signal) -> Bits:
        """The cost of the element at hand, cycle by cycle; whether its request leaves now."""
        shape = self.shape
        burst_cycles = int(shape.machine.burst_cycles)
        below = shape.burst_bits
        self.request_bytes = Signal(shape.request_bits, reset_less=True)
        high = named(m, walk["device"][below:], "burst")
        more = named(m, (walk["device"][:below] + self.request_bytes - 1)[below:], "more_bursts")
        paid = Signal(high.shape(), reset_less=True)
        same = named(m, ~walk.first & (paid == high), "burst_is_paid")
        fresh = named(m, (more + 1 - same)[: len(more) + 1], "fresh_bursts")
        spent = Signal(range(max((2 + shape.response_bytes) * burst_cycles, 2)))
        complete = named(m, spent + 1 >= fresh * burst_cycles, "element_is_paid")
        stores = kind == STORE
        m.d.comb += [
            self.address.eq(walk["device"]),
            self.read_bytes.eq(self.request_bytes),
            self.read_valid.eq(walk.busy & complete & ~stores),
            self.store_valid.eq(walk.busy & complete & stores),
        ]
        taken = Mux(stores, self.store_ready, self.read_ready)
        moves = named(m, walk.busy & complete & taken, "moves")
        with m.If(walk.busy & ~complete):
            m.d.sync += spent.eq(spent + 1)
        with m.If(moves):
            m.d.sync += [spent.eq(0), paid.eq(high + more)]
            walk.step(m)
            self._step_column(m)
        return moves

    def _step_column(self, m: Module) -> None:
        """Behind a row of weights."""
        self.columns.step(m, self.request_bytes)

    def _start(self, m: Module, walk: Walk, kind: Signal, finishing: Bits) -> None:
        free = named(m, ~walk.busy | finishing, "port_is_free")
        owner = {
            Unit.LOAD: kind == LOAD,
            Unit.STORE: kind == STORE,
            Unit.WEIGHTS: kind[1],
        }
        heads = {unit: self.issue.queues[unit].head for unit in PORT_UNITS}
        banks = {
            Unit.LOAD: field(heads[Unit.LOAD], Load, "banks")[: self.shape.banks],
            Unit.STORE: field(heads[Unit.STORE], Store, "banks")[: self.shape.banks],
        }
        blocked = {
            Unit.LOAD: (banks[Unit.LOAD] & self.vector_banks).any(),
            Unit.STORE: (
                banks[Unit.STORE] & (self.reading_banks | self.from_buffer.held_banks)
            ).any(),
            Unit.WEIGHTS: Const(0),
        }
        on_chip = self._on_chip(m, heads[Unit.WEIGHTS])
        able = {unit: free & ~blocked[unit] for unit in PORT_UNITS}
        weights_banks = field(heads[Unit.WEIGHTS], LoadWeights, "banks")[: self.shape.banks]
        meets = (weights_banks & (self.reading_banks | self.store_banks)).any()
        able[Unit.WEIGHTS] = Mux(on_chip, ~meets, free)
        m.submodules.order = order = RequestOrder(PORT_UNITS)
        m.d.comb += [
            order.apart[Unit.LOAD, Unit.WEIGHTS].eq(on_chip),
            order.apart[Unit.STORE, Unit.WEIGHTS].eq(
                on_chip & ~(weights_banks & banks[Unit.STORE]).any()
            ),
        ]
        for unit in PORT_UNITS:
            queue = self.issue.queues[unit]
            busy: Bits = walk.busy & owner[unit] & ~finishing
            if unit is Unit.WEIGHTS:
                busy = busy | self.from_buffer.busy
            m.d.comb += self.active[unit].eq(self.started[unit] | busy)
            if unit is Unit.WEIGHTS:
                busy = busy | (on_chip & self._outstanding(m, on_chip))
            m.d.comb += [
                order.ready[unit].eq(
                    queue.valid & ~busy & waits_met(heads[unit], self.issue.counts, UNITS)
                ),
                order.able[unit].eq(able[unit]),
                self.started[unit].eq(order.granted[unit]),
                queue.pop.eq(order.granted[unit]),
            ]
        m.submodules.from_buffer = self.from_buffer
        m.d.comb += self.from_buffer.start.eq(self.started[Unit.WEIGHTS] & on_chip)
        held = Signal(self.shape.banks, reset_less=True)
        m.d.comb += [
            self.store_banks.eq(Mux(walk.busy & owner[Unit.STORE] & ~finishing, held, 0)),
            self.starting_load_banks.eq(Mux(self.started[Unit.LOAD], banks[Unit.LOAD], 0)),
        ]
        with m.If(self.started[Unit.STORE]):
            m.d.sync += held.eq(banks[Unit.STORE])
        self.target_last = walk.last
        self._take(m, walk, kind)

    @staticmethod
    def _on_chip(m: Module, word: Bits) -> Bits:
        """Whether the weights unit's next instruction needs no port: its weights are on chip."""
        loads = opcode(word) == LoadWeights.opcode
        return named(m, loads & field(word, LoadWeights, "from_buffer"), "weights_on_chip")

    def _outstanding(self, m: Module, on_chip: Bits) -> Bits:
        """Whether weights or parameters from device memory are still to come, however late."""
        number = Signal(COUNT_BITS, name="weights_number")
        until = Signal(COUNT_BITS, name="weights_until")
        starts = self.started[Unit.WEIGHTS]
        m.d.sync += number.eq(number + starts)
        with m.If(starts & ~on_chip):
            m.d.sync += until.eq(number + 1)
        return named(m, until > self.issue.counts[Unit.WEIGHTS], "weights_outstanding")

    def _take(self, m: Module, walk: Walk, kind: Signal) -> None:
        """Registers of the descriptor that starts."""
        store, load, weights = (
            self.issue.queues[unit].head for unit in (Unit.STORE, Unit.LOAD, Unit.WEIGHTS)
        )
        tag = Signal(tag_layout(self.shape), reset_less=True, name="descriptor")
        with m.If(self.started[Unit.LOAD]):
            m.d.sync += kind.eq(LOAD)
            self._take_buffer_transfer(m, walk, tag, load, Load)
        with m.If(self.started[Unit.STORE]):
            m.d.sync += kind.eq(STORE)
            self._take_buffer_transfer(m, walk, tag, store, Store)
        with m.If(self.started[Unit.WEIGHTS]):
            with m.If(opcode(weights) == LoadWeights.opcode):
                m.d.comb += [
                    self.slots.fill.eq(1),
                    self.slots.fill_slot.eq(field(weights, LoadWeights, "slot")),
                    self.slots.fill_rows.eq(field(weights, LoadWeights, "k")),
                ]
                with m.If(~field(weights, LoadWeights, "from_buffer")):
                    m.d.sync += kind.eq(WEIGHTS)
                    self._take_weights(m, walk, tag, weights)
            with m.Else():
                m.d.sync += kind.eq(PARAMETERS)
                self._take_parameters(m, walk, tag, weights)
        m.d.comb += [
            self.tag.eq(tag),
            self.tag.kind.eq(kind),
            self.tag.target.eq(walk["target"]),
            self.tag.last.eq(walk.last),
            self.tag.column.eq(self.columns.current),
        ]

    def _take_buffer_transfer(
        self, m: Module, walk: Walk, tag: Bits, word: Bits, kind: type[Load] | type[Store]
    ) -> None:
        m.d.sync += walk.start(
            triple(word, kind, "count"),
            {
                "device": (
                    field(word, kind, "device_address"),
                    triple(word, kind, "device_stride"),
                ),
                "target": (field(word, kind, "line"), triple(word, kind, "line_stride")),
            },
        )
        m.d.sync += [
            self.request_bytes.eq(field(word, kind, "element_bytes")),
            tag.extent.eq(field(word, kind, "element_bytes")),
            tag.lane.eq(field(word, kind, "lane")),
        ]

    def _take_weights(self, m: Module, walk: Walk, tag: Bits, word: Bits) -> None:
        def of(name: str) -> Bits:
            return field(word, LoadWeights, name)

        slot, rows = of("slot"), Const(0, self.shape.row_bits)
        counts: Counts = (of("k"), Const(1), Const(1))
        m.d.sync += walk.start(
            counts,
            {
                "device": (of("address"), (of("row_stride"), None, None)),
                "target": (Cat(rows, slot), (Const(1), None, None)),
            },
        )
        m.d.sync += [
            self.request_bytes.eq(of("n")),
            tag.extent.eq(of("n")),
            tag.signed.eq(of("signed")),
            tag.zero_point.eq(of("zero_point")),
            *self.columns.start(word),
        ]

    def _take_parameters(self, m: Module, walk: Walk, tag: Bits, word: Bits) -> None:
        def of(name: str) -> Bits:
            return field(word, LoadParams, name)

        records = self.shape.group_records
        bytes_asked = records * PARAMETER_BYTES
        last_group = (of("count") - 1)[: self.shape.extent_bits]
        counts: Counts = (last_group // records + 1, Const(1), Const(1))
        m.d.sync += walk.start(
            counts,
            {
                "device": (of("device_address"), (Const(bytes_asked), None, None)),
                "target": (
                    Cat(Const(0, self.shape.group_bits), of("slot")),
                    (Const(1), None, None),
                ),
            },
        )
        m.d.sync += [self.request_bytes.eq(bytes_asked), tag.extent.eq(of("count"))]
