"""What a layer takes after a change, from its ledger; machines changed; what cannot be tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ridgeline
from advice.small_models import anomaly_detection
from ridgeline.advice.machines import CHANGES, advise_machine, after, changed
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph
from ridgeline.machine.loader import load_machine
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
    made = advise_machine(lambda times: graph, load_machine("tiny-8"))
    (batched,) = [one for one in made if one.change.batch > 1]
    assert batched.predicted is None
    assert "the batch is fixed" in batched.reason


def test_a_batch_that_is_not_to_be_had_is_said() -> None:
    graph = graph_at(anomaly_detection(), 1)

    def fixed(times: int) -> Graph:
        if times > 1:
            raise RidgelineError("the model fixes a batch of 1")
        return graph

    made = advise_machine(fixed, load_machine("tiny-16"))
    (one,) = [x for x in made if x.change.batch > 1]
    assert (one.predicted, one.achieved, one.error) == (None, None, None)
    assert one.reason == "the model fixes a batch of 1"
    assert replace(made[0], achieved=made[0].predicted).error == pytest.approx(0.0)
    assert "not possible: batch x 4: the model fixes a batch of 1" in applied("m", "t", 1, made)
