"""The analysis page and its picture: against the bounds, by keyboard, light and dark, narrow."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from math import log10
from pathlib import Path
from typing import Any

import pytest

from browser import browser
from json_schema import faults
from ridgeline.advice.advise import Advised, advise_on
from ridgeline.advice.case import Case
from ridgeline.chips.custom import custom_chip
from ridgeline.chips.loader import load_chip
from ridgeline.render import analysis as text
from ridgeline.render import svg
from ridgeline.render.analysis_schema import schema
from ridgeline.render.html import advice
from ridgeline.render.html import analysis as page
from ridgeline.render.html import chips_roofline as chart
from ridgeline.render.units import quantity
from ridgeline.roofline.bound import Bound
from ridgeline.roofline.estimate import bound_of, parts_of, together
from ridgeline.roofline.roof import roof_of
from ridgeline.roofline.what_if import PEAKS, SHEET, again, options_of, scaled_roof
from ridgeline.workload.layer import Workload
from ridgeline.workload.read import read_workloads

EVIL = "</script><img src=x onerror=alert(1)>"
CHIPS = ("l4", "tpu-v4")


@pytest.fixture(scope="module")
def workloads(shipped: Any) -> list[Workload]:
    """The shipped model for one sample and for many, its name hostile."""
    read = read_workloads(shipped.model, [1, 4096])
    return [replace(one, name=EVIL) for one in read]


@pytest.fixture(scope="module")
def bounds(workloads: list[Workload]) -> list[Bound]:
    return [bound_of(workloads[0], name, "int8") for name in CHIPS]


@pytest.fixture(scope="module")
def advised(workloads: list[Workload], bounds: list[Bound]) -> list[Advised]:
    """The file's name is hostile too; the node by node workload is the fused one here."""
    return [
        advise_on(Case(workloads[0], bound.chip, "int8"), workloads[0], EVIL, "--chip c")
        for bound in bounds
    ]


@pytest.fixture(scope="module")
def written(workloads: list[Workload], bounds: list[Bound], advised: list[Advised]) -> str:
    options = options_of(workloads, [b.chip for b in bounds])
    return page.render(bounds, workloads, options, [advice.section(advised)])


def test_the_formula_gives_the_bound(workloads: list[Workload]) -> None:
    for option in options_of(workloads, [load_chip(name) for name in CHIPS]):
        for workload, tried in zip(workloads, option.tries, strict=True):
            bound = bound_of(workload, option.roof.chip, option.roof.precision)
            assert sum(again(tried)) == pytest.approx(bound.seconds.likely)


@pytest.mark.parametrize(("name", "within"), [("tpu-v4", 1e-9), ("yours", 1e-9), ("l4", 0.1)])
def test_other_figures_as_if_the_chip_had_them(
    workloads: list[Workload], name: str, within: float
) -> None:
    """Exactly where there are no tiles to choose; on a grid, the bandwidth's choice is left out."""
    chip = custom_chip(["int8=9T"], "20G") if name == "yours" else load_chip(name)
    (option,) = [o for o in options_of(workloads[1:], [chip]) if o.roof.precision == "int8"]
    for peak, times in enumerate(PEAKS):
        for rate in (0.25, 1.0, 4.0):
            other = parts_of(workloads[1], scaled_roof(roof_of(chip, "int8"), times, rate))[1]
            wanted = sum(map(together, other))
            assert sum(again(option.tries[0], peak, rate)) == pytest.approx(wanted, rel=within)


def test_dots_lie_where_the_bound_says(bounds: list[Bound]) -> None:
    for bound in bounds:
        shown = chart.dots(bound)
        assert len(shown) == len(bound.layers) - chart.left_out([bound])
        for dot in shown:
            one = bound.layers[dot.layer]
            work = one.layer.operations or one.layer.vector_operations
            assert dot.per_s * one.seconds.likely == pytest.approx(work)
            assert dot.on_vector or dot.intensity == one.layer.operations_per_byte


