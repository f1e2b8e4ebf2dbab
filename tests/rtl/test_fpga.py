"""FPGA builds: the harness, what is moved into logic, what the tools say, and what does not fit."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Instance, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ridgeline.errors import RidgelineError
from ridgeline.machine.loader import load_machine
from ridgeline.rtl.fpga import build as builds
from ridgeline.rtl.fpga.build import build_from_dict, build_to_dict, place, synthesise
from ridgeline.rtl.fpga.design import Design, machine_design
from ridgeline.rtl.fpga.fit import require_fit
from ridgeline.rtl.fpga.harness import HARNESS, harness
from ridgeline.rtl.fpga.parts import part, parts
from ridgeline.rtl.fpga.placement import read_report
from ridgeline.rtl.fpga.synthesis import (
    Resources,
    cells_of,
    multipliers_in_logic,
    resources_of,
    shortage,
    soft_multiplier,
)
from ridgeline.rtl.fpga.tools import YOSYS, run_tool
from ridgeline.rtl.streaming import Stream
from ridgeline.rtl.verilog import Port

PRODUCTS = 3


def products() -> Design:
    """Registered products of 9-bit integers."""
    text = """module products(input clk, input [8:0] a, input [8:0] b, output reg [17:0] y);
      reg signed [8:0] p [0:3], q [0:3];
      reg signed [17:0] r [0:2];
      integer i;
      always @(posedge clk) begin
        p[0] <= a; q[0] <= b;
        for (i = 0; i < 3; i = i + 1) begin
          p[i+1] <= p[i]; q[i+1] <= q[i] + p[i]; r[i] <= p[i] * q[i];
        end
        y <= r[0] ^ r[1] ^ r[2];
      end
    endmodule
    """
    ports = (
        Port("clk", "input", 1, ""),
        Port("a", "input", 9, ""),
        Port("b", "input", 9, ""),
        Port("y", "output", 18, ""),
    )
    return Design("products", text, "products", ports)


def test_the_harness_connects_every_pin_to_a_register_of_its_own() -> None:
    design = machine_design(load_machine("tiny-8"))
    text = harness(design).verilog
    connected = dict(re.findall(r"^    \.(\w+)\((\w+(?:\[\d+:\d+\])?)\)", text, re.MULTILINE))
    assert set(connected) == {port.name for port in design.ports}
    assert connected.pop("clk") == "clk"
    for wire, ports in (("driven", design.inputs), ("seen", design.outputs)):
        taken: list[int] = []
        for port in ports:
            high, low = map(int, re.findall(rf"{wire}\[(\d+):(\d+)\]", connected[port.name])[0])
            assert high - low + 1 == port.bits
            taken += range(low, high + 1)
        assert taken == list(range(sum(port.bits for port in ports)))
        assert f"[{len(taken) - 1}:0] {wire};" in text


def test_the_harness_folds_all_outputs_by_gates_of_four() -> None:
    """Its text, evaluated: the pin is the exclusive or of all that was seen."""
    ports = (Port("a", "input", 1, ""), Port("y", "output", 23, ""))
    made = harness(Design("d", "", "d", ports))
    folds = re.findall(r"level_(\d)\[(\d+)\] <= \^level_(\d)\[(\d+):(\d+)\];", made.verilog)
    bits = np.random.default_rng(0).integers(0, 2, 23)
    levels: dict[tuple[int, int], int] = {(0, i): int(b) for i, b in enumerate(bits)}
    for level, gate, below, high, low in (tuple(map(int, fold)) for fold in folds):
        assert high - low < 4
        inputs = [levels[below, i] for i in range(low, high + 1)]
        levels[level, gate] = sum(inputs) % 2
    last = max(levels)
    assert f"serial_out = level_{last[0]};" in made.verilog
    assert levels[last] == bits.sum() % 2
    assert made.flip_flops == 1 + 23 + len(folds)
    assert made.verilog.startswith(f"module {HARNESS}(")


@pytest.mark.parametrize("direction", ["input", "output"])
def test_a_design_without_inputs_or_outputs_is_refused(direction: str) -> None:
    with pytest.raises(ValueError, match="no inputs or no outputs"):
        harness(Design("d", "", "d", (Port("a", direction, 4, ""),)))


def test_the_cheapest_multipliers_move_into_logic_and_as_few_as_suffice() -> None:
    small = replace(part("LFE5U-85F"), multipliers=8)
    lanes = [(24, 24)] * 2  # four DSP blocks each
    assert multipliers_in_logic([*lanes], small) == set()
    assert multipliers_in_logic([*lanes, (9, 9), (11, 11), (9, 9)], small) == {2, 4, 3}
    assert multipliers_in_logic([*lanes, (18, 18)], replace(small, multipliers=7)) == {0}
    assert multipliers_in_logic([(9, 9)], replace(small, multipliers=0)) == {0}


CARRY_CELL = """
module CCU2C #(parameter [15:0] INIT0 = 0, INIT1 = 0, parameter INJECT1_0 = "NO", INJECT1_1 = "NO")
    (input CIN, A0, B0, C0, D0, A1, B1, C1, D1, output S0, S1, COUT);
  wire p0 = INIT0[{D0, C0, B0, A0}], p1 = INIT1[{D1, C1, B1, A1}];
  wire between = p0 ? CIN : INIT0[{B0, A0}];
  assign S0 = p0 ^ CIN, S1 = p1 ^ between, COUT = p1 ? between : INIT1[{B1, A1}];
