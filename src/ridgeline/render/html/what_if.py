"""The what-if panel: choices, two sliders, and figures that the page's script works out.

The script adds up what `roofline.what_if` tabulated: arithmetic for each step of the peak, and
launch + (sum of parts ** p) ** (1 / p) for another rate of main memory (there: `again`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeline.predict.constants import fitted
from ridgeline.render.html.chips_roofline import HEIGHT, LARGEST, SMALLEST, Axes
from ridgeline.render.html.elements import Markup, element, join
from ridgeline.roofline.bound import Bound
from ridgeline.roofline.roof import Roof
from ridgeline.roofline.what_if import PEAKS, RESOURCES, SHEET, Option, Try
from ridgeline.workload.layer import Workload

STEPS_PER_DOUBLING = 4
"""Of the slider for the memory's rate, from a quarter to four times."""


def panel() -> Markup:
    """Choices whose entries the script fills in, and the place of the answer."""
    choices = [_choice(key) for key in ("chip", "precision", "batch")]
    widest = 2 * STEPS_PER_DOUBLING
    sliders = [
        _slider("peak", "peak arithmetic", 0, len(PEAKS) - 1, SHEET),
        _slider("bandwidth", "memory bandwidth", -widest, widest, 0),
    ]
    button = element("button", {"type": "button", "id": "if-reset"}, "as the sheet says")
    answer = element("dl", {"class": "facts", "id": "if-answer", "aria-live": "polite"})
    form = element("div", {"class": "panel"}, *choices, *sliders, button)
    remark = (
        "Ridgeline worked out the arithmetic for each step of the peak, and what stays on the chip,"
        " when it wrote this page. The page works out the memory's time at another bandwidth, and a"
        " layer: launch + (sum of the parts to the power p) to the power 1/p. Tiles stay those"
        " chosen for the sheet's bandwidth. Times are likely ones; the interval belongs to the"
        " sheet's figures and is not given where a slider is moved."
    )
    without = element("p", {}, "The panel needs scripts, which are switched off here.")
    return join(
        [
            element("noscript", {}, without),
            form,
            answer,
            element("p", {"class": "remark"}, remark),
        ]
    )


def _choice(key: str) -> Markup:
    select = element("select", {"id": f"if-{key}"})
    return element("label", {}, element("span", {}, key), select)


def _slider(key: str, text: str, low: int, high: int, value: int) -> Markup:
    figures = f'min="{low}" max="{high}" step="1" value="{value}"'
    made = Markup(f'<input type="range" id="if-{key}" {figures}>')
    shown = element("output", {"id": f"if-{key}-text", "for": f"if-{key}"})
    return element("label", {"class": "wide"}, element("span", {}, text), made, shown)


def figures(
    bounds: Sequence[Bound], workloads: Sequence[Workload], options: Sequence[Option], axes: Axes
) -> dict[str, Any]:
    """What the script needs: works of each batch, seconds of each option, and the chart's axes."""
    return {
        "p": fitted().common.overlap,
        "resources": list(RESOURCES),
        "peaks": list(PEAKS),
        "sheet": SHEET,
        "doubling": STEPS_PER_DOUBLING,
        "axes": [axes.x_low, axes.x_high, axes.y_low, axes.y_high, HEIGHT, SMALLEST, LARGEST],
        "bases": [_base(bound) for bound in bounds],
        "works": [_work(workload) for workload in workloads],
        "options": [_option(one) for one in options],
    }


def _base(bound: Bound) -> dict[str, Any]:
    time = bound.seconds
    return {
        "chip": bound.chip.name,
        "precision": bound.precision,
        "batch": bound.batch,
        "spread": [time.low / time.likely, time.high / time.likely] if time.likely else [1, 1],
        "seconds": time.likely,
    }


def _work(workload: Workload) -> dict[str, Any]:
    layers = workload.layers
    return {
        "batch": workload.batch,
        "operations": workload.operations,
        "layers": [layer.operations or layer.vector_operations or 0 for layer in layers],
    }


def _option(option: Option) -> dict[str, Any]:
    roof = option.roof
    return {
        "chip": roof.chip.name,
        "title": roof.chip.title,
        "precision": roof.precision,
        "peak": roof.peak.dense.value,
        "rate": roof.memory_bytes_per_s,
        "names": _names(roof),
        "tries": [_try(one) for one in option.tries],
    }


def _names(roof: Roof) -> list[str]:
    near = roof.on_chip.name if roof.on_chip is not None else "on chip"
    return ["launch", "compute", "vector", near, roof.memory.name, "host link"]


def _try(one: Try) -> dict[str, Any]:
    if one.refused:
        return {"batch": one.batch, "refused": one.refused}
    return {
        "batch": one.batch,
        "parts": [[_short(x) for x in column] for column in zip(*one.seconds, strict=True)],
        "compute": [[_short(x) for x in column] for column in zip(*one.compute, strict=True)],
        "bytes": [moved or 0 for moved in one.layers_bytes],
    }


def _short(seconds: float) -> float:
    """Five digits: the page shows three."""
    return float(f"{seconds:.5g}")
