"""The classification card: sides and reasons from counts, on chips of every kind."""

from __future__ import annotations

import re

import pytest

from ridgeline.chips.loader import chip_names, load_chip
from ridgeline.errors import RidgelineError
from ridgeline.predict.card import Operation, Tensor, card, place


def test_intensities_are_those_of_closed_forms() -> None:
    found = {(p.operation.family, p.operation.case): p for p in card(load_chip("h100-sxm5"))}
    large = found["product", "batch 4096, 4096 x 4096"]
    assert large.intensity == pytest.approx(4096 / 3)  # 2n³ over three matrices of 2n² bytes
    assert found["product", "batch 1, 4096 x 4096"].intensity == pytest.approx(1, rel=1e-3)
    attention = found["attention", "8192 tokens, scores on chip"]
    assert attention.intensity == pytest.approx(8192 / 2)  # 4s²d over 4sd elements of two bytes
    depthwise = found["depthwise", "3 x 3, 256 channels"]
    assert depthwise.intensity == pytest.approx(9 / 2, rel=0.01)
    assert large.ridge == pytest.approx(989.4e12 / 3.35e12)


def test_sides_are_those_that_everybody_measures() -> None:
    found = {
        (p.operation.family, p.operation.case): p.side for p in card(load_chip("a100-sxm4-80gb"))
    }
    assert found["product", "batch 1, 4096 x 4096"] == "memory"
    assert found["product", "batch 4096, 4096 x 4096"] == "compute"
    assert found["convolution", "batch 16, 3 x 3, 256 channels"] == "compute"
    for (family, case), side in found.items():
        if family in ("depthwise", "normalisation", "elementwise", "softmax", "token by token"):
            assert side == "memory", case


@pytest.mark.parametrize("name", chip_names())
def test_every_chip_has_a_card_or_says_why_not(name: str) -> None:
    chip = load_chip(name)
    if not chip.peaks or chip.main_memory is None:
        with pytest.raises(RidgelineError, match=r"no roofline|no peak"):
            card(chip)
        return
    for one in card(chip):
        assert (one.side == "compute") == (one.intensity >= one.ridge)
        assert 0 < one.attainable <= 1
        assert one.seconds > 0
        assert "operation" in one.reason


def test_the_reason_says_how_often_an_element_must_be_used() -> None:
    one = Operation("product", "", 2.0 * 1000, (Tensor("weights", 900), Tensor("inputs", 100)))
    made = place(one, 1e12, 1e11, 1.0)
    assert made.side == "memory"
    assert made.reason.startswith("weights are 90 % of what moves; an element serves 2 operations")
    needed = re.search(r"and (\d+) would fill", made.reason)
    assert needed is not None
    assert int(needed[1]) == 10
    # That many operations an element do fill it.
    enough = Operation("product", "", 10.0 * 1000, one.tensors)
    assert place(enough, 1e12, 1e11, 1.0).side == "compute"


def test_what_multiplies_nothing_has_the_ridge_of_the_vector_units() -> None:
    chip = load_chip("t4")
    add = next(p for p in card(chip) if p.operation.family == "elementwise")
    assert add.ridge == pytest.approx(8.1e12 / 320e9)


def test_a_precision_that_the_chip_lacks_names_those_it_has() -> None:
    with pytest.raises(RidgelineError) as caught:
        card(load_chip("t4"), "bf16")
    assert str(caught.value) == (
        "--precision: t4 has no peak in 'bf16'. It has: fp32, fp16, int8, int4"
    )
    with pytest.raises(RidgelineError, match=r"no precision 'int9'\. Did you mean 'int8'"):
        card(load_chip("t4"), "int9")