def test_the_picture_is_whole_and_its_dots_are_at_their_place(bounds: list[Bound]) -> None:
    drawn = svg.render(bounds)
    root = ElementTree.fromstring(drawn.encode())
    name = "{http://www.w3.org/2000/svg}"
    axes = chart.axes_of(bounds)
    dots = [c for c in root.iter(f"{name}circle") if c.get("data-layer") is not None]
    assert len(dots) == sum(len(chart.dots(bound)) for bound in bounds)
    for circle in dots:
        assert 0 <= float(circle.attrib["cx"].rstrip("%")) <= 100
        assert 0 <= float(circle.attrib["cy"]) <= chart.HEIGHT
    (first,) = [dot for dot in chart.dots(bounds[0]) if dot.layer == 0]
    (circle,) = [c for c in dots if c.get("data-layer") == "0" and "L4" in c.get("aria-label", "")]
    whole = axes.x_high - axes.x_low
    wanted = 100 * (log10(first.intensity) - axes.x_low) / whole
    assert float(circle.attrib["cx"].rstrip("%")) == pytest.approx(wanted, abs=0.01)
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([], []),
        ([40.0], [40.0]),
        ([2.0], [15.0]),
        ([40.0, 100.0], [40.0, 100.0]),
        ([100.0, 105.0], [95.0, 110.0]),
        ([100.0, 100.0, 100.0], [85.0, 100.0, 115.0]),
        ([15.0, 16.0, 90.0], [15.0, 30.0, 90.0]),
    ],
)
def test_names_are_a_line_apart_and_near_their_place(
    wanted: list[float], found: list[float]
) -> None:
    assert chart.apart(wanted) == pytest.approx(found)


def test_the_name_of_a_ceiling_stands_beside_its_line(workloads: list[Workload]) -> None:
    """Of ten ceilings of three chips: one that finds no room is in the key alone."""
    workload = workloads[0]
    chips = ("l4", "jetson-agx-orin-64gb", "tpu-v5e")
    three = [bound_of(workload, load_chip(name), "int8") for name in chips]
    axes = chart.axes_of(three)
    root = ElementTree.fromstring(svg.render(three).encode())
    name = "{http://www.w3.org/2000/svg}"
    texts = {"".join(t.itertext()): float(t.get("y", "0")) for t in root.iter(f"{name}text")}
    keys = [chart.key_of(bound) for bound in three]
    heights: list[float] = []
    for bound, key in zip(three, keys, strict=True):
        for line in chart.lines(roof_of(bound.chip, "int8")):
            title = f"{bound.chip.title} {line.name}: {quantity(line.per_s, 'OPS')}"
            if line.is_slope:
                continue
            assert line.chosen or f"{line.name} " in key
            assert title in texts or not line.chosen
            if title in texts:
                heights.append(texts[title])
                off = abs(texts[title] - axes.y(line.per_s) + 5)
                assert off <= (2 * chart.LINE if line.chosen else chart.FARTHEST)
    assert len(heights) > 3
    assert all(b - a >= chart.LINE - 1e-6 for a, b in pairwise(sorted(heights)))


def test_every_precision_is_a_ceiling_and_every_memory_a_slope(bounds: list[Bound]) -> None:
    found = chart.lines(roof_of(bounds[0].chip, "int8"))
    named = {name for line in found if not line.is_slope for name in line.name.split(", ")}
    assert named == {*bounds[0].chip.precisions()} - {"fp64"}
    assert {line.name for line in found if line.is_slope} == {"L2", "GDDR6", "host link"}


def test_nothing_of_a_model_becomes_an_element(written: str, bounds: list[Bound]) -> None:
    assert "<img" not in written
    assert "<img" not in svg.render(bounds)
    assert written.count("<script") == 3


