"""Bounds against closed forms, against the products' own model, and against each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from counting_cases import CASES
from ridgeline import api
from ridgeline.advice.reshape import grown
from ridgeline.chips.custom import custom_chip
from ridgeline.chips.loader import chip_names, load_chip
from ridgeline.chips.sheet import Chip, Link, Sourced
from ridgeline.errors import RidgelineError
from ridgeline.predict.gemm import predict_gemm
from ridgeline.predict.work import rates_of
from ridgeline.roofline.bound import Bound
from ridgeline.roofline.cause import scaled
from ridgeline.roofline.estimate import bound_of
from ridgeline.roofline.occupancy import occupied
from ridgeline.roofline.residence import resident
from ridgeline.roofline.roof import roof_of
from ridgeline.workload.layer import Layer, Operand, Product, Workload

BIG = "a100-sxm4-80gb"


def product(m: int, n: int, k: int, groups: int = 1, first: int = 0) -> Layer:
    operands = (
        Operand("x", first, "input", groups * m * k, groups * m * k, 32),
        Operand("w", first + 100, "weight", groups * k * n, groups * k * n, 32),
        Operand("y", first + 1, "output", groups * m * n, groups * m * n, 32),
    )
    one = Product(groups, m, n, k)
    axes = (("rows", m), ("channels", n))
    return Layer("p", "MatMul", "product", one.macs, m * n, operands, (one,), axes)


def alone(layer: Layer, batch: int = 1) -> Workload:
    return Workload("w", (layer,), batch)


def chip(peak: str = "fp16=100T", bandwidth: str = "300G") -> Chip:
    return custom_chip([peak], bandwidth)


def test_no_interval_begins_below_the_roofline() -> None:
    for m in (1, 64, 4096):
        bound = bound_of(alone(product(m, 4096, 4096)), chip(), "fp16")
        moved = 2 * (m * 4096 + 4096 * 4096 + m * 4096)
        least = max(2 * m * 4096 * 4096 / 100e12, moved / 300e9)
        assert least * (1 - 1e-9) <= bound.seconds.low <= bound.seconds.likely
        assert bound.seconds.likely <= bound.seconds.high


def test_the_side_changes_at_the_balance_point() -> None:
    one = bound_of(alone(product(1, 4096, 4096)), chip(), "fp16").layers[0]
    many = bound_of(alone(product(4096, 4096, 4096)), chip(), "fp16").layers[0]
    assert (one.limit, many.limit) == ("memory", "compute")
    assert one.cause.startswith("small batch: each weight is used 1 times")


@pytest.mark.parametrize("shape", [(8192, 8192, 8192), (16, 16384, 16384), (1, 32768, 16384)])
def test_a_product_alone_takes_what_the_products_model_says(shape: tuple[int, int, int]) -> None:
    """None of these fits on the chip, so that every operand comes from main memory in both."""
    predicted = predict_gemm(BIG, "bf16", *shape)
    bound = bound_of(alone(product(*shape)), BIG, "bf16")
    assert bound.seconds.likely == pytest.approx(predicted.seconds, rel=0.02)
    assert bound.basis == "this chip"


def test_weights_that_fit_stay_on_the_chip() -> None:
    small, large = product(1, 1024, 1024), product(1, 8192, 8192)
    kept, read = bound_of(alone(small), BIG, "bf16"), bound_of(alone(large), BIG, "bf16")
    assert (kept.resident, read.resident) == (True, False)
    main = read.layers[0].part("HBM2e")
    near = kept.layers[0].part("L2")
    assert main is not None
    assert near is not None
    assert main.bytes >= 2 * 8192 * 8192
    assert near.bytes == 2 * 1024 * 1024


def test_a_result_stays_on_the_chip_until_it_is_read() -> None:
    first, second = product(64, 64, 64), product(64, 64, 64, first=1)
    workload = Workload("w", (first, second), 1)
    assert resident(workload, 1 << 20).tensors == frozenset({1})
    assert resident(workload, 1 << 10).tensors == frozenset()


@pytest.mark.parametrize("name", [BIG, "mi300x", "tpu-v5e", "raspberry-pi-5"])
def test_more_of_anything_is_never_slower(name: str) -> None:
    sheet = load_chip(name)
    precision = sheet.precisions()[-1]
    main = sheet.main_memory
    assert main is not None
    assert main.bandwidth is not None
    faster = replace(main, bandwidth=replace(main.bandwidth, value=2 * main.bandwidth.value))
    memories = tuple(faster if m is main else m for m in sheet.memories)
    wider = replace(sheet, memories=memories)
    for m in (1, 128, 2048):
        workload = alone(product(m, 8192, 8192))
        before = bound_of(workload, sheet, precision).seconds.likely
        assert bound_of(workload, wider, precision).seconds.likely <= before * (1 + 1e-9)
    times = [
        bound_of(alone(product(m, 4096, 4096)), sheet, precision).seconds.likely
        for m in (1, 16, 256, 4096)
    ]
    assert all(a <= b * 1.02 for a, b in pairwise(times))


def test_a_narrow_layer_on_an_array() -> None:
    """64 columns and 64 rows of 256 × 256: a sixteenth of the multipliers work."""
    roof = roof_of(load_chip("tpu-v1"), "int8")
    wide, narrow = occupied((Product(1, 4096, 256, 256), Product(1, 4096, 64, 64)), roof)
    assert narrow.edges == pytest.approx(1 / 16)
    assert wide.edges == wide.waves == 1
    assert (
        wide.seconds
        == narrow.seconds
        == pytest.approx(4096 / (700e6 * roof.fractions.compute), rel=0.01)
    )


def test_few_rows_on_an_array_wait_for_the_next_tile() -> None:
    roof = roof_of(load_chip("tpu-v1"), "int8")
    (one,) = occupied((Product(1, 8, 4096, 4096),), roof)
    assert one.waves == pytest.approx(8 / 256)
    assert "8 rows stream past a tile that takes 256 cycles" in one.why


def test_tiles_of_a_wave() -> None:
    roof = roof_of(load_chip(BIG), "bf16")
    (one,) = occupied((Product(1, 128, 128, 4096),), roof)
    assert one.waves < 0.9
    (many,) = occupied((Product(64, 1024, 1024, 1024),), roof)
    assert many.edges * many.waves > 0.9
    assert "on 108 processors" in many.why


def test_the_batch_that_cures_does() -> None:
    layer = product(8, 8192, 8192)
    found = bound_of(alone(layer, batch=8), BIG, "bf16").layers[0]
    assert found.limit == "HBM2e"
    assert found.cure_batch is not None
    cured = bound_of(alone(scaled(layer, found.cure_batch // 8)), BIG, "bf16").layers[0]
    before = bound_of(alone(scaled(layer, found.cure_batch // 16)), BIG, "bf16").layers[0]
    assert cured.limit == "compute"
    assert before.limit != "compute" or before.cause.startswith(("wave tail", "too few"))


def test_no_batch_cures_attention_of_one_token() -> None:
    """Keys and values grow with the batch as the work does."""
    cache = 32 * 4096 * 128
    operands = (
        Operand("q", 0, "input", 32 * 128, 32 * 128, 16),
        Operand("k", 1, "kv", cache, cache, 16),
        Operand("v", 2, "kv", cache, cache, 16),
        Operand("y", 3, "output", 32 * 128, 32 * 128, 16),
    )
    products = (Product(32, 1, 4096, 128), Product(32, 1, 128, 4096))
    macs = sum(p.macs for p in products)
    axes = (("batch", 1), ("heads", 32), ("tokens", 1))
    layer = Layer("a", "Attention", "attention", macs, 0, operands, products, axes)
    found = bound_of(alone(layer), BIG, "fp16").layers[0]
    assert found.limit == "HBM2e"
    assert found.cause.startswith("keys and values: each is used by few queries; 1")
    assert found.cure_batch is None


def test_every_chip_answers_or_says_why_not() -> None:
    workload = alone(product(64, 512, 512))
    refused = []
    for name in chip_names():
        sheet = load_chip(name)
        for precision in sheet.precisions() or ["int8"]:
            try:
                bound = bound_of(workload, sheet, precision)
            except RidgelineError as error:
                refused.append((name, str(error)))
                continue
            assert 0 < bound.seconds.low <= bound.seconds.likely <= bound.seconds.high
            assert bound.utilisation is not None
            assert 0 < bound.utilisation <= 1
    assert all("no roofline" in text or "has no peak" in text for _, text in refused)
    assert len({name for name, _ in refused}) < len(chip_names()) / 4


def test_a_machine_is_a_chip_too() -> None:
    machine = api.load_machine("tpu-v1")
    data = CASES["grouped convolution"][0]
    bound: Bound = api.analyze(data, machine, "int8", batch=1)
    assert bound.chip.name == "tpu-v1"
    assert bound.peak_operations_per_s == pytest.approx(91.75e12, rel=0.001)
    assert bound.workload.macs == 73_728


@pytest.mark.parametrize(
    ("name", "precision", "text"),
    [
        (BIG, "fp8", "--precision: a100-sxm4-80gb has no peak in 'fp8'. It has: fp64, fp32, "),
        (BIG, "fp17", "--precision: there is no precision 'fp17'. Did you mean 'fp16'"),
        (
            "hailo-10h",
            "int8",
            "--chip: hailo-10h has no roofline: no source states the rate of its memory. Take",
        ),
        ("a100", "fp16", "chips: there is no chip 'a100'. Did you mean 'a100-pcie-40gb' or "),
    ],
)
def test_what_cannot_be_said(name: str, precision: str, text: str) -> None:
    with pytest.raises(RidgelineError) as error:
        bound_of(alone(product(1, 16, 16)), name, precision)
    assert str(error.value).startswith(text)


def test_a_model_that_does_not_fit() -> None:
    with pytest.raises(RidgelineError) as error:
        bound_of(alone(product(1, 200_000, 200_000)), "a100-sxm4-40gb", "fp16")
    assert str(error.value) == (
        "--chip: w needs 80 GB in fp16 at batch 1, and a100-sxm4-40gb has 40 GB of HBM2. "
        "Take a narrower precision, a smaller batch, or a chip with more memory"
    )
    bound_of(alone(product(1, 200_000, 200_000)), "a100-sxm4-40gb", "int4_wo")


def chain(side: int, layers: int, rows: int) -> Workload:
    """Products one after another, each with a weight of its own."""
    made: list[Layer] = []
    for i in range(layers):
        operands = (
            Operand("x", i, "input", rows * side, rows * side, 16),
            Operand("w", i + 100, "weight", side * side, side * side, 16),
            Operand("y", i + 1, "output", rows * side, rows * side, 16),
        )
        one = Product(1, rows, side, side)
        made.append(
            Layer("p", "MatMul", "product", one.macs, 0, operands, (one,), (("rows", rows),))
        )
    return Workload("chain", tuple(made), rows)


def test_residence_of_a_larger_batch_is_that_of_the_larger_workload() -> None:
    for side, rows, room in ((64, 8, 1 << 16), (64, 8, 1 << 14), (256, 2, 1 << 20), (16, 1, 4096)):
        workload = chain(side, 5, rows)
        for times in (1, 2, 8, 64):
            assert resident(workload, room, times) == resident(grown(workload, times), room)


@pytest.mark.parametrize("name", ["l4", "t4", "jetson-agx-orin-64gb", "tpu-v5e"])
def test_at_the_batch_named_every_layer_is_cured(name: str) -> None:
    """Results that stay on the chip at a small batch do not at a large one."""
    sheet = load_chip(name)
    named = 0
    for side in (32, 64, 128, 512, 2048):
        workload = chain(side, 4, 16)
        bound = bound_of(workload, sheet, "int8")
        for place, one in enumerate(bound.layers):
            if one.cure_batch is not None:
                named += 1
                later = bound_of(grown(workload, one.cure_batch // 16), sheet, "int8")
                assert later.layers[place].limit == "compute"
    assert named


def test_a_batch_that_memory_does_not_hold_cures_nothing() -> None:
    layer = product(1, 8192, 8192)
    free = bound_of(alone(layer), chip("fp16=100T", "300G"), "fp16").layers[0]
    assert free.cure_batch == 512
    sheet = chip("fp16=100T", "300G")
    main = sheet.memories[0]
    weights, row = 2 * 8192 * 8192, 2 * 2 * 8192
    for rows, cure in ((512, 512), (511, None)):
        size = Sourced(weights + row * rows, "bytes", "test", "2026", "user")
        small = replace(sheet, memories=(replace(main, size=size),))
        assert bound_of(alone(layer), small, "fp16").layers[0].cure_batch == cure


def test_a_start_takes_as_long_in_every_format() -> None:
    for name in ("l4", BIG, "h100-sxm5"):
        starts = {
            roof_of(load_chip(name), precision).fractions.launch_seconds
            for precision in ("fp16", "bf16", "int8", "int8_wo", "int4_wo")
        }
        assert len(starts) == 1
        assert 1e-6 < starts.pop() < 1e-5


def test_the_host_link_is_the_slowest_of_a_sheet_whatever_its_name() -> None:
    def link(name: str, rate: float) -> Link:
        return Link(name, Sourced(rate, "bytes/s", "test", "2026", "user"))

    sheet = replace(chip(), links=(link("NVLink", 900e9), link("USB3", 0.5e9), Link("PCIe5")))
    assert roof_of(sheet, "fp16").link_bytes_per_s == 0.5e9
    assert rates_of(sheet, ("fp16",)).link_bytes_per_s == 0.5e9
    assert roof_of(chip(), "fp16").link_bytes_per_s is None


def test_caches_do_not_cross_the_host_link() -> None:
    layer = Layer(
        "a",
        *("Attention", "attention", 1 << 20, 0),
        (
            Operand("q", 0, "input", 1024, 1024, 16),
            Operand("k", 1, "kv", 1 << 24, 1 << 24, 16),
            Operand("y", 2, "output", 1024, 1024, 16),
        ),
        (Product(1, 1, 1024, 1024),),
    )
    q, k, y = layer.operands
    host = bound_of(Workload("w", (layer,), 1, (q, k), (y,)), "l4", "fp16")
    kept = bound_of(Workload("w", (layer,), 1, (q,), (y,), caches=(k,)), "l4", "fp16")
    assert (host.layers[0].limit, kept.layers[0].limit) == ("host link", "GDDR6")
    link = kept.layers[0].part("host link")
    assert link is not None
    assert link.bytes == 2 * (1024 + 1024)


def test_what_no_source_states_is_counted_as_nothing_and_said() -> None:
    workload = chain(64, 3, 16)
    rates = "no source states the rate of"
    vector = "no source states a peak for element by element work"
    tpu = bound_of(workload, "tpu-v5e", "bf16").notes
    assert [note for note in tpu if note.startswith(rates)] == [
        f"{rates} on-chip memory: its reads are counted as nothing"
    ]
    # These products have no vector work: nothing is left out.
    assert not [note for note in tpu if note.startswith(vector)]
    assert [
        note
        for note in bound_of(alone(product(4, 64, 64)), "tpu-v5e", "bf16").notes
        if note.startswith(vector)
    ]
    for note in bound_of(alone(product(4, 64, 64)), "l4", "fp16").notes:
        assert not note.startswith((rates, vector))
    # Nothing of this product finds room on the chip, so that nothing is read there.
    large = bound_of(alone(product(64, 16384, 16384)), "tpu-v5e", "bf16").notes
    assert not [note for note in large if note.startswith(rates)]
