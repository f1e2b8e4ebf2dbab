"""The whole pipeline as hardware: stages that feed each other, a stream in and a stream out."""

from __future__ import annotations

from amaranth.hdl import Const, Elaboratable, Module, Signal
from amaranth.lib import memory

from ridgeline.rtl.pipeline.layers import INPUT
from ridgeline.rtl.pipeline.plan import Plan
from ridgeline.rtl.pipeline.stage import StageHardware
from ridgeline.rtl.registers import Bits, named
from ridgeline.rtl.verilog import Port

MEANINGS: dict[str, tuple[str, str]] = {
    "clk": ("input", "clock"),
    "rst": ("input", "empties the pipeline"),
    "in_valid": ("input", "a pixel is there"),
    "in_ready": ("output", "it is taken in this cycle"),
    "in_pixel": ("input", "its channels, the first one lowest; pixels in raster order"),
    "out_valid": ("output", "a pixel of the result is there"),
    "out_ready": ("input", "it is taken in this cycle"),
    "out_pixel": ("output", "its channels, the first one lowest"),
}
"""Direction and meaning of each pin."""


def count_bits(plan: Plan) -> int:
    """Bits of the counts of pixels, so wide that differences of two are never mistaken."""
    pixels = [image.pixels for stage in plan.stages for image in stage.layer.given]
    pixels += [stage.layer.made.pixels for stage in plan.stages]
    depths = [depth for stage in plan.stages for depth in stage.depths] + [plan.output_depth]
    return (2 * (max(pixels) + max(depths))).bit_length()


class Pipeline(Elaboratable):
    """`pins` as in MEANINGS, all synchronous to clk."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.in_valid = Signal()
        self.in_ready = Signal()
        self.in_pixel = Signal(plan.stages[0].layer.given[0].pixel_bits)
        self.out_valid = Signal()
        self.out_ready = Signal()
        self.out_pixel = Signal(plan.stages[-1].layer.made.pixel_bits)

    @property
    def pins(self) -> list[Signal]:
        return [
            self.in_valid, self.in_ready, self.in_pixel,
            self.out_valid, self.out_ready, self.out_pixel,
        ]  # fmt: skip

    def ports(self) -> list[Port]:
        """The pins of the Verilog module, clock and reset first."""
        bits = {"clk": 1, "rst": 1, **{str(pin.name): len(pin) for pin in self.pins}}
        return [Port(name, MEANINGS[name][0], bits[name], MEANINGS[name][1]) for name in bits]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        counts = count_bits(self.plan)
        stages = [
            StageHardware(stage, number, counts) for number, stage in enumerate(self.plan.stages)
        ]
        for number, stage in enumerate(stages):
            m.submodules[f"stage_{number}"] = stage
        taken = Signal(counts)
        accepts = named(m, self.in_valid & self.in_ready, "accepts")
        m.d.sync += taken.eq(taken + accepts)
        m.d.comb += self.in_ready.eq(self._connect(m, stages, INPUT, taken, accepts, self.in_pixel))
        for number, stage in enumerate(stages):
            room = self._connect(m, stages, number, stage.claimed, stage.valid, stage.pixel)
            if number == len(stages) - 1:
                room = room & self._end(m, stage, counts)
            m.d.comb += stage.room.eq(room)
        return m

    def _connect(
        self,
        m: Module,
        stages: list[StageHardware],
        source: int,
        claimed: Bits,
        valid: Bits,
        pixel: Bits,
    ) -> Bits:
        """A source's pixels to all that read it; whether every one of them has room."""
        room = Signal(name=f"has_room_{source + 1}")
        everywhere: Bits = Const(1, 1)
        for number, place in self.plan.readers(source):
            reader = stages[number]
            m.d.comb += [reader.arrives[place].eq(valid), reader.arriving[place].eq(pixel)]
            everywhere = everywhere & reader.buffers[place].has_room(claimed)
        m.d.comb += room.eq(everywhere)
        return room

    def _end(self, m: Module, last: StageHardware, counts: int) -> Bits:
        """The last pixels wait until they are taken; whether there is room for another."""
        cells = memory.Memory(shape=len(self.out_pixel), depth=self.plan.output_depth, init=[])
        m.submodules.end = cells
        writing, reading = cells.write_port(), cells.read_port(domain="comb")
        written, given = Signal(counts), Signal(counts)
        gives = named(m, self.out_valid & self.out_ready, "gives")
        m.d.sync += [written.eq(written + last.valid), given.eq(given + gives)]
        m.d.comb += [
            writing.addr.eq(written),
            writing.data.eq(last.pixel),
            writing.en.eq(last.valid),
            reading.addr.eq(given),
            self.out_valid.eq(written != given),
            self.out_pixel.eq(reading.data),
        ]
        return named(m, (last.claimed - given)[:counts], "at_the_end") < self.plan.output_depth