endmodule
"""
"""What the cell does, by FPGA-TN-02026's (ECP5 PFU) description: no carry injected."""


class SoftProduct(wiring.Component):
    """The multiplier of carry cells that synthesis puts in place of a DSP block."""

    def __init__(self) -> None:
        super().__init__({"a": In(signed(9)), "b": In(signed(9)), "y": Out(signed(18))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        product = Signal(signed(18))
        m.submodules += Instance("soft", i_a=self.a, i_b=self.b, o_y=product)
        m.d.sync += self.y.eq(product)
        return m


def test_a_multiplier_in_logic_multiplies(tmp_path: Path) -> None:
    """Every product of two 9-bit integers but the last, through the cells of synthesis."""
    source = "module soft(input signed [8:0] a, b, output signed [17:0] y); assign y = a * b;"
    (tmp_path / "soft.v").write_text(source + " endmodule\n", encoding="utf-8")
    (tmp_path / "map.v").write_text(soft_multiplier(), encoding="utf-8")
    maps = ("t:$mul", "t:ridgeline_rows")
    script = [
        *("read_verilog soft.v", "proc"),
        *(f"techmap -map map.v {what}" for what in maps),
        *("opt", "select -assert-none t:$mul", "select -assert-count 33 t:CCU2C", "select -clear"),
        "write_verilog -noattr mapped.v",
    ]
    (tmp_path / "script.ys").write_text("\n".join(script) + "\n", encoding="utf-8")
    run_tool(YOSYS, ["-q", "-s", "script.ys"], tmp_path)
    mapped = (tmp_path / "mapped.v").read_text(encoding="utf-8")
    a, b = (x.ravel() for x in np.meshgrid(np.arange(-256, 256), np.arange(-256, 256)))
    made = Stream(SoftProduct(), mapped + CARRY_CELL).run({"a": a, "b": b})
    product = made["y"].astype(np.int64)[1:]
    assert np.array_equal(product - (product >> 17 << 18), (a * b)[:-1])


def test_cells_become_resources() -> None:
    ecp5 = {"LUT4": 10, "CCU2C": 3, "TRELLIS_DPR16X4": 2, "TRELLIS_FF": 7, "DP16KD": 1, "PFUMX": 9}
    assert resources_of(ecp5, "ecp5") == Resources(10 + 6 + 12, 7, 0, 1)
    xc7 = {"LUT6": 5, "LUT1": 1, "RAM32M": 2, "FDRE": 3, "RAMB36E1": 1, "RAMB18E1": 3}
    assert resources_of(xc7, "xc7") == Resources(14, 3, 0, 3)
    stat = {"modules": {"\\m": {"num_cells_by_type": {"$scopeinfo": 4, "LUT4": 2}}}}
    assert cells_of(json.dumps(stat), "m") == {"LUT4": 2}


def test_parts_are_found_by_name_and_speed() -> None:
    assert part("lfe5u-85f").full_name == "LFE5U-85F-6"
    assert part("LFE5U-45F-8").speed == 8
    assert part("xc7a100t").full_name == "XC7A100T"
    for known in parts().values():
        assert known.source
        assert (known.static_watts is None) == (not known.static_source)
    for name, text in (
        ("LFE5U-85F-9", "--part LFE5U-85F-9: no speed grade 9. Known: 6, 7, 8"),
        ("LFE5U-85", "--part LFE5U-85: no such part. Did you mean 'LFE5U-85F'"),
    ):
        with pytest.raises(RidgelineError) as told:
            part(name)
        assert str(told.value).startswith(text)


def test_what_does_not_fit_is_refused_with_what_would() -> None:
    needs = Resources(luts=30000, flip_flops=10, multipliers=96, block_rams=50)
    require_fit("it", needs, part("LFE5U-85F"))
    assert shortage(needs, part("LFE5U-45F")) == {"multipliers": (96, 72)}
    with pytest.raises(RidgelineError) as told:
        require_fit("it", needs, part("LFE5U-25F"))
    assert str(told.value) == (
        "LFE5U-25F: it does not fit: it needs 30,000 lookup tables and has 24,288, 96 DSP blocks"
        " and has 28. The smallest ecp5 part that holds it is LFE5U-85F"
    )
    with pytest.raises(RidgelineError, match=r"No ecp5 part holds it: take a machine of 1/2\.0 of"):
        require_fit("it", replace(needs, block_rams=416), part("LFE5U-85F"))


def test_a_report_of_nextpnr_is_read() -> None:
    def step(kind: str, cell: str, to: str, delay: float) -> dict[str, Any]:
        return {"type": kind, "from": {"cell": cell}, "to": {"cell": to}, "delay": delay}

    clock = "posedge c"
    path = [
        step("clk-to-q", "a", "a", 0.5),
        step("routing", "a", "b", 2.0),
        step("setup", "b", "b", 1),
    ]
    report = {
        "fmax": {"c": {"achieved": 80.25, "constraint": 100}},
        "utilization": {
            site: {"used": n, "available": 999}
            for site, n in (
                ("TRELLIS_COMB", 5),
                ("TRELLIS_FF", 6),
                ("MULT18X18D", 7),
                ("DP16KD", 8),
            )
        },
        "critical_paths": [
            {"from": "<async>", "to": clock, "path": [step("source", "p", "p", 9)]},
            {"from": clock, "to": clock, "path": path},
        ],
    }
    read = read_report(json.dumps(report), seed=3)
    assert read.most_hz == 80.25e6
    assert read.used == {"luts": 5, "flip_flops": 6, "multipliers": 7, "block_rams": 8}
    assert (read.critical.start, read.critical.end, read.seed) == ("a", "b", 3)
    assert read.critical.logic_seconds == pytest.approx(1.5e-9)
    assert read.critical.routing_seconds == pytest.approx(2e-9)


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path))


