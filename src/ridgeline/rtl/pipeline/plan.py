"""How far each stage is unfolded, how deep its buffers are, and what that takes."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.rtl import elementwise, requantize
from ridgeline.rtl.pipeline.layers import ADD, DEPTHWISE, MATRIX, MAX, Layer

PARAMETER_BITS = 64
"""Of a bias and a scale."""


@dataclass(frozen=True, slots=True)
class Fold:
    """`outputs`: channels made together, `inputs`: channels of a matrix's operand read together."""

    outputs: int
    inputs: int = 1

    @property
    def multipliers(self) -> int:
        return self.outputs * self.inputs


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A layer and its fold. `depths`: pixels that each source's buffer holds, powers of two."""

    layer: Layer
    fold: Fold
    depths: tuple[int, ...]

    @property
    def groups(self) -> int:
        """Parts in which the channels of a pixel are made."""
        return self.layer.made.channels // self.fold.outputs

    @property
    def group_steps(self) -> int:
        """Cycles for each part."""
        if self.layer.kind == ADD:
            return 2
        inner = self.layer.given[0].channels // self.fold.inputs
        return self.layer.window.taps * (inner if self.layer.kind == MATRIX else 1)

    @property
    def pixel_steps(self) -> int:
        """Cycles for each pixel that it makes."""
        return self.groups * self.group_steps

    @property
    def image_cycles(self) -> int:
        """Cycles for each image when it never waits."""
        return self.pixel_steps * self.layer.made.pixels

    @property
    def lanes(self) -> int:
        """Requantisation lanes, each for one sum a cycle: as few as keep up with the sums."""
        if self.layer.kind == ADD:
            return self.fold.outputs
        outputs = self.fold.outputs
        return next(
            n for n in range(1, outputs + 1)
            if outputs % n == 0 and outputs // n <= self.group_steps
        )  # fmt: skip

    @property
    def beats(self) -> int:
        """Cycles in which the sums of a part leave through the lanes."""
        return self.fold.outputs // self.lanes

    @property
    def tree_stages(self) -> int:
        """Registers of the adder tree, one for every factor of four."""
        stages, reached = 1, 4
        while reached < self.fold.inputs:
            stages, reached = stages + 1, reached * 4
        return stages

    @property
    def delay_cycles(self) -> int:
        """From a pixel's last step to the cycle in which the next stage may begin with it."""
        if self.layer.kind == ADD:
            real = elementwise.STAGES - requantize.REAL_STAGE
            return FETCH_CYCLES + real + requantize.STAGES + 2
        sums = FETCH_CYCLES + 1 + self.tree_stages + 1
        return sums + self.beats + 1 + requantize.STAGES + 2

    @property
    def multipliers(self) -> int:
        """Of operands and weights."""
        return self.fold.multipliers if self.layer.kind in (MATRIX, DEPTHWISE) else 0

    @property
    def weight_memory_bits(self) -> int:
        return self.layer.weights.size * self.layer.weight_bits

    @property
    def memory_bits(self) -> int:
        """Weights, parameters and the buffers of pixels."""
        buffers = sum(
            depth * image.pixel_bits
            for depth, image in zip(self.depths, self.layer.given, strict=True)
        )
        return self.weight_memory_bits + PARAMETER_BITS * self.layer.scale.size + buffers

    def needed(self, pixel: int) -> int:
        """How many pixels of an image must be there before output pixel `pixel` is begun."""
        y, x = divmod(pixel, self.layer.made.width)
        return self.needed_rows()[y] + self.needed_columns()[x] + 1

    def needed_rows(self) -> list[int]:
        """For each row of outputs, the place of the first pixel of the last row that it reads.

        The last one waits for the end of the image, so that the next begins at its beginning.
        """
        image, window = self.layer.given[0], self.layer.window
        found: list[int] = []
        for y in range(self.layer.made.height):
            last = y * window.stride[0] - window.pad[0] + window.span[0] - 1
            found.append(min(max(last, 0), image.height - 1) * image.width)
        found[-1] = image.pixels - 1 - self.needed_columns()[-1]
        return found

    def needed_columns(self) -> list[int]:
        """For each column of outputs, the last column that it reads."""
        image, window = self.layer.given[0], self.layer.window
        lasts = [
            x * window.stride[1] - window.pad[1] + window.span[1] - 1
            for x in range(self.layer.made.width)
        ]
        return [min(max(last, 0), image.width - 1) for last in lasts]

    def freed_rows(self) -> list[int]:
        """For each row of outputs, how many pixels of an image no later row reads."""
        image, window = self.layer.given[0], self.layer.window
        rows = range(1, self.layer.made.height)
        firsts = [max(y * window.stride[0] - window.pad[0], 0) for y in rows]
        # Rows that a stride leaps over are freed once they have come: a count of freed pixels that
        # is ahead of those claimed would look like a full buffer.
        come = [self.needed(y * self.layer.made.width - 1) for y in rows]
        freed = [min(f * image.width, c) for f, c in zip(firsts, come, strict=True)]
        return [*freed, image.pixels]


