"""From a file to workloads: read once, and again for each batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_file import load_model
from ridgeline.frontend.onnx_functions import inlined
from ridgeline.frontend.onnx_reader import read_model
from ridgeline.frontend.onnx_rebatch import rebatched
from ridgeline.ir import Graph
from ridgeline.workload.build import stepped, workload_of
from ridgeline.workload.layer import Workload

Shapes = Mapping[str, tuple[int, ...]]
MOST_SAMPLES = 1 << 20


def read_workloads(
    source: Path | str | bytes,
    batches: Sequence[int | None] = (None,),
    shapes: Shapes | None = None,
    *,
    fused: bool = True,
) -> list[Workload]:
    """The workload of an ONNX file for each batch; None takes the file's, or 1 where it is open.

    `shapes` are of one sample, or of the batch itself. Weights are not read and may be missing.
    Without `fused` every node is a layer. A batch that the file fixes is rewritten. Raises
    RidgelineError naming the file, node or input.
    """
    model, where = load_model(source, weights=False)
    plain = inlined(model, where)
    return [_workload(plain, where, shapes, batch, fused) for batch in batches]


def _workload(
    model: Any, where: str, shapes: Shapes | None, batch: int | None, fused: bool
) -> Workload:
    if batch is not None and not 1 <= batch <= MOST_SAMPLES:
        raise RidgelineError(
            f"a batch of {batch}", where="--batch", fix=f"Give a number from 1 to {MOST_SAMPLES}"
        )
    fixed = _fixed_batch(model) if batch is not None else None
    if batch is None or fixed is None or fixed == batch:
        bound = shapes if batch is None or not shapes else _of_batch(model, shapes, batch)
        graph = read_model(model, where, bound, batch, weights=False)
        _check_axis(graph, batch, where)
        return workload_of(graph, batch, fused=fused)
    graph = read_model(model, where, shapes, weights=False)
    _check_axis(graph, batch, where)
    before = workload_of(graph)
    larger = {name: (batch, *shape[1:]) for name, shape in (shapes or {}).items()}
    try:
        again = read_model(rebatched(model, graph, batch, where), where, larger, weights=False)
    except RidgelineError as error:
        raise _no_batch(batch, fixed, where, error.what) from error
    found = workload_of(again, batch, fused=fused)
    # What is done for each sample grows with them, or something was rewritten that should not be.
    if before.macs is not None and found.macs != before.macs * batch // fixed:
        raise _no_batch(batch, fixed, where, "its work would not grow with the batch")
    note = f"the file fixes a batch of {fixed}; its first dimensions were rewritten to {batch}"
    return replace(found, notes=(*found.notes, note))


def _check_axis(graph: Graph, batch: int | None, where: str) -> None:
    """A batch is a first dimension, and must not be taken for steps in time."""
    cell = stepped(graph) if batch is not None else None
    if cell is None:
        return
    value = graph.inputs[0]
    dims = ",".join(map(str, (value.type.shape[0], batch, *value.type.shape[2:])))
    raise RidgelineError(
        f"the first dimension of input '{value.name}' is the steps of {cell.op} '{cell.name}', not"
        " the batch",
        where=where,
        fix=f"Leave --batch out and give the whole shape: --shape {value.name}={dims}",
    )


def _no_batch(batch: int, fixed: int, where: str, reason: str) -> RidgelineError:
    return RidgelineError(
        f"the batch is {batch}, the model fixes {fixed}, and rewriting it fails ({reason})",
        where=where,
        fix="Leave --batch out, or export the model with an open first dimension",
    )


def _of_batch(model: Any, shapes: Shapes, batch: int) -> dict[str, tuple[int, ...]]:
    """The shapes at a batch: one that was given for one sample is taken for all of them, where the
    file leaves the first dimension open.
    """
    declared = {v.name: v.type.tensor_type.shape.dim for v in model.graph.input}
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        dims = declared.get(name)
        if not dims or dims[0].dim_value > 0 or shape[0] == batch:
            found[name] = shape
        elif shape[0] == 1:
            found[name] = (batch, *shape[1:])
        else:
            raise RidgelineError(
                f"--batch {batch} and --shape {name}={','.join(map(str, shape))} differ in the"
                " number of samples, the first dimension",
                fix="Give the shape of one sample, or leave one of them out",
            )
    return found


def _fixed_batch(model: Any) -> int | None:
    """The first dimension that every input fixes; None where one is open."""
    initialised = {t.name for t in model.graph.initializer}
    found: set[int | None] = set()
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name not in initialised and dims:
            found.add(int(dims[0].dim_value) if dims[0].dim_value > 0 else None)
    return found.pop() if len(found) == 1 else None
