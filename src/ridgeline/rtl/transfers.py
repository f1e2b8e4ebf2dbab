"""The users of the device-memory port: load, store and weights units around one descriptor engine.

The port serves one descriptor at a time, so one address walk, one burst counter and one return path
serve three units; each keeps its own queue and count.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib import data

from ridgeline.machine.instructions import Load, LoadParams, LoadWeights, Store, Unit
from ridgeline.machine.instructions.weights import PARAMETER_BYTES
from ridgeline.machine.instructions.word import COUNT_BITS
from ridgeline.rtl.arbiter import RequestOrder
from ridgeline.rtl.bursts import Bursts
from ridgeline.rtl.holds import BankUse, StoreUse, count_starts
from ridgeline.rtl.issue import Issue
from ridgeline.rtl.memories import UnifiedBuffer, WeightSlots
from ridgeline.rtl.registers import Bits, named
from ridgeline.rtl.shape import WEIGHT_BITS, Shape
from ridgeline.rtl.walk import Counts, Walk
from ridgeline.rtl.weight_rows import COLUMN_BITS, BufferWeights, Columns
from ridgeline.rtl.words import field, opcode, triple

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
            "turn": COLUMN_BITS + 1,
        }
    )


def turn_to(shape: Shape, column: Bits) -> Bits:
    """By how many bytes a row, behind as many zeros as the array is wide, is turned to its column.

    A column beyond the array makes this negative, and as unsigned it shifts all out.
    """
    return (shape.cols - column).as_unsigned()


class Transfers(Elaboratable):
    """Starts descriptors in order of request and issues their elements' requests.

    An element's request leaves in the last cycle that its bursts cost. `read_*` asks device memory;
    `store_*` goes to the store path. `started[unit]` for a cycle when a descriptor begins, `active`
    then and while it goes on. `others` read banks and `vector_writes` writes some, and go first;
    `store` is what it reads itself.
    """

    def __init__(
        self, shape: Shape, issue: Issue, buffer: UnifiedBuffer, slots: WeightSlots
    ) -> None:
        self.shape, self.issue, self.buffer, self.slots = shape, issue, buffer, slots
        self.started = {unit: Signal(name=f"{unit.name.lower()}_started") for unit in PORT_UNITS}
        self.active = {unit: Signal(name=f"{unit.name.lower()}_active") for unit in PORT_UNITS}
        self.others = (BankUse(shape, "array_others"), BankUse(shape, "vector_others"))
        self.vector_writes = BankUse(shape, "vector_writes_others")
        self.store = StoreUse(shape)
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
        self.request_bytes = Signal(self.shape.request_bits, reset_less=True)
        moves = self._move(m, walk, kind)
        m.d.comb += self.store.finishing.eq(moves & walk.last)
        self._start(m, walk, kind)
        return m

    def _move(self, m: Module, walk: Walk, kind: Signal) -> Bits:
        """Whether the request of the element at hand leaves now, its bursts paid for."""
        self.bursts = bursts = Bursts(m, self.shape)
        stores = kind == STORE
        m.d.comb += [
            self.address.eq(walk["device"]),
            self.read_bytes.eq(self.request_bytes),
            self.read_valid.eq(walk.busy & bursts.paid & ~stores),
            self.store_valid.eq(walk.busy & bursts.paid & stores),
        ]
        taken = Mux(stores, self.store_ready, self.read_ready)
        moves = named(m, walk.busy & bursts.paid & taken, "moves")
        with m.If(~bursts.paid):
            m.d.sync += bursts.pay()
        with m.If(moves):
            m.d.sync += bursts.step(m, walk["device"], walk.following("device"), self.request_bytes)
            walk.step(m)
            self.columns.step(m, self.request_bytes)
        return moves

    def _start(self, m: Module, walk: Walk, kind: Signal) -> None:
        """Grants the port, and in the same cycle what needs none.

        Late in the cycle comes only whether the descriptor at hand is finishing. What depends on it
        is decided for the case that it is, and waits for it last; registers are loaded whenever
        they are free, whether or not a descriptor starts.
        """
        free = named(m, ~walk.busy | self.store.finishing, "port_is_free")
        owner = {
            Unit.LOAD: kind == LOAD,
            Unit.STORE: kind == STORE,
            Unit.WEIGHTS: kind[1],
        }
        heads = {unit: self.issue.queues[unit].head for unit in PORT_UNITS}
        banks = {
            Unit.LOAD: field(heads[Unit.LOAD], Load, "banks")[: self.shape.banks],
            Unit.STORE: field(heads[Unit.STORE], Store, "banks")[: self.shape.banks],
            Unit.WEIGHTS: field(heads[Unit.WEIGHTS], LoadWeights, "banks")[: self.shape.banks],
        }
        on_chip = self._on_chip(m, heads[Unit.WEIGHTS])
        m.submodules.order = order = RequestOrder(PORT_UNITS)
        m.d.comb += [
            order.apart[Unit.LOAD, Unit.WEIGHTS].eq(on_chip),
            order.apart[Unit.STORE, Unit.WEIGHTS].eq(
                on_chip & ~(banks[Unit.WEIGHTS] & banks[Unit.STORE]).any()
            ),
        ]
        rows_come = named(
            m, self.from_buffer.busy | (on_chip & self._outstanding(m, on_chip)), "rows_come"
        )
        early, late = (self._blocked(m, banks, on_chip, early=e) for e in (True, False))
        for unit in PORT_UNITS:
            queue = self.issue.queues[unit]
            busy: Bits = walk.busy & owner[unit] & ~self.store.finishing
            could = queue.ready & ~early[unit]
            needs_port: Bits = Const(1)
            if unit is Unit.WEIGHTS:
                busy = busy | self.from_buffer.busy
            m.d.comb += self.active[unit].eq(self.started[unit] | busy)
            if unit is Unit.WEIGHTS:
                busy, could, needs_port = busy | rows_come, could & ~rows_come, ~on_chip
            m.d.comb += [
                order.ready[unit].eq(queue.ready & ~busy),
                order.able[unit].eq((free | ~needs_port) & ~late[unit]),
                order.could[unit].eq(could),
                self.started[unit].eq(order.granted[unit]),
                queue.pop.eq(order.granted[unit]),
            ]
        m.submodules.from_buffer = self.from_buffer
        m.d.comb += self.from_buffer.start.eq(self.started[Unit.WEIGHTS] & on_chip)
        held = Signal(self.shape.banks, reset_less=True)
        m.d.comb += self.store.banks.eq(Mux(walk.busy & owner[Unit.STORE], held, 0))
        with m.If(free):
            m.d.sync += held.eq(banks[Unit.STORE])
        self._take(m, walk, kind, free, order.chosen)
        begins = [self.started[unit] for unit in (Unit.LOAD, Unit.STORE)]
        with m.If(Cat(*begins, self.started[Unit.WEIGHTS] & ~on_chip).any()):
            m.d.sync += walk.begin()

    def _blocked(
        self, m: Module, banks: dict[Unit, Bits], on_chip: Bits, *, early: bool
    ) -> dict[Unit, Bits]:
        """Which unit's next instruction meets a bank that another uses; `early`: what holds if the
        descriptor at hand is finishing.
        """

        def met(mine: Bits) -> Bits:
            found = (mine & self.from_buffer.held_banks).any()
            for other in self.others:
                found = found | other.meets(mine, early=early)
            return found

        rows = met(banks[Unit.WEIGHTS])
        if not early:
            rows = rows | self.store.meets(banks[Unit.WEIGHTS])
        found = {
            Unit.LOAD: self.vector_writes.meets(banks[Unit.LOAD], early=early),
            Unit.STORE: met(banks[Unit.STORE]),
            Unit.WEIGHTS: on_chip & rows,
        }
        when = "early" if early else "late"
        return {
            unit: named(m, value, f"{unit.name.lower()}_blocked_{when}")
            for unit, value in found.items()
        }

    @staticmethod
    def _on_chip(m: Module, word: Bits) -> Bits:
        """Whether the weights unit's next instruction needs no port: its weights are on chip."""
        loads = opcode(word) == LoadWeights.opcode
        return named(m, loads & field(word, LoadWeights, "from_buffer"), "weights_on_chip")

    def _outstanding(self, m: Module, on_chip: Bits) -> Bits:
        """Whether weights or parameters from device memory are still to come, however late."""
        starts = self.started[Unit.WEIGHTS]
        number = count_starts(m, starts, "weights")
        until = Signal(COUNT_BITS, name="weights_until")
        still = Signal(name="weights_outstanding")
        awaited = starts & ~on_chip
        with m.If(awaited):
            m.d.sync += until.eq(number)
        m.d.sync += still.eq(awaited | (until > self.issue.following[Unit.WEIGHTS]))
        return still

    def _take(
        self, m: Module, walk: Walk, kind: Signal, free: Bits, chosen: dict[Unit, Signal]
    ) -> None:
        """Registers of the descriptor that may start."""
        store, load, weights = (
            self.issue.queues[unit].head for unit in (Unit.STORE, Unit.LOAD, Unit.WEIGHTS)
        )
        tag = Signal(tag_layout(self.shape), reset_less=True, name="descriptor")
        loads_weights = named(m, opcode(weights) == LoadWeights.opcode, "loads_weights")
        m.d.comb += [
            self.slots.fill.eq(self.started[Unit.WEIGHTS] & loads_weights),
            self.slots.fill_slot.eq(field(weights, LoadWeights, "slot")),
            self.slots.fill_rows.eq(field(weights, LoadWeights, "k")),
        ]
        with m.If(free):
            with m.If(chosen[Unit.LOAD]):
                m.d.sync += kind.eq(LOAD)
                self._take_buffer_transfer(m, walk, tag, load, Load)
            with m.Elif(chosen[Unit.STORE]):
                m.d.sync += kind.eq(STORE)
                self._take_buffer_transfer(m, walk, tag, store, Store)
            with m.Elif(loads_weights):
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
            self.tag.turn.eq(turn_to(self.shape, self.columns.current)),
        ]

    def _take_buffer_transfer(
        self, m: Module, walk: Walk, tag: Bits, word: Bits, kind: type[Load] | type[Store]
    ) -> None:
        m.d.sync += walk.load(
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
            *self.bursts.start(
                m,
                kind.__name__.lower(),
                field(word, kind, "device_address"),
                field(word, kind, "element_bytes"),
            ),
            tag.extent.eq(field(word, kind, "element_bytes")),
            tag.lane.eq(field(word, kind, "lane")),
        ]

    def _take_weights(self, m: Module, walk: Walk, tag: Bits, word: Bits) -> None:
        def of(name: str) -> Bits:
            return field(word, LoadWeights, name)

        slot, rows = of("slot"), Const(0, self.shape.row_bits)
        counts: Counts = (of("k"), Const(1), Const(1))
        m.d.sync += walk.load(
            counts,
            {
                "device": (of("address"), (of("row_stride"), None, None)),
                "target": (Cat(rows, slot), (Const(1), None, None)),
            },
        )
        m.d.sync += [
            self.request_bytes.eq(of("n")),
            *self.bursts.start(m, "weights", of("address"), of("n")),
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
        m.d.sync += walk.load(
            counts,
            {
                "device": (of("device_address"), (Const(bytes_asked), None, None)),
                "target": (
                    Cat(Const(0, self.shape.group_bits), of("slot")),
                    (Const(1), None, None),
                ),
            },
        )
        m.d.sync += [
            self.request_bytes.eq(bytes_asked),
            *self.bursts.start(m, "params", of("device_address"), Const(bytes_asked)),
            tag.extent.eq(of("count")),
        ]
