"""SCALE-Sim's cycles from closed forms for its machine, and every cycle of difference named."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.machine.closed_forms import (
    Gemm,
    bare_array,
    compare,
    folds,
    ridgeline_cycles,
    scalesim_cycles,
    tiles_of,
)
from ridgeline.machine.description import DATAFLOWS

FLOWS = {"ws": "weight-stationary", "os": "output-stationary", "is": "input-stationary"}
SIDES = (256, 128, 32)


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "scalesim.py"
    spec = importlib.util.spec_from_file_location("benchmark_scalesim", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


KNOWN = [
    # From runs of SCALE-Sim 3.0.0 on topology_mlperf_Resnet50.csv.
    (Gemm(12100, 147, 64), "ws", (12865, 24963, 121939)),
    (Gemm(12100, 147, 64), "os", (31535, 38094, 158421)),
    (Gemm(12100, 147, 64), "is", (39839, 84739, 299409)),
    (Gemm(2916, 576, 64), "ws", (11045, 16489, 108359)),
    (Gemm(2916, 576, 64), "os", (13031, 19089, 117391)),
    (Gemm(2916, 576, 64), "is", (29879, 51289, 261647)),
    (Gemm(25, 4608, 512), "ws", (28475, 58607, 274175)),
    (Gemm(25, 4608, 512), "os", (10235, 19447, 74719)),
    (Gemm(25, 4608, 512), "is", (23003, 32183, 87263)),
    (Gemm(1, 2048, 1000), "ws", (24543, 49023, 194559)),
    (Gemm(1, 2048, 1000), "os", (10231, 18415, 67519)),
    (Gemm(1, 2048, 1000), "is", (14127, 22111, 70015)),
]


@pytest.mark.parametrize(("gemm", "flow", "cycles"), KNOWN)
def test_known_layers(gemm: Gemm, flow: str, cycles: tuple[int, ...]) -> None:
    found = tuple(scalesim_cycles(gemm, side, side, FLOWS[flow]) for side in SIDES)
    assert found == cycles


def test_totals_of_all_layers(benchmark: ModuleType) -> None:
    layers = benchmark.read_layers()
    assert len(layers) == 54
    assert sum(one.true.macs for one in layers) == 4_089_184_256
    sums = {
        flow: tuple(
            sum(scalesim_cycles(one.simulated, side, side, name) for one in layers)
            for side in SIDES
        )
        for flow, name in FLOWS.items()
    }
    assert sums == {
        "ws": (438_375, 876_832, 5_753_486),
        "os": (328_708, 611_561, 4_434_168),
        "is": (548_004, 997_762, 5_608_356),
    }
    _, true_sizes = benchmark.total(layers, 256, "weight-stationary")
    assert (true_sizes.simulated, true_sizes.ours) == (452_002, 213_842)


@pytest.mark.peer
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("side", SIDES)
def test_every_layer(reference: Path, benchmark: ModuleType, side: int, flow: str) -> None:
    folder = reference / "data" / "simulators" / "scalesim"
    with (folder / f"resnet50_{side}x{side}_{flow}_CALC.csv").open(encoding="utf-8") as file:
        simulated = {row["layer"]: int(float(row["total_cycles"])) for row in csv.DictReader(file)}
    found = {
        one.name: scalesim_cycles(one.simulated, side, side, FLOWS[flow])
        for one in benchmark.read_layers()
    }
    assert found == simulated


gemms = st.builds(Gemm, m=st.integers(1, 60), k=st.integers(1, 60), n=st.integers(1, 60))


@given(gemms, st.integers(1, 12), st.integers(1, 12), st.sampled_from(DATAFLOWS))
def test_reasons_are_the_whole_difference(gemm: Gemm, rows: int, cols: int, flow: str) -> None:
    both = compare(gemm, rows, cols, flow)
    assert sum(both.reasons.values()) == both.simulated - both.ours
    tiles = tiles_of(gemm, bare_array(rows, cols, flow))
    assert sum(t.m * t.n * t.k for t in tiles) == gemm.macs
    assert both.ours * rows * cols > gemm.macs


def test_one_full_tile_by_hand() -> None:
    """8 rows load, 20 stream, 14 fill and drain; ours shifts while it streams."""
    gemm = Gemm(20, 8, 8)
    assert folds(gemm, 8, 8, "weight-stationary") == 1
    assert scalesim_cycles(gemm, 8, 8, "weight-stationary") == 8 + 20 + 14 - 1
    assert ridgeline_cycles(gemm, 8, 8, "weight-stationary") == 20 + 14 + 4


def test_the_table_prints(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """And every row of it stands in docs/validation.md."""
    benchmark.main()
    text = (Path(__file__).parents[2] / "docs" / "validation.md").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    assert "| Ridgeline, true sizes | 213,842 |" in printed
    assert printed in text
