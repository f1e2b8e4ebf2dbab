"""A simulated run of the shipped model whose layers have names that try to break out of a page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ridgeline import api
from ridgeline.machine import tabulate
from ridgeline.render.html import page

EVIL = "<script>alert(1)</script>"
WORSE = "</script><img src=x onerror=alert(2)>\"'&\u202e\x00"


def evil_page(shipped: Any) -> str:
    """The page of the shipped model, its first two layers and the model renamed."""
    graph = api.read_onnx(shipped.model, batch=1)
    with np.load(shipped.calibration) as samples:
        program = api.compile(api.quantize(graph, dict(samples)), api.load_machine("tiny-8"))
    first, second, *others = program.layers
    layers = (replace(first, name=EVIL), replace(second, name=WORSE), *others)
    program = replace(program, name=EVIL, layers=layers)
    trace = api.simulate(program)
    report = tabulate.report(program, trace, notes=(EVIL,))
    return page.render(report, trace)
