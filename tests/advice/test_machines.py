"""What a layer takes after a change, from its ledger; machines changed; what cannot be tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ridgeline
from advice.small_models import anomaly_detection
from ridgeline.advice.foresee import after
from ridgeline.advice.machines import CHANGES, MachineChange, advise_machine, changed
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph
from ridgeline.machine.loader import load_machine
from ridgeline.quant.recipe import Recipe
from ridgeline.render.advice import applied
from ridgeline.results.rows import LayerRow


def row(ledger: dict[str, float]) -> LayerRow:
    whole = sum(ledger.values())
    return LayerRow("x", "Conv", "array", (), 0, 0, 0, 0, 0, 0, whole, 0.0, 0.0, ledger=ledger)


def test_what_a_layer_waited_for_shrinks_and_what_was_hidden_stays_hidden() -> None:
    # 100 cycles of memory, 40 of them behind the array: at twice the rate 10 are waited for.
    layer = row({"useful": 40.0, "weight stall": 60.0})
    was = {"compute": 40.0, "memory": 100.0}
    assert after(layer, was, was) == 100.0
    assert after(layer, was, {"compute": 40.0, "memory": 50.0}) == 50.0
    assert after(layer, was, {"compute": 40.0, "memory": 20.0}) == 40.0
    # Half the array's time hides half as much.
    assert after(layer, was, {"compute": 20.0, "memory": 100.0}) == 100.0


def test_what_came_early_behind_other_layers_is_as_many_bytes() -> None:
    # 200 cycles of weights: 60 waited for, 40 behind the array's, 100 while others ran.
    layer = row({"useful": 40.0, "weight stall": 60.0})
    was = {"compute": 40.0, "memory": 200.0}
    assert after(layer, was, {"compute": 40.0, "memory": 100.0}) == 40.0 + (100 - 40 - 50)
    # A longer array gives the same weights more time.
    assert after(layer, was, {"compute": 70.0, "memory": 200.0}) == 100.0
    # A value that finds no room now is waited for as far as the array does not hide it.
    assert after(row({"useful": 40.0}), {"compute": 40.0}, {"compute": 40.0, "memory": 90.0}) == 90


def test_time_of_no_resource_stays() -> None:
    layer = row({"useful": 10.0, "drain": 5.0, "issue": 2.0})
    assert after(layer, {"compute": 10.0}, {"compute": 5.0}) == 12.0


def test_changes_make_machines_that_are_legal() -> None:
    for name in ("tiny-8", "tiny-16", "tpu-v1"):
        machine = load_machine(name)
        for change in CHANGES:
            made = changed(machine, change)
            assert (made == machine) == (not change.factors)
    assert changed(load_machine("tiny-8"), CHANGES[3]).array.rows == 16


def graph_at(source: bytes, times: int) -> Graph:
    graph = ridgeline.read_onnx(source, batch=times)
    value = graph.inputs[0]
    samples = np.random.default_rng(0).random((2 * times, *value.type.shape[1:]), np.float32)
    return ridgeline.quantize(graph, {value.name: samples})


def test_a_batch_that_stays_as_it_was_gains_nothing() -> None:
    """A shape that is given wins over the batch asked for: a run is still of one sample."""
    graph = graph_at(anomaly_detection(), 1)
    made = advise_machine(lambda times, form=None: graph, load_machine("tiny-8"))
    (batched,) = [one for one in made if one.change.batch > 1]
    assert batched.predicted is None
    assert "the batch is fixed" in batched.reason


def test_a_batch_that_is_not_to_be_had_is_said() -> None:
    graph = graph_at(anomaly_detection(), 1)

    def fixed(times: int, form: str | None = None) -> Graph:
        if times > 1:
            raise RidgelineError("the model fixes a batch of 1")
        return graph

    made = advise_machine(fixed, load_machine("tiny-16"))
    (one,) = [x for x in made if x.change.batch > 1]
    assert (one.predicted, one.achieved, one.error) == (None, None, None)
    assert one.reason == "the model fixes a batch of 1"
    assert replace(made[0], achieved=made[0].predicted).error == pytest.approx(0.0)
    assert "not possible: batch x 4: the model fixes a batch of 1" in applied("m", "t", 1, made)


def test_what_cannot_be_applied_says_why() -> None:
    graph = graph_at(anomaly_detection(), 1)
    made = advise_machine(lambda times, form=None: graph, load_machine("tiny-16"))
    reasons = {one.change.name: one.reason for one in made if one.reason}
    assert reasons.pop("batch x 4").startswith("the batch is fixed: input 'x' stays [1, 640]")
    assert reasons == {
        "8-bit activations": "activations have 8 bits, the fewest that the array takes",
        "keep all on chip: buffer x 1": "every value finds room in the unified buffer already",
        "fuse more": "the compiler fuses all that the machine runs as one",
        "other tiles": "the compiler tried others, and strips and parts: the run is of the best",
        "int4 weights": "the array takes int8 weights only, which the model has",
        "2:4 sparse weights": (
            "the array multiplies zeros too: its machine file has no sparse rate"
        ),
        "pad channels": (
            "a tile narrower than the array takes its cycles already: nothing is saved"
        ),
    }
    assert all(one.predicted is None or not one.reason for one in made)


def test_a_file_of_16_bits_is_not_narrowed() -> None:
    recipe = Recipe(activations="int16")
    graph = ridgeline.read_onnx(anomaly_detection())
    samples = np.random.default_rng(0).random((2, 640), np.float32)
    wide = ridgeline.quantize(graph, {"x": samples}, recipe)
    made = advise_machine(lambda times, form=None: wide, load_machine("edge-4tops"))
    (one,) = [x for x in made if x.change.activations]
    assert one.reason == "the model's file says 16 bits: quantise the float model anew"


def test_loops_are_turned_and_fields_multiplied() -> None:
    machine = load_machine("tiny-16")
    turned = MachineChange("x", settings=(("array.dataflow", "output-stationary"),))
    assert changed(machine, turned).array.dataflow == "output-stationary"
    assert turned.planned
    assert not CHANGES[0].planned
    assert not CHANGES[1].planned
    assert all(change.planned for change in CHANGES[2:])
