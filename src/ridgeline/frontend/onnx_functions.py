"""A model's own functions put where they are called, after it is known how much that makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx.inliner

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_bodies import inner_nodes

# Functions that call functions grow as powers do: a file of a few kilobytes could ask for any size.
MAX_INLINED_NODES = 1_000_000

_AGAIN = "The file is damaged: export the model again."

_Key = tuple[str, str]


def inlined(model: Any, where: str) -> Any:
    """The ModelProto without functions of its own.

    Raises RidgelineError for functions that are defined twice, call themselves, or make more than
    `MAX_INLINED_NODES` nodes.
    """
    if not model.functions:
        return model
    functions: dict[_Key, Any] = {}
    for function in model.functions:
        key = (function.domain, function.name)
        if key in functions:
            raise RidgelineError(
                f"function '{_name(key)}' is defined twice", where=where, fix=_AGAIN
            )
        functions[key] = function
    sizes: dict[_Key, int] = {}
    for key in functions:
        _measure(key, functions, sizes, where)
    _check_size(_nodes(model.graph, functions, sizes), "the model", where)
    try:
        return onnx.inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        reason = str(error).splitlines()[0].rpartition(": ")[2]
        raise RidgelineError(
            f"its functions cannot be put where they are called ({reason})", where=where, fix=_AGAIN
        ) from error


def _name(key: _Key) -> str:
    return "::".join(filter(None, key))


def _measure(key: _Key, functions: Mapping[_Key, Any], sizes: dict[_Key, int], where: str) -> None:
    """Put how many nodes a call of the function makes into `sizes`, and of those that it calls."""
    path: list[_Key] = [key]
    while path:
        called = [k for k in _calls(functions[path[-1]], functions) if k not in sizes]
        again = next((k for k in called if k in path), None)
        if again is not None:
            raise RidgelineError(
                f"function '{_name(again)}' calls itself", where=where, fix="Export it as a Loop."
            )
        if called:
            path.append(called[0])
            continue
        done = path.pop()
        sizes[done] = _nodes(functions[done], functions, sizes)
        _check_size(sizes[done], f"function '{_name(done)}'", where)


def _calls(body: Any, functions: Mapping[_Key, Any]) -> list[_Key]:
    keys = [(n.domain, n.op_type) for node in body.node for n in (node, *inner_nodes(node))]
    return [key for key in dict.fromkeys(keys) if key in functions]


def _nodes(body: Any, functions: Mapping[_Key, Any], sizes: Mapping[_Key, int]) -> int:
    every = (n for node in body.node for n in (node, *inner_nodes(node)))
    return sum(sizes[k] if (k := (n.domain, n.op_type)) in functions else 1 for n in every)


def _check_size(count: int, what: str, where: str) -> None:
    if count > MAX_INLINED_NODES:
        raise RidgelineError(
            f"{what} is {count:,} nodes when its functions are put where they are called, above the"
            f" limit of {MAX_INLINED_NODES:,}",
            where=where,
            fix="Export the model without functions that call each other so often.",
        )
