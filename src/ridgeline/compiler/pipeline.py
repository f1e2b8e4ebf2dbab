"""compile(): a graph to a Program, one named line a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from ridgeline.compiler.allocate import DoesNotFit, tile_and_allocate
from ridgeline.compiler.analyse import Analyst
from ridgeline.compiler.borders import Borders, host_segment
from ridgeline.compiler.choose import Chooser
from ridgeline.compiler.constants import ConstantPool
from ridgeline.compiler.describe import describe_layers, dump_plan, dump_program, dump_tiles
from ridgeline.compiler.emit import Emitter, Known
from ridgeline.compiler.lower_matmul import most_rows
from ridgeline.compiler.memory import Space
from ridgeline.compiler.place import Placement, place
from ridgeline.compiler.plan import LayerPlan, Segment, TiledLayer
from ridgeline.compiler.progress import Progress
from ridgeline.compiler.refine import Trial, refine
from ridgeline.compiler.schedule import Ahead, prefetch
from ridgeline.compiler.strip_search import Runs, find_runs
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph, Node, Value
from ridgeline.machine.check import check
from ridgeline.machine.code import Code
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import HostRead, HostWrite, Instruction
from ridgeline.machine.program import DeviceSegment, HostSegment, Program
from ridgeline.machine.program import Segment as ProgramSegment
from ridgeline.machine.simulate import simulate_code
from ridgeline.passes.dead import remove_dead

LINK_PARTS = 16
"""A tensor crosses the host link in about this many parts, so that work starts early."""

MOST_SPREAD = 20_000
"""Instructions of a program whose regions are tried over more banks, at most."""

Way = tuple[Runs, list[TiledLayer]]
"""Layers with the strips that some are made in."""
Tiled = tuple[Segment, list[Way]]

Dump = Callable[[str, str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A program, the graph as it was placed, and where its layers keep what they make."""

    program: Program
    graph: Graph
    layers: tuple[TiledLayer, ...]


def compile(
    graph: Graph,
    machine: Machine,
    *,
    dump: Dump | None = None,
    host_link: bool = True,
    done: Callable[[int], None] | None = None,
) -> Program:
    """The Program that computes `graph` on `machine`.

    `dump(stage, text)` is called after each stage, `done` with how many more nodes are compiled.
    A layer that the machine lacks or that fits no way runs on the host. Without `host_link` the
    inputs and outputs lie in device memory from the start, which needs a graph that runs on the
    device whole. Raises RidgelineError when it does not, or device memory is too small.
    """
    return compile_located(graph, machine, dump=dump, host_link=host_link, done=done).program


def compile_located(
    graph: Graph,
    machine: Machine,
    *,
    dump: Dump | None = None,
    host_link: bool = True,
    done: Callable[[int], None] | None = None,
) -> Compiled:
    """`compile`, and the lines of each tile on chip, for those who look into an execution."""
    graph = remove_dead(graph)
    run, plans, tiled = _tiled(graph, machine, host_link)
    _tell(dump, "place", lambda: _placement_text(run.placement))
    _tell(dump, "plan", lambda: dump_plan(plans))
    _tell(dump, "tile", lambda: dump_tiles({n: ways[0][1] for n, (_, ways) in tiled.items()}))
    run.assign_addresses(tiled)
    progress = Progress(done)
    progress.host(sum(len(part.nodes) for part in run.parts if not part.on_device))
    chosen = run.choose(tiled, progress)
    _tell(dump, "choose", lambda: dump_tiles({n: t.layers for n, t in chosen.items()}))
    program = run.emit(chosen)
    _tell(dump, "emit", lambda: dump_program(program))
    check(program)
    layers = tuple(layer for trial in chosen.values() for layer in trial.layers)
    return Compiled(program, graph, layers)


