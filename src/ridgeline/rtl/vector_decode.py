"""What the vector unit's instructions have in common, taken from the word at the queue's head."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Const, Module, Mux

from ridgeline.machine.instructions import (
    Elementwise,
    Instruction,
    Lookup,
    Requant,
    WindowReduce,
)
from ridgeline.machine.instructions.array import INT8
from ridgeline.machine.instructions.lookup import table_lines
from ridgeline.machine.instructions.vector import ADD, DEPTHWISE, MAX, MUL, RESCALE, SUM_AVERAGE
from ridgeline.machine.latencies import LATENCIES
from ridgeline.rtl.registers import Bits, choose, named
from ridgeline.rtl.shape import Shape
from ridgeline.rtl.walk import Place
from ridgeline.rtl.words import field, opcode, triple

ONE = 0x3F800000
"""1.0 as a float32."""

COUNT_BITS = (8, 8, 16, 16, 16)
"""Of taps along x (or operands), taps along y, vectors along x, y and images."""

Kind = type[Instruction]


@dataclass(frozen=True, slots=True)
class Decoded:
    """An instruction of the vector unit as its hardware sees it.

    `counts` and `places` for the walk; `preload_*` for the lines read before it: how many along x
    and y, the first one. `constants`: what holds while it issues, by name.
    """

    counts: tuple[Bits, ...]
    places: dict[str, Place]
    preloads: Bits
    preload_counts: tuple[Bits, Bits]
    preload_line: Bits
    read_banks: Bits
    latency: Bits
    constants: dict[str, Bits]


class Decoder:
    """Decodes `head`, the word of an instruction of any covered kind."""

    def __init__(self, m: Module, shape: Shape, head: Bits) -> None:
        self.m, self.shape, self.head = m, shape, head
        self.kinds: dict[Kind, Bits] = {
            kind: named(m, opcode(head) == kind.opcode, f"is_{kind.__name__.lower()}")
            for kind in (Requant, Elementwise, WindowReduce, Lookup)
        }
        element, window = self.kinds[Elementwise], self.kinds[WindowReduce]
        self.element = {
            code: named(
                m, element & (field(head, Elementwise, "operation") == code), f"element_{code}"
            )
            for code in (ADD, MUL, RESCALE)
        }
        self.window = {
            code: named(
                m, window & (field(head, WindowReduce, "operation") == code), f"window_{code}"
            )
            for code in (MAX, SUM_AVERAGE, DEPTHWISE)
        }
        self.pairs = named(m, self.element[ADD] | self.element[MUL], "pairs")

    def of(self, names: dict[Kind, str], otherwise: Bits = 0) -> Bits:
        """The field that has this name in the instruction's kind."""
        options = [(self.kinds[kind], field(self.head, kind, name)) for kind, name in names.items()]
        value = choose(options[:-1], options[-1][1]) if len(names) == len(self.kinds) else None
        return choose(options, otherwise) if value is None else value

    def decoded(self) -> Decoded:
        """All of it."""
        window, lookup = self.kinds[WindowReduce], self.kinds[Lookup]
        weighs = self.window[DEPTHWISE]
        taps = tuple(field(self.head, WindowReduce, f"taps_{i}") for i in range(2))
        lines = table_lines(self.shape.machine)
        return Decoded(
            counts=self._counts(taps),
            places=self._places(taps),
            preloads=weighs | lookup,
            preload_counts=(Mux(lookup, lines, taps[0]), Mux(lookup, 1, taps[1])),
            preload_line=self.of(
                {Lookup: "table_line"}, field(self.head, WindowReduce, "weight_line")
            ),
            read_banks=self.of(dict.fromkeys((Elementwise, WindowReduce, Lookup), "in_banks")),
            latency=choose(
                [
                    (self.kinds[Requant], Const(LATENCIES.vector)),
                    (self.pairs, Const(LATENCIES.vector_real)),
                ],
                Const(LATENCIES.vector_from_buffer),
            ),
            constants=self._constants(window, weighs),
        )

    def _counts(self, taps: tuple[Bits, ...]) -> tuple[Bits, ...]:
        window = self.kinds[WindowReduce]
        outer = (self.of(dict.fromkeys(self.kinds, f"count_{i}")) for i in range(3))
        first = Mux(window, taps[0], Mux(self.pairs, 2, 1))
        return (first, Mux(window, taps[1], 1), *outer)

    def _places(self, taps: tuple[Bits, ...]) -> dict[str, Place]:
        def tap(name: str, level: int) -> Bits:
            return self.of({WindowReduce: f"{name}_{level}"})

        lines = [
            self.of(
                {WindowReduce: f"stride_{i}", Elementwise: f"a_stride_{i}", Lookup: f"stride_{i}"}
            )
            for i in range(3)
        ]
        window = {
            name: self.of({WindowReduce: name})
            for name in ("x_origin", "x_step", "y_origin", "y_step")
        }
        return {
            "line": (
                self.of({WindowReduce: "line", Elementwise: "a_line", Lookup: "line"}),
                (tap("tap_stride", 0), tap("tap_stride", 1), *lines),
            ),
            "other": (
                field(self.head, Elementwise, "b_line"),
                (None, None, *triple(self.head, Elementwise, "b_stride")),
            ),
            "x": (window["x_origin"], (tap("tap_step", 0), None, window["x_step"], None, None)),
            "y": (window["y_origin"], (None, tap("tap_step", 1), None, window["y_step"], None)),
            "tap": (Const(0), (Const(1), taps[0], None, None, None)),
            "out": (
                field(self.head, Requant, "out_line"),
                (None, None, *triple(self.head, Requant, "out_stride")),
            ),
        }  # fmt: skip

    def _constants(self, window: Bits, weighs: Bits) -> dict[str, Bits]:
        greatest = self.window[MAX]
        code = self.of(dict.fromkeys((Elementwise, WindowReduce, Lookup), "format"))
        zero = self.of({WindowReduce: "zero_point", Elementwise: "zero_a"})
        plain = greatest | self.kinds[Lookup]
        scale = self.of({WindowReduce: "scale_a", Elementwise: "scale_a"})
        uses_parameters = self.kinds[Requant] | weighs
        return {
            **{
                name: field(self.head, Requant, name)
                for name in ("low", "high", "channels", "out_lane")
            },
            "zero_point": Mux(
                plain | self.pairs, 0, field(self.head, Requant, "out_zero_point")
            ).as_signed(),
            "requants": self.kinds[Requant],
            "pairs": self.pairs,
            "multiplies": self.element[MUL],
            "greatest": greatest,
            "weighs": weighs,
            "looks_up": self.kinds[Lookup],
            "signed": code == INT8,
            "table_signed": field(self.head, Requant, "out_format") == INT8,
            "lane": self.of(dict.fromkeys((Elementwise, WindowReduce, Lookup), "lane")),
            "zero_a": Mux(plain | self.element[ADD], 0, zero).as_signed(),
            "zero_b": Mux(
                self.element[MUL], field(self.head, Elementwise, "zero_b"), 0
            ).as_signed(),
            "weights_signed": field(self.head, WindowReduce, "weight_signed"),
            "weights_zero": field(self.head, WindowReduce, "weight_zero_point"),
            "x_limit": Mux(window, field(self.head, WindowReduce, "x_limit"), 1),
            "y_limit": Mux(window, field(self.head, WindowReduce, "y_limit"), 1),
            "slot": self.of({Requant: "slot"}, field(self.head, WindowReduce, "slot")),
            "uses_parameters": uses_parameters,
            "scale_a": Mux(plain, ONE, scale),
            "scale_b": field(self.head, Elementwise, "scale_b"),
            "offset": field(self.head, Elementwise, "offset"),
        }
