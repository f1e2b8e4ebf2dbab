"""A stage as hardware: its buffers, its steps through windows, and the pixels that it makes."""

from __future__ import annotations

from amaranth.hdl import Array, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib import memory

from ridgeline.rtl.pipeline.adding import Adding
from ridgeline.rtl.pipeline.layers import ADD, MATRIX
from ridgeline.rtl.pipeline.plan import Stage
from ridgeline.rtl.pipeline.reducing import Reducing, StepFlags
from ridgeline.rtl.pipeline.timing import PAIR_GAP
from ridgeline.rtl.registers import Bits, named


class Buffer:
    """The last pixels of a source: `written` and `freed` count pixels from the beginning."""

    def __init__(self, name: str, depth: int, pixel_bits: int, count_bits: int) -> None:
        self.depth = depth
        self.written = Signal(count_bits, name=f"{name}_written")
        self.freed = Signal(count_bits, name=f"{name}_freed")
        self.place = Signal(range(depth), name=f"{name}_address")
        self.data = Signal(pixel_bits, name=f"{name}_data")
        self.name = name

    def build(self, m: Module, valid: Bits, pixel: Bits) -> None:
        """Its memory, written with `pixel` where `valid`; `data` is `place`'s a cycle later."""
        cells = memory.Memory(shape=len(self.data), depth=self.depth, init=[])
        m.submodules[self.name] = cells
        writing, reading = cells.write_port(), cells.read_port()
        m.d.comb += [
            writing.addr.eq(self.written),
            writing.data.eq(pixel),
            writing.en.eq(valid),
            reading.addr.eq(self.place),
            reading.en.eq(1),
            self.data.eq(reading.data),
        ]
        m.d.sync += self.written.eq(self.written + valid)

    def has_room(self, claimed: Bits) -> Bits:
        """Whether pixel number `claimed` may come."""
        count = len(self.freed)
        return (claimed - self.freed)[:count] < self.depth


class StageHardware(Elaboratable):
    """`valid` with `pixel`: one that is made. `room`: that every reader has it for the next one,
    given `claimed`, which counts those that were begun. `arrives` with `arriving`, of each source.
    """

    def __init__(self, stage: Stage, number: int, count_bits: int) -> None:
        self.stage, self.number, self.count_bits = stage, number, count_bits
        layer = stage.layer
        self.buffers = [
            Buffer(f"stage_{number}_source_{i}", depth, image.pixel_bits, count_bits)
            for i, (depth, image) in enumerate(zip(stage.depths, layer.given, strict=True))
        ]
        self.arrives = [Signal(name=f"arrives_{i}") for i in range(len(self.buffers))]
        self.arriving = [
            Signal(image.pixel_bits, name=f"arriving_{i}") for i, image in enumerate(layer.given)
        ]
        self.room = Signal()
        self.claimed = Signal(count_bits)
        self.valid = Signal()
        self.pixel = Signal(layer.made.pixel_bits)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for buffer, valid, pixel in zip(self.buffers, self.arrives, self.arriving, strict=True):
            buffer.build(m, valid, pixel)
        steps = Steps(self.stage, self.buffers, self.count_bits)
        m.submodules.steps = steps
        m.d.comb += steps.room.eq(self.room)
        m.d.sync += self.claimed.eq(self.claimed + steps.begins)
        for buffer, place in zip(self.buffers, steps.places, strict=True):
            m.d.comb += buffer.place.eq(place)
        kind = Adding if self.stage.layer.kind == ADD else Reducing
        m.submodules.work = work = kind(self.stage)
        for signal, buffer in zip(work.data, self.buffers, strict=True):
            m.d.comb += signal.eq(buffer.data)
        m.d.comb += [
            work.flags.eq(steps.flags),
            self.valid.eq(work.valid),
            self.pixel.eq(work.pixel),
        ]
        return m


