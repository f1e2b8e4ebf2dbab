"""A bound for people: utilisation and its cause first, then totals, layers and what would cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeline.render.plain import visible, wrapped
from ridgeline.render.table import aligned
from ridgeline.render.units import per_second, percent, quantity, seconds
from ridgeline.roofline.bound import Bound, Interval, LayerTime
from ridgeline.workload.layer import Layer, Workload, total

UNKNOWN = "unknown"
SCHEMA = "ridgeline-analysis/1"
SHOWN = 12
"""Layers in the table, those that take longest; --json has all."""
EXPLAINED = 3
WIDTH = 80
_NAME = 24
_FIELD = 13
_BASIS = {
    "this chip": "85 of 100 single products or models measured on this chip lie in it",
    "its class": "85 of 100 products or models lie in it, measured on other chips of its class",
    "attained fractions": (
        "nobody measured such a chip: from its roofline to the least that others attained"
    ),
}


def analysis(bound: Bound, shown: int = SHOWN) -> str:
    """One workload on one chip, in 80 columns."""
    lines = [
        *wrapped(
            f"{visible(bound.workload.name)} on {visible(bound.chip.title)}, {bound.precision},"
            f" batch {bound.batch}",
            WIDTH,
        ),
        *_field("utilisation", _utilisation(bound)),
        *_field("time", _interval(bound.seconds) + _rate(bound)),
        *_field("interval", _BASIS[bound.basis]),
        *totals(bound.workload),
        "",
        *_table(bound, shown),
        "",
    ]
    for one in _heaviest(bound, EXPLAINED):
        lines += wrapped(explained(one), WIDTH, "  ")
    for remark in bound.notes:
        lines += wrapped(f"note: {visible(remark)}", WIDTH, "  ")
    return "\n".join(lines)


def _utilisation(bound: Bound) -> str:
    dense = quantity(bound.peak_operations_per_s, "OPS")
    if not bound.seconds.likely:
        return "none: the model computes nothing and moves nothing"
    if bound.utilisation is None:
        return f"{UNKNOWN}: not all operations are known"
    cause, share = main_cause(bound)
    return (
        f"{percent(bound.utilisation)} of {dense} dense; {percent(share, 0)} of the time is for"
        f" one cause: {cause}"
    )


def _rate(bound: Bound) -> str:
    return f"; {per_second(bound.samples_per_s)} samples/s" if bound.seconds.likely else ""


def _field(name: str, text: str) -> list[str]:
    lines = wrapped(text, WIDTH - _FIELD)
    return [f"{name:{_FIELD}}{lines[0]}", *(" " * _FIELD + line for line in lines[1:])]


def main_cause(bound: Bound) -> tuple[str, float]:
    """The first words of the cause that most time goes to, and its share of the time."""
    spent: dict[str, float] = {}
    for one in bound.layers:
        cause = one.cause.split(":")[0]
        spent[cause] = spent.get(cause, 0.0) + one.seconds.likely
    if not spent or not bound.seconds.likely:
        return "no layer", 0.0
    cause = max(spent, key=lambda name: spent[name])
    return cause, spent[cause] / bound.seconds.likely


def totals(workload: Workload) -> list[str]:
    """MACs, operations, bytes and parameters; what is unknown says so."""
    layers = workload.layers
    moved = {
        "weights": _summed([layer.weight_bytes for layer in layers]),
        "inputs": _summed([layer.input_bytes for layer in layers]),
        "outputs": _summed([layer.output_bytes for layer in layers]),
        "keys and values": _summed([layer.kv_bytes for layer in layers]),
    }
    parameters = f"parameters   {workload.parameters:,} stored"
    if workload.logical_parameters != workload.parameters:
        parameters += f", {workload.logical_parameters:,} as layers use them"
    return [
        f"MACs         {_count(workload.macs)}",
        f"operations   {_count(workload.operations)} (2 x MACs)",
        f"vector       {_count(workload.vector_operations)} operations besides",
        parameters,
        "bytes moved  " + ", ".join(f"{name} {text}" for name, text in list(moved.items())[:2]),
        "             " + ", ".join(f"{name} {text}" for name, text in list(moved.items())[2:]),
    ]


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _summed(values: Sequence[int | None]) -> str:
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return f"{UNKNOWN} (at least {quantity(sum(known), 'B')})"
    return quantity(sum(known), "B")


def _interval(time: Interval) -> str:
    return f"{seconds(time.likely)} ({seconds(time.low)} to {seconds(time.high)})"


def _heaviest(bound: Bound, count: int) -> list[LayerTime]:
    return sorted(bound.layers, key=lambda one: -one.seconds.likely)[:count]


def _table(bound: Bound, shown: int) -> list[str]:
    rows = [("used", "time", "share", "op/byte", "MACs", "limit", "layer")]
    chosen = _heaviest(bound, shown)
    for one in chosen:
        layer = one.layer
        intensity = layer.operations_per_byte
        rows.append(
            (
                _used(one),
                seconds(one.seconds.likely),
                percent(one.seconds.likely / bound.seconds.likely) if bound.seconds.likely else "-",
                f"{intensity:,.3g}" if intensity else "-" if layer.macs == 0 else UNKNOWN,
                UNKNOWN if layer.macs is None else quantity(layer.macs, ""),
                _short(one.limit, 14),
                _short(visible(layer.name), _NAME),
            )
        )
    lines = aligned(rows, (5, 6))
    left = len(bound.layers) - len(chosen)
    if left > 0:
        rest = sum(one.seconds.likely for one in bound.layers) - sum(
            one.seconds.likely for one in chosen
        )
        lines.append(f"{left} layers more take {seconds(max(rest, 0.0))} (--json has all)")
    return lines


def _used(one: LayerTime) -> str:
    if one.utilisation is None:
        return "-"
    return percent(one.utilisation) if one.utilisation >= 0.0005 else "< 0.1 %"


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[-(width - 1) :]


def explained(one: LayerTime) -> str:
    """Why the chip is not full in a layer, what can be worked on at once, and what would cure."""
    text = f"{_short(visible(one.layer.name), _NAME)} ({one.layer.op}): {one.cause}."
    axes = ", ".join(f"{axis} {count:,}" for axis, count in one.layer.independent)
    if axes:
        text += f" At once: {axes}."
    if _is_decode(one.layer):
        text += " Tokens follow one another, so that only the batch adds to that."
    steps = max((p.steps for p in one.layer.products), default=1)
    if steps > 1:
        text += f" Its {steps:,} steps follow one another."
    if one.layer.products:
        cure = one.cure_batch
        full = one.limit == "compute" and one.cause.startswith("kernels")
        if cure is not None:
            text += f" Batch {cure:,} would cure it."
        elif not full:
            text += " None of the batches tried would cure it."
    return text


def _is_decode(layer: Layer) -> bool:
    return layer.kind == "attention" and dict(layer.independent).get("tokens") == 1


def document(
    analyses: Sequence[dict[str, Any]] = (), workloads: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """What is printed: analyses of a model on chips, or without a chip workloads."""
    key, found = ("workloads", workloads) if workloads else ("analyses", analyses)
    return {"schema": SCHEMA, key: list(found)}


def as_json(bound: Bound) -> dict[str, Any]:
    """Everything, for programs. None is unknown."""
    cause, share = main_cause(bound)
    return {
        "model": bound.workload.name,
        "chip": bound.chip.name,
        "precision": bound.precision,
        "batch": bound.batch,
        "basis": bound.basis,
        "seconds": _seconds(bound.seconds),
        "samples_per_s": bound.samples_per_s if bound.seconds.likely else None,
        "utilisation": bound.utilisation,
        "main_cause": {"cause": cause, "share": share},
        "weights_stay_on_chip": bound.resident,
        "totals": _totals(bound.workload),
        "notes": list(bound.notes),
        "layers": [_layer(one) for one in bound.layers],
    }


def _seconds(time: Interval) -> dict[str, float]:
    return {"low": time.low, "likely": time.likely, "high": time.high}


def _totals(workload: Workload) -> dict[str, int | None]:
    return {
        "macs": workload.macs,
        "operations": workload.operations,
        "vector_operations": workload.vector_operations,
        "parameters": workload.parameters,
        "logical_parameters": workload.logical_parameters,
        "parameter_bytes": workload.parameter_bytes,
        "weight_bytes": total(layer.weight_bytes for layer in workload.layers),
        "input_bytes": total(layer.input_bytes for layer in workload.layers),
        "output_bytes": total(layer.output_bytes for layer in workload.layers),
        "kv_bytes": total(layer.kv_bytes for layer in workload.layers),
    }


def _layer(one: LayerTime) -> dict[str, Any]:
    return {
        **_work(one.layer),
        "seconds": _seconds(one.seconds),
        "limit": one.limit,
        "utilisation": one.utilisation,
        "cause": one.cause,
        "cure_batch": one.cure_batch,
        "parts": [
            {"resource": p.resource, "seconds": p.seconds, "bytes": p.bytes} for p in one.parts
        ],
    }


def _work(layer: Layer) -> dict[str, Any]:
    return {
        "name": layer.name,
        "op": layer.op,
        "kind": layer.kind,
        "origin": list(layer.origin),
        "macs": layer.macs,
        "operations": layer.operations,
        "vector_operations": layer.vector_operations,
        "weight_bytes": layer.weight_bytes,
        "input_bytes": layer.input_bytes,
        "output_bytes": layer.output_bytes,
        "kv_bytes": layer.kv_bytes,
        "parameters": layer.parameters,
        "logical_parameters": layer.logical_parameters,
        "operations_per_byte": layer.operations_per_byte,
        "products": [
            {"groups": p.groups, "m": p.m, "n": p.n, "k": p.k, "steps": p.steps}
            for p in layer.products
        ],
        "independent": dict(layer.independent),
    }


def work(workload: Workload) -> str:
    """What a model has to do, before any chip."""
    title = f"{visible(workload.name)}, batch {workload.batch}, as stored in the file"
    lines = [*wrapped(title, WIDTH), *totals(workload)]
    lines.append(f"layers       {len(workload.layers):,} after fusion")
    unknown = workload.unknown(lambda layer: layer.macs)
    if unknown:
        lines.append(f"unknown      MACs of {', '.join(sorted({x.op for x in unknown}))}")
    for remark in workload.notes:
        lines += wrapped(f"note: {visible(remark)}", WIDTH, "  ")
    lines += wrapped("--chip NAME says how long it takes there, and what limits it", WIDTH)
    return "\n".join(lines)


def work_as_json(workload: Workload) -> dict[str, Any]:
    """What a model has to do, for programs. None is unknown."""
    return {
        "model": workload.name,
        "batch": workload.batch,
        "totals": _totals(workload),
        "notes": list(workload.notes),
        "layers": [_work(layer) for layer in workload.layers],
    }


def comparison(bounds: Sequence[Bound]) -> str:
    """One workload on several chips: time, utilisation, its cause, what limits how much of it."""
    workload = bounds[0].workload
    title = (
        f"{visible(workload.name)}, batch {workload.batch}: {_count(workload.operations)}"
        f" operations (2 x MACs), {workload.parameters:,} parameters"
    )
    rows = [("", *(bound.chip.name for bound in bounds))]
    rows.append(("precision", *(bound.precision for bound in bounds)))
    used = [_utilised(b) for b in bounds]
    rows.append(("utilisation", *used))
    rows.append(("because of", *(main_cause(b)[0] for b in bounds)))
    for name in ("likely", "low", "high"):
        rows.append((f"time, {name}", *(seconds(getattr(b.seconds, name)) for b in bounds)))
    rates = [per_second(b.samples_per_s) if b.seconds.likely else "-" for b in bounds]
    rows.append(("samples/s", *rates))
    for limit in ("compute", "memory", "vector", "launch", "host link"):
        shares = [_share(bound, limit) for bound in bounds]
        if any(shares):
            rows.append((f"limited by {limit}", *(percent(share, 0) for share in shares)))
    rows.append(("weights stay on chip", *("yes" if b.resident else "no" for b in bounds)))
    lines = [*wrapped(title, WIDTH), "", *aligned(rows)]
    for bound in bounds:
        for remark in bound.notes:
            lines += wrapped(f"note, {bound.chip.name}: {visible(remark)}", WIDTH, "  ")
    return "\n".join(lines)


def _utilised(bound: Bound) -> str:
    if not bound.seconds.likely:
        return "none"
    return UNKNOWN if bound.utilisation is None else percent(bound.utilisation)


def _share(bound: Bound, limit: str) -> float:
    """Of the time, that of the layers with this limit; "memory" is any of them."""
    others = ("compute", "launch", "vector", "host link")
    spent = sum(
        one.seconds.likely
        for one in bound.layers
        if (one.limit if one.limit in others else "memory") == limit
    )
    return spent / bound.seconds.likely if bound.seconds.likely else 0.0
