"""A workload as one run to be served: what it asks of a chip in one precision, at any batch."""

from __future__ import annotations

from dataclasses import replace

from ridgeline.errors import RidgelineError
from ridgeline.predict.demand import Job
from ridgeline.predict.networks import BYTES
from ridgeline.predict.work import Work
from ridgeline.workload.layer import Workload, total

_MULTIPLY = ("product", "attention", "recurrent")


def job_of(workload: Workload, precision: str, share: float = 1.0) -> Job:
    """The model as a job. Weights stay as they are in a larger batch; all else grows with it.

    Raises RidgelineError where the multiply-accumulates of a layer are unknown.
    """
    one = work_of(workload, precision)

    def at(batch: int) -> Work:
        times = batch / workload.batch
        return replace(
            one,
            items=batch,
            operations=one.operations * times,
            cache_bytes=one.cache_bytes * times,
            vector_bytes=one.vector_bytes * times,
            stored_bytes=one.weight_bytes + (one.stored_bytes - one.weight_bytes) * times,
            link_bytes=one.link_bytes * times,
        )

    return Job(workload.name, at, share)


def work_of(workload: Workload, precision: str) -> Work:
    """One run of all samples of the workload, real numbers stored in `precision`."""
    operations = workload.operations
    if operations is None:
        unknown = workload.unknown(lambda layer: layer.macs)
        raise RidgelineError(
            f"the multiply-accumulates of {unknown[0].name} ({unknown[0].op}) are unknown",
            where=workload.name,
            fix="Give the dimensions of the inputs, or split the model there",
        )
    bits = int(8 * BYTES[precision])
    stored = workload.stored_as(bits, bits)
    weights = total(layer.weight_bytes for layer in stored.layers)
    outputs = [layer.output_bytes or 0 for layer in stored.layers]
    return Work(
        name=workload.name,
        per="sample",
        items=workload.batch,
        layers=max(1, sum(layer.kind in _MULTIPLY for layer in workload.layers)),
        operations=float(operations),
        # A tensor that several layers use is read once if it stays on the chip, but is stored once.
        weight_bytes=float(min(weights or stored.parameter_bytes, stored.parameter_bytes)),
        cache_bytes=float(sum(layer.kv_bytes or 0 for layer in stored.layers)),
        vector_bytes=float(sum(outputs)),
        stored_bytes=float(stored.parameter_bytes + 2 * max(outputs, default=0)),
        peaks=(precision,),
        link_bytes=float(stored.border_bytes),
    )
