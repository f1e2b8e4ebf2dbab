"""When each pixel of each stage is begun and done: cycles of a pipeline, known before synthesis.

An image's time depends on no data. A stage begins a pixel when it is done with the one before, the
pixels that it reads are there, and every reader has room for what it makes; from then on it never
waits. That is all the hardware decides, so these events are its cycles.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from ridgeline.errors import RidgelineError
from ridgeline.rtl import elementwise
from ridgeline.rtl.pipeline.layers import ADD, INPUT
from ridgeline.rtl.pipeline.plan import Plan, Stage

PAIR_GAP = elementwise.SECOND_PASS + 1
"""So many cycles behind its last pair an adding stage's lane is empty of first passes."""


@dataclass(frozen=True, slots=True)
class Times:
    """Cycles from the first pixel's being taken. `taken`, `given`: of every pixel in and out.

    `latency_cycles`: of one image alone, from its first pixel in to its last pixel out;
    `interval_cycles`: from one image to the next when they follow as fast as they are taken.
    """

    taken: tuple[int, ...]
    given: tuple[int, ...]
    images: int

    @property
    def latency_cycles(self) -> int:
        return self.given[len(self.given) // self.images - 1] - self.taken[0] + 1

    @property
    def interval_cycles(self) -> int:
        """On average over the second half of the images, rounded up."""
        if self.images == 1:
            return self.latency_cycles
        pixels, half = len(self.given) // self.images, self.images // 2
        return -(-(self.given[-1] - self.given[-1 - half * pixels]) // half)


@dataclass
class _Reader:
    """What a buffer has freed: counts, and from which cycle on each is seen."""

    depth: int
    counts: list[int] = field(default_factory=list[int])
    cycles: list[int] = field(default_factory=list[int])

    def free_since(self, claimed: int) -> int | None:
        """From when on there is room for pixel number `claimed`; None: not known yet."""
        if claimed < self.depth:
            return 0
        place = bisect_left(self.counts, claimed - self.depth + 1)
        return self.cycles[place] if place < len(self.counts) else None

    def free(self, count: int, cycle: int) -> None:
        self.counts.append(count)
        self.cycles.append(cycle)


class _Run:
    def __init__(self, plan: Plan, images: int) -> None:
        self.plan, self.images = plan, images
        self.buffers = [[_Reader(depth) for depth in stage.depths] for stage in plan.stages]
        self.end = _Reader(plan.output_depth)
        sources = range(INPUT, len(plan.stages))
        self.seen: dict[int, list[int]] = {source: [] for source in sources}
        self.begun: list[list[int]] = [[] for _ in plan.stages]
        self.taken: list[int] = []
        self.given: list[int] = []
        self.needed = [
            [stage.needed(pixel) for pixel in range(stage.layer.made.pixels)]
            for stage in plan.stages
        ]
        self.freed = [stage.freed_rows() for stage in plan.stages]

    def room(self, source: int, claimed: int) -> int | None:
        """From when on every reader has room for pixel number `claimed` of a source."""
        readers = [self.buffers[stage][place] for stage, place in self.plan.readers(source)]
        if source == len(self.plan.stages) - 1:
            readers.append(self.end)
        since = [reader.free_since(claimed) for reader in readers]
        known = [cycle for cycle in since if cycle is not None]
        return max(known, default=0) if len(known) == len(since) else None

    def take(self) -> bool:
        """Take the input's next pixel if it is known when."""
        number = len(self.taken)
        if number == self.images * self.plan.stages[0].layer.given[0].pixels:
            return False
        room = self.room(INPUT, number)
        if room is None:
            return False
        cycle = max(room, self.taken[-1] + 1 if self.taken else 0)
        self.taken.append(cycle)
        self.seen[INPUT].append(cycle + 1)
        return True

    def step(self, number: int) -> bool:
        """Begin a stage's next pixel if it is known when."""
        stage, begun = self.plan.stages[number], self.begun[number]
        made = stage.layer.made
        image, pixel = divmod(len(begun), made.pixels)
        if image == self.images:
            return False
        start = self.room(number, len(begun))
        if start is None:
            return False
        for source, given in zip(stage.layer.sources, stage.layer.given, strict=True):
            needed = image * given.pixels + self.needed[number][pixel]
            if len(self.seen[source]) < needed:
                return False
            start = max(start, self.seen[source][needed - 1])
        if begun:
            start = self._after(stage, start, begun[-1])
        begun.append(start)
        last = start + stage.pixel_steps - 1
        self.seen[number].append(last + stage.delay_cycles)
        row, column = divmod(pixel, made.width)
        if column == made.width - 1:
            for place, given in enumerate(stage.layer.given):
                freed = image * given.pixels + self.freed[number][row]
                self.buffers[number][place].free(freed, last + 1)
        return True

    def _after(self, stage: Stage, start: int, before: int) -> int:
        """Not before the last pixel's steps; nor where an addition's passes would meet."""
        last = before + stage.pixel_steps - 1
        start = max(start, last + 1)
        if stage.layer.kind == ADD and start - last < PAIR_GAP and (start - last) % 2 == 0:
            start += 1
        return start

    def give(self) -> bool:
        """Hand the next finished pixel out."""
        number, seen = len(self.given), self.seen[len(self.plan.stages) - 1]
        if number == len(seen):
            return False
        self.given.append(max(seen[number], self.given[-1] + 1 if self.given else 0))
        self.end.free(number + 1, self.given[-1] + 1)
        return True

    def finish(self) -> Times:
        moved = True
        while moved:
            moved = self.give()
            for number in reversed(range(len(self.plan.stages))):
                while self.step(number):
                    moved = True
            moved |= self.take()
        made = self.plan.stages[-1].layer.made.pixels
        if len(self.given) < self.images * made:
            waiting = [
                stage.layer.name
                for stage, begun in zip(self.plan.stages, self.begun, strict=True)
                if len(begun) < self.images * stage.layer.made.pixels
            ]
            raise RidgelineError(
                f"the pipeline's buffers are too small: '{waiting[0]}' can never go on",
                where=f"pipeline '{self.plan.name}'",
            )
        return Times(tuple(self.taken), tuple(self.given), self.images)


def times(plan: Plan, images: int = 1) -> Times:
    """Cycles of so many images, each pixel given as soon as it is taken and taken when it is there.

    Raises RidgelineError where buffers are so small that nothing goes on.
    """
    return _Run(plan, images).finish()
