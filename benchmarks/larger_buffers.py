"""What a larger unified buffer costs on random networks, at worst, and whether it moves more bytes.

    python benchmarks/larger_buffers.py [NETWORKS]

compiles random networks (40 unless told) for six sizes of buffer and compares each with the fastest
and the last of the smaller ones: ACCELERATOR's law allows 2 % more cycles, and no byte more.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from compile_cases import moved_bytes, small_machine
from random_graphs import random_network
from ridgeline.compiler import compile
from ridgeline.errors import RidgelineError
from ridgeline.machine.simulate import simulate

BUFFERS_BYTES = (1024, 2048, 4096, 8192, 16384, 65536)


def main() -> None:
    networks = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    losses = [loss(seed) for seed in range(networks)]
    for seed, (cycles, bytes_more) in enumerate(losses):
        if cycles > 1.01 or bytes_more:
            print(f"network {seed}: {cycles - 1:.1%} more cycles, {bytes_more} bytes more moved")
    worst = max(cycles for cycles, _ in losses)
    more = sum(1 for _, bytes_more in losses if bytes_more)
    print(f"{networks} networks: at most {worst - 1:.1%} more cycles; more bytes moved in {more}")


def loss(seed: int) -> tuple[float, int]:
    """At most: cycles over the fewest of a smaller buffer; bytes moved more than in the last."""
    graph = random_network(seed)
    fewest, last = 0, 0
    worst, more = 1.0, 0
    for size in BUFFERS_BYTES:
        try:
            machine = small_machine("weight-stationary", f"unified_buffer.bytes={size}")
            program = compile(graph, machine)
        except RidgelineError:
            continue
        cycles, moved = simulate(program).cycles, moved_bytes(program)
        if fewest:
            worst, more = max(worst, cycles / fewest), max(more, moved - last)
        fewest, last = min(cycles, fewest or cycles), moved
    return worst, more


if __name__ == "__main__":
    main()
