"""Which passes run in which order: one named line each, every stage dumpable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ridgeline.frontend.evaluate import evaluate_constant
from ridgeline.ir import Graph
from ridgeline.passes.absorb_qdq import absorb_qdq
from ridgeline.passes.activations import name_activations
from ridgeline.passes.dead import remove_dead
from ridgeline.passes.finite import check_finite
from ridgeline.passes.fold import drop_identities, fold, fold_constants
from ridgeline.passes.fold_before import fold_before
from ridgeline.passes.fuse import fuse
from ridgeline.passes.normalizations import name_normalizations
from ridgeline.passes.outputs import compute_outputs, constants_last
from ridgeline.passes.reductions import lower_reductions
from ridgeline.passes.transposed import lower_transposed

Pass = Callable[[Graph], Graph]
Dump = Callable[[str, Graph], None]


def _fold(graph: Graph) -> Graph:
    with np.errstate(over="ignore", invalid="ignore"):  # check_finite tells them with their node
        return check_finite(fold(graph, evaluate_constant))


def _fold_all(graph: Graph) -> Graph:
    with np.errstate(over="ignore", invalid="ignore"):
        lowered = lower_transposed(fold_before(_fold(graph)))
        return check_finite(lower_reductions(lowered))


def _finish(graph: Graph) -> Graph:
    return compute_outputs(constants_last(remove_dead(graph)))


def _finish_quantised(graph: Graph) -> Graph:
    """The order of operands stays: in a quantised Add it decides how ties round."""
    return compute_outputs(remove_dead(graph))


def _constants(graph: Graph) -> Graph:
    with np.errstate(over="ignore", invalid="ignore"):
        return drop_identities(fold_constants(graph, evaluate_constant))


# Activations and normalizations are named before scales of theirs can go into the weights.
FLOAT_PASSES: tuple[tuple[str, Pass], ...] = (
    ("constants", _constants),
    ("activations", name_activations),
    ("normalizations", name_normalizations),
    ("fold", _fold_all),
    ("fuse", fuse),
    ("finish", _finish),
)

# Fusing first brings an activation's Clip into the operator that absorb_qdq then quantises.
QDQ_PASSES: tuple[tuple[str, Pass], ...] = (
    ("fold", _fold),
    ("fuse", fuse),
    ("absorb_qdq", absorb_qdq),
    ("finish", _finish_quantised),
)


def run_passes(
    graph: Graph, passes: tuple[tuple[str, Pass], ...], dump: Dump | None = None
) -> Graph:
    """The graph after every pass; `dump(name, graph)` is called after each."""
    for name, apply in passes:
        graph = apply(graph)
        if dump is not None:
            dump(name, graph)
    return graph


def is_quantised(graph: Graph) -> bool:
    """Whether the graph came from a quantised file: some value that it computes is quantised."""
    values = [*graph.inputs, *(v for n in graph.nodes for v in n.outputs)]
    return any(v.type.quant is not None for v in values)


def prepare(graph: Graph, dump: Dump | None = None) -> Graph:
    """The passes that suit a graph as it was read: QDQ_PASSES for a quantised one."""
    return run_passes(graph, QDQ_PASSES if is_quantised(graph) else FLOAT_PASSES, dump)