class Steps(Elaboratable):
    """Which pixel is read in each cycle, and when a pixel may be begun.

    Counts walk through parts of the output's channels, then taps, then parts of the operand's
    channels, the last fastest; then the window moves.
    """

    def __init__(self, stage: Stage, buffers: list[Buffer], count_bits: int) -> None:
        self.stage, self.buffers, self.count_bits = stage, buffers, count_bits
        self.room = Signal()
        self.begins = Signal()
        self.places = [Signal(range(b.depth), name=f"place_{i}") for i, b in enumerate(buffers)]
        self.flags = Signal(StepFlags(stage))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layer = self.stage.layer
        image, window, made = layer.given[0], layer.window, layer.made
        busy = Signal()
        base = [Signal(self.count_bits, name=f"base_{i}") for i in range(len(self.buffers))]
        row, column = Signal(range(made.height)), Signal(range(made.width))
        waits = self._waits(m, base, row, column)
        begins = named(m, ~busy & waits, "begins_now")
        issues = named(m, busy | begins, "issues")
        inner, tap_x, tap_y, group, last = self._walk(m, issues)
        ends = named(m, issues & last, "pixel_ends")
        m.d.sync += busy.eq(issues & ~last)
        m.d.comb += self.begins.eq(begins)
        self._move(m, ends, base, row, column)
        # Where the tap lies in the image: beyond its edges nothing is added.
        y = named(
            m,
            (row * window.stride[0] + tap_y * window.dilation[0] - window.pad[0]).as_signed(),
            "tap_row",
        )
        x = named(
            m,
            (column * window.stride[1] + tap_x * window.dilation[1] - window.pad[1]).as_signed(),
            "tap_column",
        )
        inside = (y >= 0) & (y < image.height) & (x >= 0) & (x < image.width)
        offset = named(m, (y * image.width + x).as_signed(), "tap_offset")
        for place, start in zip(self.places, base, strict=True):
            m.d.comb += place.eq((start + offset)[: len(place)])
        first = (tap_x == 0) & (tap_y == 0) & (inner == 0)
        m.d.comb += [
            self.flags.issues.eq(issues),
            self.flags.first.eq(first),
            self.flags.last.eq(self._group_ends(inner, tap_x, tap_y)),
            self.flags.inside.eq(inside),
            self.flags.inner.eq(inner),
            self.flags.group.eq(group),
            self.flags.pixel_ends.eq(last),
        ]
        return m

    def _inner_count(self) -> int:
        layer, fold = self.stage.layer, self.stage.fold
        if layer.kind == ADD:
            return 2
        return layer.given[0].channels // fold.inputs if layer.kind == MATRIX else 1

    def _group_ends(self, inner: Bits, tap_x: Bits, tap_y: Bits) -> Bits:
        kernel = self.stage.layer.window.kernel
        return (
            (inner == self._inner_count() - 1) & (tap_x == kernel[1] - 1) & (tap_y == kernel[0] - 1)
        )

    def _walk(self, m: Module, issues: Bits) -> tuple[Bits, Bits, Bits, Bits, Bits]:
        """Counters of the steps of a pixel, and whether this is its last."""
        kernel = self.stage.layer.window.kernel
        counts = (self._inner_count(), kernel[1], kernel[0], self.stage.groups)
        counters: list[Bits] = []
        carry = issues
        done: Bits = Const(1, 1)
        for name, count in zip(("inner", "tap_x", "tap_y", "group"), counts, strict=True):
            counter = Signal(range(max(count, 2)), name=name)
            ends = named(m, counter == count - 1, f"{name}_ends")
            with m.If(carry):
                m.d.sync += counter.eq(Mux(ends, 0, counter + 1))
            carry = named(m, carry & ends, f"{name}_carries")
            done = named(m, done & ends, f"{name}_done")
            counters.append(counter)
        return counters[0], counters[1], counters[2], counters[3], done

    def _waits(self, m: Module, base: list[Signal], row: Bits, column: Bits) -> Bits:
        """Whether all that the next pixel needs is there, and room for it."""
        rows = Array(Const(n, self.count_bits) for n in self.stage.needed_rows())
        columns = Array(Const(n, self.count_bits) for n in self.stage.needed_columns())
        needed = named(m, (rows[row] + columns[column])[: self.count_bits], "needed")
        ready = self.room
        for number, (buffer, start) in enumerate(zip(self.buffers, base, strict=True)):
            there = named(m, (buffer.written - start)[: self.count_bits], f"there_{number}")
            ready = ready & (there > needed)
        if self.stage.layer.kind == ADD:
            ready = ready & self._passes_free(m)
        return named(m, ready, "ready")

    def _passes_free(self, m: Module) -> Bits:
        """Whether an addition's second passes would not meet first passes."""
        since = Signal(range(PAIR_GAP + 1), init=PAIR_GAP)
        m.d.sync += since.eq(Mux(self.flags.issues, 1, Mux(since == PAIR_GAP, PAIR_GAP, since + 1)))
        return since[0] | (since == PAIR_GAP)

    def _move(self, m: Module, ends: Bits, base: list[Signal], row: Bits, column: Bits) -> None:
        """To the next window at the end of a pixel; at the end of a row pixels become free."""
        layer = self.stage.layer
        made = layer.made
        row_ends = named(m, column == made.width - 1, "row_ends")
        image_ends = named(m, row_ends & (row == made.height - 1), "image_ends")
        freed = Array(Const(n, self.count_bits) for n in self.stage.freed_rows())
        frees = named(m, freed[row], "frees")
        with m.If(ends):
            m.d.sync += [
                column.eq(Mux(row_ends, 0, column + 1)),
                row.eq(Mux(image_ends, 0, row + row_ends)),
            ]
            with m.If(row_ends):
                for buffer, start in zip(self.buffers, base, strict=True):
                    m.d.sync += buffer.freed.eq(start + frees)
            with m.If(image_ends):
                for start, given in zip(base, layer.given, strict=True):
                    m.d.sync += start.eq(start + given.pixels)