def test_the_schema_file_is_what_the_code_writes(request: pytest.FixtureRequest) -> None:
    wanted = json.dumps(schema(), indent=2) + "\n"
    path = files("ridgeline.render") / "analysis.schema.json"
    if request.config.getoption("--update-golden"):
        Path(str(path)).write_text(wanted, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == wanted, "if meant, `make golden`"


def test_json_follows_its_schema(bounds: list[Bound], workloads: list[Workload]) -> None:
    whole = schema()
    analyses = text.document([text.as_json(bound) for bound in bounds])
    counted = text.document(workloads=[text.work_as_json(one) for one in workloads])
    for data in (analyses, counted):
        assert faults(json.loads(json.dumps(data)), whole, whole, "analysis") == []
    analyses["analyses"][0]["basis"] = "luck"
    del analyses["analyses"][1]["layers"][0]["limit"]
    assert len(faults(analyses, whole, whole, "analysis")) == 2


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture
def opened(chromium: Any, written: str, tmp_path: Path) -> Iterator[Any]:
    """The page; afterwards, that nothing went wrong in it and that it asked for nothing."""
    path = tmp_path / "analysis.html"
    path.write_text(written, encoding="utf-8", newline="\n")
    context = chromium.new_context(viewport={"width": 1200, "height": 900}, color_scheme="light")
    went_wrong: list[str] = []
    requests: list[str] = []
    shown = context.new_page()
    shown.on("console", lambda message: went_wrong.append(message.text))
    shown.on("pageerror", lambda error: went_wrong.append(str(error)))
    shown.on("request", lambda request: requests.append(request.url))
    shown.goto(path.as_uri())
    yield shown
    assert went_wrong == []
    assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
    context.close()


def _times(shown: Any) -> list[float]:
    cells = shown.locator("#layers td.if-time").evaluate_all("all => all.map(c => c.dataset.v)")
    return [float(cell) for cell in cells]


def test_the_panel_computes_what_python_does(opened: Any, workloads: list[Workload]) -> None:
    chip = load_chip("tpu-v4")
    options = {o.roof.precision: o for o in options_of(workloads, [chip])}
    opened.locator("#if-chip").select_option("tpu-v4")
    opened.locator("#if-precision").select_option("bf16")
    opened.locator("#if-batch").select_option("4096")
    tried = options["bf16"].tries[1]
    assert _times(opened) == pytest.approx(again(tried), rel=1e-3)
    opened.locator("#if-peak").press("End")
    opened.locator("#if-bandwidth").press("Home")
    assert _times(opened) == pytest.approx(again(tried, len(PEAKS) - 1, 0.25), rel=1e-3)
    assert opened.locator("#if-bandwidth").get_attribute("aria-valuetext").startswith("0.25 times")
    assert opened.locator("#if-chart circle").count() > 5
    opened.get_by_role("button", name="as the sheet says").press("Enter")
    assert _times(opened) == pytest.approx(again(tried, SHEET), rel=1e-3)


def test_it_begins_with_what_was_analysed(opened: Any, bounds: list[Bound]) -> None:
    assert opened.locator("#if-chart > *").count() == 0
    assert sum(_times(opened)) == pytest.approx(bounds[0].seconds.likely, rel=1e-3)
    shown = opened.locator("#if-answer").inner_text()
    assert re.search(r"time\n[\d.]+ µs \([\d.]+ µs to [\d.]+ µs\)", shown)


def test_the_advice_is_that_of_the_command(opened: Any, advised: list[Advised]) -> None:
    """Most saved first, a bar as long as the share, and the layers' changes that gain nothing."""
    for index, made in enumerate(advised):
        tried = [one for one in made.advice if one.bound is not None]
        table = opened.locator("#advice table").nth(index)
        assert table.locator("tbody th").all_inner_texts() == [one.change.name for one in tried]
        saved = table.locator("tbody td:nth-child(3)").all_inner_texts()
        assert [float(text.rstrip("%")) for text in saved] == pytest.approx(
            [100 * one.share for one in tried], abs=0.5
        )
        assert table.locator("tbody td.check").all_inner_texts() == [
            one.change.check for one in tried
        ]
        wide = "all => all.map(bar => bar.getBBox().width / bar.parentElement.clientWidth)"
        bars = table.locator(".bar rect").evaluate_all(wide)
        assert bars == pytest.approx([min(1, abs(one.share)) for one in tried], abs=0.02)
        listed = opened.locator("#advice ul").nth(index).inner_text()
        for layer in made.layers:
            assert layer.idle in listed
    opened.get_by_role("link", name="What would help").press("Enter")
    assert opened.evaluate("location.hash") == "#advice"


def test_by_keyboard_alone(opened: Any) -> None:
    reached: set[str] = set()
    for _ in range(60):
        opened.keyboard.press("Tab")
        script = "() => document.activeElement.id || document.activeElement.tagName"
        reached.add(opened.evaluate(script))
    wanted = {"if-chip", "if-precision", "if-batch", "if-peak", "if-bandwidth", "if-reset"}
    assert {*wanted, "circle", "BUTTON", "INPUT", "A"} <= reached
    box = opened.locator('[data-shows="0"]')
    box.focus()
    opened.keyboard.press("Space")
    assert not opened.locator(".dots.k0 circle").first.is_visible()
    opened.locator('.dots.k1 circle[tabindex="0"]').first.focus()
    opened.keyboard.press("End")
    assert "TPU v4" in opened.locator("#said").inner_text()
    assert opened.locator("#layers tr.chosen").count() == 1


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 480, 1200])
def test_nothing_is_cut_at_any_width(opened: Any, width: int, mode: str) -> None:
    """320 pixels are also 1280 at 400 % (WCAG 2.2, 1.4.10)."""
    opened.emulate_media(color_scheme=mode)
    opened.set_viewport_size({"width": width, "height": 640})
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    paper = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if mode == "light" else "rgb(21, 23, 26)")
    cut = opened.evaluate(
        """[...document.querySelectorAll(".roofs text")].filter(text => {
            const [name, chart] = [text, text.closest("svg")].map(e => e.getBoundingClientRect());
            return name.width && (name.left < chart.left - 1 || name.right > chart.right + 1);
        }).map(text => text.textContent)"""
    )
    assert cut == []