FETCH_CYCLES = 2
"""From a step's addresses to its operands: a memory's cycle, then the choice among channels."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A pipeline before it is hardware: its stages, in the graph's order."""

    name: str
    stages: tuple[Stage, ...]
    output_depth: int = 64
    """Pixels that have room at the end until they are taken, those that are being made included."""

    @property
    def multipliers(self) -> int:
        return sum(stage.multipliers for stage in self.stages)

    @property
    def memory_bits(self) -> int:
        last = self.stages[-1].layer.made
        return sum(stage.memory_bits for stage in self.stages) + self.output_depth * last.pixel_bits

    def readers(self, source: int) -> list[tuple[int, int]]:
        """(stage, which of its sources) of all that read a stage's, or the INPUT's, pixels."""
        return [
            (number, place)
            for number, stage in enumerate(self.stages)
            for place, one in enumerate(stage.layer.sources)
            if one == source
        ]


def divisors(count: int) -> list[int]:
    return [n for n in range(1, count + 1) if count % n == 0]


def folds(layer: Layer) -> list[tuple[int, Fold]]:
    """Every fold of a layer with the cycles for an image: only those that no other beats in both
    cycles and multipliers, the slowest first.
    """
    made, given = layer.made, layer.given[0]
    inner = divisors(given.channels) if layer.kind == MATRIX else [1]
    found: list[tuple[int, int, int, Fold]] = []
    for outputs in divisors(made.channels):
        for inputs in inner:
            fold = Fold(outputs, inputs)
            stage = Stage(layer, fold, (1,) * len(layer.given))
            found.append((stage.image_cycles, _effort(stage), stage.lanes, fold))
    found.sort(key=lambda one: (one[0], one[1], one[2]))
    best: list[tuple[int, Fold]] = []
    least = 0
    for cycles, effort, _, fold in found:
        if not best or effort < least:
            best.append((cycles, fold))
            least = effort
    return best[::-1]


def _effort(stage: Stage) -> int:
    """What a fold costs, in the multipliers of a DSP block: a lane takes about four."""
    per_lane = 8 if stage.layer.kind == ADD else 0 if stage.layer.kind == MAX else 4
    return max(stage.multipliers, stage.fold.outputs) + per_lane * stage.lanes


def power_of_two(count: int) -> int:
    """The least power of two that is at least `count`."""
    return 1 << max(count - 1, 0).bit_length()


def buffer_depth(layer: Layer) -> int:
    """Pixels of a buffer that holds a window's rows while the rows of the next come in."""
    image, window = layer.given[0], layer.window
    if layer.kind == ADD:
        return 2
    rows = min(window.span[0] + window.stride[0], 2 * image.height)
    return power_of_two(max(rows * image.width, 2))