def _tiled(
    graph: Graph, machine: Machine, host_link: bool
) -> tuple[_Compilation, dict[int, list[LayerPlan]], dict[int, Tiled]]:
    """A compilation as far as its tiles. What has no room on chip falls back to the host, where
    there is a link to it.
    """
    too_large: dict[int, str] = {}
    while True:
        run = _Compilation(graph, machine, place(graph, machine, too_large), host_link)
        plans = run.plan()
        try:
            return run, plans, run.tile(plans)
        except DoesNotFit as fault:
            if not host_link:
                raise
            too_large[id(fault.node)] = fault.reason


def parts_of(graph: Graph, machine: Machine) -> tuple[list[Segment], list[HostSegment]]:
    """The device parts of a graph as they are planned, before tiles, addresses and instructions,
    and those of the host. Raises RidgelineError where the machine cannot hold a layer's form.
    """
    graph = remove_dead(graph)
    run = _Compilation(graph, machine, place(graph, machine), True)
    segments = list(run.segments(run.plan()).values())
    return segments, [run.host_segment(part) for part in run.parts if not part.on_device]


def _tell(dump: Dump | None, stage: str, text: Callable[[], str]) -> None:
    if dump is not None:
        dump(stage, text())


def _placement_text(placement: Placement) -> str:
    lines = [
        f"{n.name}: {n.op} "
        + (f"on the host: {r}" if (r := placement.reasons[id(n)]) else "device")
        for n in placement.graph.nodes
    ]
    return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Part:
    """One segment under way: its nodes, and on the device its plans and borders."""

    on_device: bool
    nodes: tuple[Node, ...]
    entering: list[Value] = field(default_factory=list[Value])
    leaving: list[Value] = field(default_factory=list[Value])


