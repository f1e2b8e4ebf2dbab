"""Advice against closed forms and against the analysis of the changed model itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ridgeline
from counting_cases import FLOAT, model, node, weights
from ridgeline.advice.advise import Advised, advise_on
from ridgeline.advice.case import Case, difference
from ridgeline.advice.reshape import chained, grown, rounded_channels
from ridgeline.advice.sparsity import sparse_weights
from ridgeline.chips.custom import custom_chip
from ridgeline.chips.loader import load_chip
from ridgeline.chips.sheet import Chip, Sourced
from ridgeline.roofline.bound import Interval
from ridgeline.workload.layer import Layer, Operand, Product, Workload
from ridgeline.workload.read import read_workloads

MODEL = Path(ridgeline.__file__).parent / "models" / "digits_cnn.onnx"


def operand(tensor: int, role: str, elements: int) -> Operand:
    return Operand(f"t{tensor}", tensor, role, elements, elements, 32)  # pyright: ignore[reportArgumentType]


def product(m: int, n: int, k: int, first: int = 0) -> Layer:
    operands = (
        operand(first, "input", m * k),
        operand(first + 100, "weight", k * n),
        operand(first + 1, "output", m * n),
    )
    one = Product(1, m, n, k)
    return Layer(f"p{first}", "MatMul", "product", one.macs, 0, operands, (one,))


def vector(elements: int, first: int) -> Layer:
    operands = (operand(first, "input", elements), operand(first + 1, "output", elements))
    return Layer(f"v{first}", "Softmax", "vector", 0, 5 * elements, operands)


def work(*layers: Layer) -> Workload:
    return Workload("w", layers, 1)


def sparse_chip() -> Chip:
    """100 TOPS dense, 200 in 2:4, 300 GB/s."""
    chip = custom_chip(["fp16=100T"], "300G")
    sparse = Sourced(200e12, "operations/s", "test", "2026", "user")
    peaks = tuple(replace(p, sparse=sparse, sparsity="2:4") for p in chip.peaks)
    return replace(chip, peaks=peaks)


def advised(workload: Workload, chip: Chip | None = None) -> Advised:
    return advise_on(Case(workload, chip or sparse_chip(), "fp16"), None, "m.onnx", "--chip c")


def share(made: Advised, name: str) -> float:
    return next(a.share for a in made.advice if a.change.name == name)


def test_of_a_product_that_memory_limits_only_bytes_help() -> None:
    made = advised(work(product(1, 8192, 8192)))
    assert share(made, "bandwidth x 2") == pytest.approx(0.5, abs=0.001)
    assert abs(share(made, "arithmetic x 2")) < 0.001
    # 9 bits of 16 are read of a weight, and next to nothing else moves.
    assert share(made, "2:4 sparse weights") == pytest.approx(1 - 9 / 16, abs=0.001)
    (layer,) = made.layers
    assert (layer.time.limit, layer.idle) == ("memory", "arithmetic x 2")
    assert layer.best == "batch 64"


def test_of_a_product_that_arithmetic_limits_bandwidth_gains_nothing() -> None:
    made = advised(work(product(32768, 8192, 8192)))
    assert share(made, "arithmetic x 2") == pytest.approx(0.5, abs=0.01)
    assert share(made, "2:4 sparse weights") == pytest.approx(0.5, abs=0.01)
    assert abs(share(made, "bandwidth x 2")) < 0.005
    assert [layer.idle for layer in made.layers] == ["bandwidth x 2"]


def test_advice_is_ranked_and_intervals_hold_the_likely() -> None:
    made = ridgeline.advise(MODEL, "l4", "fp16")
    possible = [a for a in made.advice if a.bound is not None]
    saved = [a.saved.likely for a in possible]
    assert saved == sorted(saved, reverse=True)
    assert all(a.saved.low <= a.saved.likely <= a.saved.high for a in possible)
    assert len({a.change.kind for a in possible}) >= 6
    assert all(a.change.check for a in made.advice)


@pytest.mark.parametrize("chip", ["l4", "h100-sxm5", "tpu-v1"])
def test_batches_and_precisions_are_what_analyze_says_of_them(chip: str) -> None:
    made = ridgeline.advise(MODEL, chip)
    tried = [a for a in made.advice if a.change.kind in ("batch", "precision") and a.bound]
    assert tried
    for one in tried:
        after = one.change.after
        again = ridgeline.analyze(MODEL, chip, after.precision, batch=after.workload.batch)
        assert one.latency.likely == pytest.approx(again.seconds.likely)
        was = made.bound.seconds.likely
        assert one.saved.likely == pytest.approx(was - again.seconds.likely / again.batch)
        wanted = "helps" if one.share >= 0.005 else "slower" if one.share <= -0.005 else "no gain"
        assert one.verdict == wanted


def test_verdicts_of_narrower_formats_are_not_those_of_their_bytes() -> None:
    """Launches of kernels limit the digits model, and a start takes as long in every format: a
    quarter of the bytes gains nothing, and costs nothing. Of many rows weights are unpacked.
    """
    found = ridgeline.advise(MODEL, "l4", "fp16").advice
    verdicts = {a.change.name: a.verdict for a in found if a.change.kind == "precision"}
    assert set(verdicts.values()) == {"no gain"}
    assert len(verdicts) == 6
    rows = work(product(16384, 8192, 8192))
    unpacked = advise_on(Case(rows, load_chip("a100-sxm4-80gb"), "fp16"), None, "m", "--chip c")
    assert share(unpacked, "int4 weights alone") < -0.03
    # On an array of one rate for both sides, half the bytes of weights alone help.
    big = work(product(1, 8192, 8192))
    helped = advise_on(Case(big, load_chip("a100-sxm4-80gb"), "fp16"), None, "m", "--chip c")
    assert share(helped, "int8 weights alone") > 0.2


def test_a_workload_grown_is_the_model_read_at_that_batch() -> None:
    one, eight = read_workloads(MODEL, [1, 8])
    made = grown(one, 8)
    assert (made.macs, made.batch, made.border_bytes) == (eight.macs, 8, eight.border_bytes)
    assert [x.moved_bytes for x in made.layers] == [x.moved_bytes for x in eight.layers]


def test_chains_lose_the_tensors_between_and_no_work() -> None:
    before = work(product(64, 64, 64), vector(4096, 1), vector(4096, 2))
    after, joined = chained(before)
    assert (joined, len(after.layers)) == (2, 1)
    (layer,) = after.layers
    assert layer.macs == before.macs
    assert layer.vector_operations == before.vector_operations
    moved = sum(x.moved_bytes or 0 for x in before.layers)
    assert layer.moved_bytes == moved - 4 * 4096 * 4


def test_what_two_layers_read_or_the_user_gets_is_still_written() -> None:
    two = work(product(64, 64, 64), vector(4096, 1), product(64, 64, 64, 1))
    assert chained(two)[1] == 0
    leaving = replace(
        work(product(64, 64, 64), vector(4096, 1)), outputs=(operand(1, "output", 1),)
    )
    assert chained(leaving)[1] == 0


def test_node_by_node_has_the_same_work_and_more_bytes() -> None:
    (fused,) = read_workloads(MODEL)
    (apart,) = read_workloads(MODEL, fused=False)
    assert apart.macs == fused.macs
    assert len(apart.layers) > len(fused.layers)
    moved = [sum(x.moved_bytes or 0 for x in w.layers) for w in (fused, apart)]
    assert moved[0] < moved[1]
    (held,) = ridgeline.advise(MODEL, "l4").held
    assert held.share > 0


def test_channels_are_rounded_with_what_reads_them() -> None:
    before = work(product(10, 65, 32), product(10, 32, 65, 1))
    before = replace(before, outputs=(operand(2, "output", 320),))
    after = rounded_channels(before, lambda n: -(-n // 64) * 64)
    assert [(p.n, p.k) for x in after.layers for p in x.products] == [(128, 32), (32, 128)]
    assert after.macs == 2 * 10 * 128 * 32
    assert [x.bytes_of("weight") for x in after.layers] == [4 * 128 * 32] * 2
    assert after.layers[1].output_bytes == 4 * 320


def test_sparse_weights_take_nine_bits_of_sixteen() -> None:
    workload = work(product(1, 64, 64), vector(64, 1))
    for precision, bits in (("fp16", 9), ("int8", 5), ("int4", 3)):
        made = sparse_weights(workload, precision)
        assert made.layers[0].weight_bytes == 64 * 64 * bits // 8
        assert made.layers[1] == workload.layers[1]


def test_errors_of_two_formats_do_not_cancel() -> None:
    was, now = Interval(8.0, 10.0, 13.0), Interval(4.0, 5.0, 6.5)
    assert difference(was, now, apart=False) == Interval(4.0, 5.0, 6.5)
    apart = difference(was, now, apart=True)
    assert apart.low == pytest.approx(5 - (2**2 + 1.5**2) ** 0.5)
    assert apart.high == pytest.approx(5 + (3**2 + 1**2) ** 0.5)


def test_a_chip_without_a_sparse_peak_says_so() -> None:
    made = ridgeline.advise(MODEL, "tpu-v1")
    (one,) = [a for a in made.advice if a.change.kind == "sparsity"]
    assert one.verdict == "not possible"
    assert one.reason == "the sheet of tpu-v1 has no 2:4 peak in int8"
    assert made.advice[-1] is one


def test_how_to_check_a_batch_where_steps_come_first(tmp_path: Path) -> None:
    """--batch would be refused: the batch is the second dimension."""
    constants = {"w": weights(1, 32, 16), "r": weights(1, 32, 8)}
    cell = node("LSTM", ["x", "w", "r"], hidden_size=8)
    path = tmp_path / "cell.onnx"
    path.write_bytes(model([cell], {"x": (FLOAT, [9, 1, 16])}, {"y": (FLOAT, None)}, constants))
    checks = {a.change.name: a.change.check for a in ridgeline.advise(path, "l4", "fp16").advice}
    assert checks["batch 4"] == "give analyze a --shape whose second dimension is 4"
    assert checks["bf16 weights and activations"].endswith("--precision bf16")
