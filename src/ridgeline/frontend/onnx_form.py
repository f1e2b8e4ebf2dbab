"""Whether a node has the inputs, outputs and attributes that ONNX gives to its operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import defs

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.frontend.onnx_order import name_of

_AGAIN = "The file is damaged: export the model again."
_SINGLE = defs.OpSchema.FormalParameterOption.Single


def check_form(node: Any, opsets: Mapping[str, int], where: str) -> None:
    """Refuse a NodeProto whose inputs, outputs or attributes its operator cannot have.

    So that all who look at a node later find there what ONNX says. An operator that ONNX does not
    define passes. Raises RidgelineError naming the node.
    """
    place = f"{where}, node '{name_of(node)}' ({node.op_type})"
    schema = operator_schema(node, opsets)
    if schema is None:
        return
    _check_names("input", node.input, schema.inputs, schema.min_input, schema.max_input, place)
    _check_names("output", node.output, schema.outputs, schema.min_output, schema.max_output, place)
    given: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.name in given:
            raise RidgelineError(
                f"attribute '{attribute.name}' is given twice", where=place, fix=_AGAIN
            )
        given[attribute.name] = attribute
        if attribute.name not in schema.attributes:
            known = schema.attributes
            fix = did_you_mean(attribute.name, known) if known else _AGAIN
            raise RidgelineError(f"'{attribute.name}' is no attribute of it", where=place, fix=fix)
    for name, formal in schema.attributes.items():
        if name in given:
            _check_attribute(given[name], formal, place)
        elif formal.required:
            raise RidgelineError(f"attribute '{name}' is missing", where=place, fix=_AGAIN)


def operator_schema(node: Any, opsets: Mapping[str, int]) -> Any:
    """The operator's schema at the model's opset, or None when ONNX does not define it."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = opsets.get(domain)
    if version is None or not defs.has(node.op_type, domain=domain):
        return None
    try:
        return defs.get_schema(node.op_type, version, domain)
    except defs.SchemaError:
        return None


def _check_names(
    what: str, names: Sequence[str], formals: Sequence[Any], least: int, most: int, where: str
) -> None:
    if not least <= len(names) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        wanted = f"at least {least}" if most >= 1 << 30 else wanted
        raise RidgelineError(
            f"it has {len(names)} {what}s, and {wanted} belong to it", where=where, fix=_AGAIN
        )
    if what == "output":
        return  # any output may be unwanted
    for index, (name, formal) in enumerate(zip(names, formals, strict=False)):
        if not name and formal.option == _SINGLE:
            raise RidgelineError(
                f"{what} {index} ({formal.name}) is missing", where=where, fix=_AGAIN
            )


def _check_attribute(attribute: Any, formal: Any, where: str) -> None:
    found, wanted = attribute.type, int(formal.type.value)
    names = onnx.AttributeProto.AttributeType
    if found != wanted:
        kind = names.Name(found) if found in names.values() else str(found)
        raise RidgelineError(
            f"attribute '{attribute.name}' is of type {kind}, not {names.Name(wanted)}",
            where=where,
            fix=_AGAIN,
        )