class _Compilation:
    """What the stages share: the constant pool, the address spaces and the borders."""

    def __init__(
        self, graph: Graph, machine: Machine, placement: Placement, host_link: bool
    ) -> None:
        self.graph = graph
        self.machine = machine
        self.placement = placement
        self.pool = ConstantPool(machine.device_memory.burst_bytes)
        self.index = {id(node): i for i, node in enumerate(graph.nodes)}
        self.parts = [_Part(device, nodes) for device, nodes in placement.segments]
        self._find_borders()
        self.borders = Borders(graph, placement, machine, host_link)
        self.addresses: dict[int, int] = {}
        self.device = Space()
        if not host_link and any(not p.on_device for p in self.parts):
            where = next(p.nodes[0] for p in self.parts if not p.on_device)
            raise RidgelineError(
                "inputs and outputs can lie in device memory only when all runs on the device;"
                f" {self.placement.reasons[id(where)]}",
                where=f"node '{where.name}' ({where.op})",
            )

    def _find_borders(self) -> None:
        """Values that enter and leave each part."""
        home = {id(v): p for p in self.parts for n in p.nodes for v in n.outputs}
        outputs = {id(v) for v in self.graph.outputs}
        for part in self.parts:
            for node in part.nodes:
                for value in node.inputs:
                    if value is None or value.is_constant or home.get(id(value)) is part:
                        continue
                    _append(part.entering, value)
                    source = home.get(id(value))
                    if source is not None:
                        _append(source.leaving, value)
                for value in node.outputs:
                    if id(value) in outputs:
                        _append(part.leaving, value)

    def plan(self) -> dict[int, list[LayerPlan]]:
        """Layer plans of each device part, by its number."""
        analyst = Analyst(self.placement, self.machine, self.pool)
        return {
            number: [analyst.plan(node, self.index[id(node)]) for node in part.nodes]
            for number, part in enumerate(self.parts)
            if part.on_device
        }

    def root(self, value: Value) -> Value:
        return self.placement.storage[id(value)].root

    def segments(self, plans: dict[int, list[LayerPlan]]) -> dict[int, Segment]:
        """The layers of each device part with what enters and leaves it."""
        return {
            number: Segment(
                tuple(layers),
                frozenset(id(self.root(v)) for v in self.parts[number].entering),
                frozenset(id(self.root(v)) for v in self.parts[number].leaving)
                | _rearranged(layers),
            )
            for number, layers in plans.items()
        }

    def tile(self, plans: dict[int, list[LayerPlan]]) -> dict[int, Tiled]:
        """Tiles and unified-buffer lines of each device part, without and with strips."""
        result: dict[int, Tiled] = {}
        for number, segment in self.segments(plans).items():
            plain = tile_and_allocate(segment, self.machine)
            ways: list[Way] = [((), plain)]
            if any(_comes_and_goes(layer, segment) for layer in plain):
                for runs in find_runs(segment, self.machine):
                    ways.append((runs, tile_and_allocate(segment, self.machine, runs=runs)))
            result[number] = (segment, ways)
        return result

    def assign_addresses(self, tiled: dict[int, Tiled]) -> None:
        """Device addresses of all that leaves the chip, behind the constants."""
        self.constants = self.pool.bytes()
        self.device.take(self.constants.size)
        for number, (_, ways) in tiled.items():
            for value in self.parts[number].entering:
                self._address(id(self.root(value)), self.borders.bytes_of(self.root(value)))
            for layer in (layer for _, layers in ways for layer in layers):
                root = id(layer.plan.output.root)
                if layer.store and layer.plan.kind != "alias":
                    self._address(root, layer.plan.output.layout.bytes)
        most = self.machine.device_memory.bytes
        if self.device.next_address > most:
            raise RidgelineError(
                f"the program needs {self.device.next_address} bytes of device memory and there"
                f" are {most}",
                where=f"machine {self.machine.name}",
                fix="Use a smaller batch, or a machine with more memory",
            )

    def _address(self, root: int, size_bytes: int) -> None:
        if root not in self.addresses:
            self.addresses[root] = self.device.take(size_bytes)

    def choose(self, tiled: dict[int, Tiled], progress: Progress) -> dict[int, Trial]:
        """The same layers in the strips, the rows of a MatMul and the parts that take the fewest
        cycles, and their instructions.
        """
        chooser = Chooser(self.machine, self.addresses, self.device.next_address)
        result: dict[int, Trial] = {}
        for number, (segment, ways) in tiled.items():

            def chosen(layers: list[TiledLayer], segment: Segment = segment) -> list[TiledLayer]:
                return [chooser.choose(segment, layer) for layer in layers]

            one = partial(self._cost, self.parts[number], segment, {})
            cost = progress.watch(one, len(self.parts[number].nodes))
            tried = [(cost(chosen(way[1])), way) for way in ways]
            first, (runs, layers) = min(tried, key=lambda one: one[0].cycles)
            variants = self._variants(segment, runs, layers, len(first.code))
            trials = chain(
                (trial for trial, _ in tried), (cost(chosen(variant)) for variant in variants)
            )
            result[number] = refine(trials, cost, segment.entering, most_rows(self.machine))
            progress.finish()
        return result

    def _variants(
        self, segment: Segment, runs: Runs, layers: list[TiledLayer], size: int
    ) -> Iterator[list[TiledLayer]]:
        """Other places for the same regions: with weights that come ahead, and over more banks.

        The latter gains least, and is left out of a program of very many (`size`) instructions.
        """
        for spread in (False, True) if size <= MOST_SPREAD else (False,):
            for ahead in (False, True):
                if not spread and not ahead:
                    continue
                other = tile_and_allocate(
                    segment, self.machine, spread=spread, ahead=ahead, runs=runs
                )
                if [x.store for x in other] != [x.store for x in layers]:
                    continue
                if not ahead or any(layer.held for layer in other):
                    yield other

    def _cost(
        self, part: _Part, segment: Segment, known: Known, layers: Sequence[TiledLayer]
    ) -> Trial:
        """A device part with these layers, emitted and simulated."""
        emitter = Emitter(self.machine, segment, self.addresses, known)
        code = emitter.emit(layers)
        reads, writes = Code.of(self._reads(part)), Code.of(self._writes(part))
        ahead = [one.behind(len(reads)) for one in emitter.ahead]
        code = self._ordered(Code.joined([reads, code, writes]), ahead)
        cycles = simulate_code(code, self.machine)[1]
        code.operands.forget_walks()
        return Trial(layers, code, cycles)

    def _ordered(self, code: Code, ahead: Sequence[Ahead]) -> Code:
        host_bytes, device_bytes = self.borders.host.next_address, self.device.next_address
        return prefetch(code, self.machine, host_bytes, device_bytes, ahead)

    def emit(self, chosen: dict[int, Trial]) -> Program:
        """The program: every segment with its transfers, waits and layers."""
        borders = self.borders
        for part in self.parts:
            if not part.on_device:
                borders.host_tensors(part.entering, part.leaving)
        inputs, outputs = borders.program_tensors(self.addresses)
        host_bytes, device_bytes = borders.host.next_address, self.device.next_address
        segments: list[ProgramSegment] = []
        for number, part in enumerate(self.parts):
            if part.on_device:
                segments.append(DeviceSegment(chosen[number].code))
            else:
                segments.append(self.host_segment(part))
        return Program(
            name=self.graph.name,
            machine=self.machine,
            segments=tuple(segments),
            layers=describe_layers(
                self.graph,
                self.placement,
                self.machine,
                (layer for trial in chosen.values() for layer in trial.layers),
            ),
            constants=self.constants,
            device_bytes=device_bytes,
            host_bytes=host_bytes,
            inputs=inputs if borders.host_link else (),
            outputs=outputs if borders.host_link else (),
            device_inputs=() if borders.host_link else inputs,
            device_outputs=() if borders.host_link else outputs,
        )

    def host_segment(self, part: _Part) -> HostSegment:
        """What the host does of the graph in a part."""
        return host_segment(
            self.graph, part.nodes, part.entering, part.leaving, self.borders, self.index
        )

    def _reads(self, part: _Part) -> list[Instruction]:
        """Host to device memory, for what the device does not hold yet."""
        if not self.borders.host_link:
            return []
        return [
            HostRead(
                layer=self._first_user(part, value),
                host_address=self.borders.packed(value).address + offset,
                device_address=self.addresses[id(self.root(value))] + offset,
                length_bytes=length,
            )
            for value in part.entering
            if not self.borders.made_on_device(value)
            for offset, length in self._link_parts(value)
        ]

    def _link_parts(self, value: Value) -> list[tuple[int, int]]:
        """(offset, length) in bytes: whole bursts, so that parts cost the memory no more."""
        total = self.borders.packed(value).bytes
        burst = self.machine.device_memory.burst_bytes
        step = -(-total // (LINK_PARTS * burst)) * burst
        return [(offset, min(step, total - offset)) for offset in range(0, total, step)]

    def _first_user(self, part: _Part, value: Value) -> int:
        return next(self.index[id(n)] for n in part.nodes if any(v is value for v in n.inputs))

    def _writes(self, part: _Part) -> list[Instruction]:
        """Device to host memory, for what the host reads or the user gets."""
        if not self.borders.host_link:
            return []
        return [
            HostWrite(
                layer=next(
                    self.index[id(n)] for n in part.nodes if any(v is value for v in n.outputs)
                ),
                host_address=self.borders.packed(value).address + offset,
                device_address=self.addresses[id(self.root(value))] + offset,
                length_bytes=length,
            )
            for value in part.leaving
            if self.borders.needed_by_host(value)
            for offset, length in self._link_parts(value)
        ]


def _comes_and_goes(layer: TiledLayer, segment: Segment) -> bool:
    """Whether a layer stores what only this segment reads, because it found no room."""
    root = id(layer.plan.output.root)
    return layer.store and layer.plan.kind != "alias" and root not in segment.leaving


def _rearranged(layers: list[LayerPlan]) -> frozenset[int]:
    """id(root) of what layers read in device memory, which must therefore lie there."""
    moves = [layer.rearrangement for layer in layers if layer.rearrangement is not None]
    return frozenset(id(s) for m in moves for s in m.sources if not isinstance(s, int))


def _append(values: list[Value], value: Value) -> None:
    if all(v is not value for v in values):
        values.append(value)