@pytest.mark.usefixtures("own_cache")
def test_a_design_is_placed_once_and_multipliers_beyond_the_part_are_built_of_logic() -> None:
    """Three products on a part of two DSP blocks reach a clock, and the result is kept."""
    told: list[str] = []
    small = replace(part("LFE5U-25F"), multipliers=2)
    made = place(products(), small, progress=told.append)
    assert told == ["synthesising products", "placing and routing products on LFE5U-25F-6"]
    assert made.synthesis.multipliers_in_logic == 1
    assert made.synthesis.resources.multipliers == 2
    assert made.synthesis.resources.luts > 50  # a 9 x 9 multiplier of lookup tables
    assert made.placement is not None
    assert made.placement.used["multipliers"] == 2
    around = harness(products()).flip_flops
    counted = made.synthesis.resources.flip_flops
    assert made.placement.used["flip_flops"] == counted + around
    path = made.placement.critical
    assert 1 / (path.logic_seconds + path.routing_seconds) == pytest.approx(
        made.placement.most_hz, rel=1e-3
    )
    assert build_from_dict(json.loads(json.dumps(build_to_dict(made)))) == made
    assert place(products(), small, progress=told.append) == made
    assert len(told) == 2  # nothing was built again
    whole = synthesise(products(), part("XC7A35T"))
    assert whole.placement is None
    assert whole.synthesis.resources.multipliers == PRODUCTS


@pytest.mark.usefixtures("own_cache")
def test_another_script_or_seed_is_another_result(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = part("LFE5U-25F")
    key = builds._key(products(), asked, ["x"])  # pyright: ignore[reportPrivateUsage]
    assert key == builds._key(products(), asked, ["x"])  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(builds, "_scripts", lambda: "changed")
    assert key != builds._key(products(), asked, ["x"])  # pyright: ignore[reportPrivateUsage]


def test_what_the_tools_refuse_is_told_in_one_message() -> None:
    broken = replace(products(), verilog="module products(input clk); oops endmodule")
    with pytest.raises(
        RidgelineError, match=r"synthesis of products: .*ERROR: syntax error"
    ) as told:
        synthesise(broken, part("LFE5U-25F"))
    assert "Traceback" not in str(told.value)
    with pytest.raises(RidgelineError, match="XC7A35T: is counted by synthesis and not placed"):
        place(products(), part("XC7A35T"))


BUDGET = Resources(luts=27000, flip_flops=22500, multipliers=104, block_rams=52)
"""Of the 8 × 8 core on ECP5, its vector unit with no more than requantisation and pooling, so that
it is synthesised in about a minute: what it takes, and some percent more."""

OPERATIONS = 'vector.operations=["requantize", "max_pool", "average_pool"]'


def test_the_8_by_8_core_keeps_to_its_budget() -> None:
    """Memories must map to memories, elements to DSP blocks: a slip costs far more than this."""
    machine = load_machine("tiny-8", [OPERATIONS])
    made = synthesise(machine_design(machine), part("LFE5U-85F"))
    taken = made.synthesis.resources
    for name in ("luts", "flip_flops", "multipliers", "block_rams"):
        assert getattr(taken, name) <= getattr(BUDGET, name), (name, taken)
    assert taken.luts > 0.8 * BUDGET.luts, ("lower the budget", taken)
