"""Open dimensions of a model's inputs, bound to numbers: by --shape, by the batch, or refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.errors import RidgelineError, did_you_mean

Dim = int | str

# ONNX Runtime counts elements in 64 bits and many of its loops in 32.
MAX_DIMENSION = (1 << 31) - 1
MAX_ELEMENTS = 1 << 34


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """A graph input as the file declares it: an open dimension is its name, or "?" without one."""

    name: str
    element: int
    dims: tuple[Dim, ...] | None


def declared_inputs(graph: Any, where: str) -> list[DeclaredInput]:
    """The graph's inputs, without initialisers that are listed as inputs too (IR version 3)."""
    initialised = {i.name for i in graph.initializer}
    declared: list[DeclaredInput] = []
    for value in graph.input:
        if value.name in initialised:
            continue
        if not value.type.HasField("tensor_type"):
            raise RidgelineError(
                f"input '{value.name}' is not a tensor",
                where=where,
                fix="Sequences, maps and optionals are not supported: give tensors.",
            )
        tensor = value.type.tensor_type
        dims = tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
        if dims and len(dims) > 1 and dims[0] == 0:
            dims = ("?", *dims[1:])  # some exporters write 0 for an open batch
        declared.append(DeclaredInput(value.name, tensor.elem_type, dims))
    return declared


def _dim(dim: Any) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return dim.dim_param or "?"


def bind_shapes(
    inputs: list[DeclaredInput],
    shapes: Mapping[str, tuple[int, ...]] | None,
    batch: int | None,
    where: str,
) -> dict[str, tuple[int, ...]]:
    """A number for each dimension of each input.

    A shape given for one input binds the dimension names that it shares with others. Without
    `batch`, an open first dimension that nothing else binds is 1. Raises RidgelineError with the
    option to pass when a dimension stays open.
    """
    given = dict(shapes or {})
    known = [i.name for i in inputs]
    for name in given:
        if name not in known:
            raise RidgelineError(
                f"--shape names '{name}', which is no input of the model",
                where=where,
                fix=did_you_mean(name, known),
            )
    symbols: dict[str, int] = {}
    for entry in inputs:
        if entry.name in given:
            _unify(entry, given[entry.name], symbols, where)
    if batch is not None:
        _bind_batch(inputs, given, batch, symbols, where)
    bound = {i.name: given.get(i.name) or _resolve(i, batch, symbols, where) for i in inputs}
    for name, shape in bound.items():
        _limit(name, shape, where)
    return bound


def _limit(name: str, shape: tuple[int, ...], where: str) -> None:
    text = f"input '{name}' is [{', '.join(map(str, shape))}]"
    if max(shape, default=0) > MAX_DIMENSION:
        raise RidgelineError(
            f"{text}, and {max(shape)} is above the limit of {MAX_DIMENSION:,} for a dimension",
            where=where,
            fix="Use a smaller batch or --shape.",
        )
    if math.prod(shape) > MAX_ELEMENTS:
        raise RidgelineError(
            f"{text}: {math.prod(shape):,} elements are above the limit of {MAX_ELEMENTS:,}",
            where=where,
            fix="Use a smaller batch or --shape.",
        )


def _unify(
    entry: DeclaredInput, shape: tuple[int, ...], symbols: dict[str, int], where: str
) -> None:
    text = ",".join(map(str, shape))
    if any(d < 1 for d in shape):
        raise RidgelineError(
            f"--shape {entry.name}={text} has a dimension below 1",
            where=where,
            fix="Give positive numbers.",
        )
    if entry.dims is None:
        return
    if len(shape) != len(entry.dims):
        raise RidgelineError(
            f"--shape {entry.name}={text} has {len(shape)} dimensions, but the input has "
            f"{len(entry.dims)}: {_dims_text(entry)}",
            where=where,
            fix=f"Pass {_option(entry, symbols)}.",
        )
    for axis, (dim, size) in enumerate(zip(entry.dims, shape, strict=True)):
        if isinstance(dim, int) and dim != size:
            raise RidgelineError(
                f"--shape {entry.name}={text} sets dimension {axis} to {size}, but the model "
                f"fixes it at {dim}: {_dims_text(entry)}",
                where=where,
                fix=f"Pass {_option(entry, symbols)}, or export the model with an open dimension.",
            )
        if isinstance(dim, str) and dim != "?" and symbols.setdefault(dim, size) != size:
            raise RidgelineError(
                f"--shape {entry.name}={text} sets '{dim}' to {size}, but another --shape set it "
                f"to {symbols[dim]}",
                where=where,
                fix="Dimensions of one name must agree.",
            )


def _bind_batch(
    inputs: list[DeclaredInput],
    given: Mapping[str, tuple[int, ...]],
    batch: int,
    symbols: dict[str, int],
    where: str,
) -> None:
    if batch < 1:
        raise RidgelineError(f"the batch is {batch}", where=where, fix="Give a batch of 1 or more.")
    free = [i for i in inputs if i.name not in given and i.dims]
    firsts = [i.dims[0] for i in free if i.dims]
    for dim in firsts:
        if isinstance(dim, str) and dim != "?":
            symbols.setdefault(dim, batch)
    if free and all(isinstance(d, int) and d != batch for d in firsts):
        raise RidgelineError(
            f"the batch is {batch}, but the model fixes the first dimension: {_dims_text(free[0])}",
            where=where,
            fix="Leave the batch out, or export the model with an open first dimension.",
        )


def _resolve(
    entry: DeclaredInput, batch: int | None, symbols: dict[str, int], where: str
) -> tuple[int, ...]:
    if entry.dims is None:
        raise RidgelineError(
            f"input '{entry.name}' has no shape",
            where=where,
            fix=f"Pass --shape {entry.name}=D0,D1,... with its dimensions.",
        )
    dims = [symbols.get(d, d) if isinstance(d, str) else d for d in entry.dims]
    if dims and isinstance(dims[0], str):
        dims[0] = symbols.setdefault(dims[0], batch or 1) if dims[0] != "?" else batch or 1
        dims = [symbols.get(d, d) if isinstance(d, str) else d for d in dims]
    still_open = [d for d in dims if isinstance(d, str)]
    if still_open:
        raise RidgelineError(
            f"input '{entry.name}' has the open dimensions {_dims_text(entry)}",
            where=where,
            fix=f"Pass {_option(entry, symbols)} with numbers for {', '.join(still_open)}.",
        )
    return tuple(d for d in dims if isinstance(d, int))


def _dims_text(entry: DeclaredInput) -> str:
    return "[" + ", ".join(map(str, entry.dims or ())) + "]"


def _option(entry: DeclaredInput, symbols: Mapping[str, int]) -> str:
    """The option to type, for example --shape images=1,3,H,W."""
    dims: list[Dim] = [symbols.get(d, d) if isinstance(d, str) else d for d in entry.dims or ()]
    if dims and isinstance(dims[0], str):
        dims[0] = 1
    return f"--shape {entry.name}=" + ",".join(map(str, dims))
