"""The page as text: complete in itself, escaped, small, and the same in two renderings."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from page_cases import EVIL, WORSE, evil_page
from report_cases import REPORT, ROWS
from ridgeline import api
from ridgeline.machine.instructions import Unit
from ridgeline.machine.program import Program
from ridgeline.machine.simulate import Trace
from ridgeline.render.html import bars, page, roofline, table, timeline
from ridgeline.render.html.elements import element, safe
from ridgeline.results.columns import LEDGER_ENTRIES

TINY = api.load_machine("tiny-8")
STYLE = (files("ridgeline.render.html") / "page.css").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text(shipped: Any) -> str:
    return evil_page(shipped)


class _Outline(HTMLParser):
    """Every element and attribute, and whether elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] += 1
        self.attributes += attrs
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def outline(text: str) -> _Outline:
    parser = _Outline()
    parser.feed(text)
    assert parser.open == []
    return parser


def test_nothing_of_a_model_becomes_an_element(text: str, outline: _Outline) -> None:
    assert outline.names["script"] == 2  # the names and the page's own
    assert outline.names["img"] == 0
    assert not [name for name, _ in outline.attributes if name.startswith("on")]
    assert EVIL not in text
    assert safe(EVIL) in text
    assert "\x00" not in text
    assert "\u202e" not in text


def test_the_names_reach_the_script_whole(text: str) -> None:
    found = re.search(r'<script type="application/json" id="names">(.*?)</script>', text)
    assert found is not None
    assert json.loads(found[1])[:2] == [EVIL, WORSE]


def test_it_asks_for_nothing_else(text: str, outline: _Outline) -> None:
    targets = [value or "" for name, value in outline.attributes if name in ("href", "src")]
    assert all(target.startswith(("#", "data:")) for target in targets)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|style=", text)


def test_the_policy_names_this_style_and_this_script(text: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    for kind in ("style", "script"):
        content = re.search(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        assert content is not None
        digest = base64.b64encode(hashlib.sha256(content[1].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy[1]


def test_ids_are_unique_and_links_lead_somewhere(outline: _Outline) -> None:
    ids = [value for name, value in outline.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    links = [v[1:] for name, v in outline.attributes if name == "href" and v and v[0] == "#"]
    assert links
    assert set(links) <= set(ids)


def test_it_is_small_and_always_the_same(text: str, shipped: Any) -> None:
    assert len(text.encode()) < 150_000
    assert evil_page(shipped) == text


def test_a_page_of_200_layers_and_every_span_stays_below_500_kilobytes(text: str) -> None:
    many = replace(REPORT, rows=ROWS[:2] * 100)
    rects = re.findall(r"<rect [^>]*data-span[^>]*></rect>", text)
    longest = max(map(len, rects)) + 20  # the cycles of a long run have more digits
    own = len(page.render(replace(REPORT, rows=()), _empty_trace()))
    parts = len(table.layers(many)) + len(bars.chart(many)) + len(roofline.chart(many, TINY))
    assert own + parts + timeline.MOST_SPANS * longest < 500_000


def _empty_trace() -> Trace:
    program = Program("none", TINY, (), (), np.zeros(0, np.uint8), 0, 0, (), ())
    return Trace(program, ())


def test_it_says_what_the_text_form_says(text: str) -> None:
    shown = unescape(re.sub(r"<[^>]+>", "", text))
    for part in ("latency", "array use", "worst", "on the host: ", "design choice", "note: "):
        assert part in shown


def test_the_roofline_has_a_dot_for_each_layer_that_it_can_place() -> None:
    dots = roofline.dots(REPORT)
    assert [dot.layer for dot in dots] == [0, 1]
    assert dots[0].per_s == pytest.approx(2 * 4_147_200 / 60_000 * 100e6)
    assert dots[0].intensity == pytest.approx(2 * 4_147_200 / 29_000)
    machine = api.load_machine("tiny-16")
    assert [roof.text for roof in roofline.roofs(machine)] == [
        "array: 51.2 GOPS",
        "vector unit: 1.6 GOPS",
        "device memory: 1.6 GB/s",
        "host link: 50 MB/s",
    ]


@pytest.mark.parametrize("machine_name", ["tiny-8", "edge-4tops", "tpu-v1"])
def test_no_dot_lies_above_its_unit_or_the_memory(machine_name: str) -> None:
    """Depthwise on either unit, and layers that work while others have the time."""
    graph = api.read_onnx(_depthwise_model())
    images = np.random.default_rng(0).standard_normal((2, 16, 12, 12)).astype(np.float32)
    machine = api.load_machine(machine_name)
    program = api.compile(api.quantize(graph, {"image": images}), machine)
    report = api.report(program, api.simulate(program))
    array, vector, memory, _ = roofline.roofs(machine)
    dots = roofline.dots(report)
    assert {dot.row.placed for dot in dots} >= {"array", "vector"}
    if machine_name == "edge-4tops":  # else the test could not fail
        assert any(dot.row.cycles < dot.row.bound_cycles for dot in dots)
    for dot in dots:
        ceiling = vector if dot.on_vector else array
        assert dot.per_s <= ceiling.ceiling_per_s * (1 + 1e-9), dot.row.name
        assert dot.per_s <= memory.slope_bytes_per_s * dot.intensity * (1 + 1e-9), dot.row.name


def _depthwise_model() -> bytes:
    """Inverted residuals: a product, a depthwise convolution, a product, an addition."""
    rng = np.random.default_rng(1)
    text, stored, x = "", [], "image"
    for i in range(3):
        for name, shape in (("e", (96, 16, 1, 1)), ("d", (96, 1, 3, 3)), ("p", (16, 96, 1, 1))):
            weights = rng.normal(0, 0.3, shape).astype(np.float32)
            stored.append(numpy_helper.from_array(weights, f"{name}{i}w"))
        text += f"""e{i} = Conv({x}, e{i}w) r{i} = Relu(e{i})
            d{i} = Conv<group = 96, pads = [1, 1, 1, 1]>(r{i}, d{i}w) s{i} = Relu(d{i})
            p{i} = Conv(s{i}, p{i}w) a{i} = Add(p{i}, {x})"""
        x = f"a{i}"
    header = '<ir_version: 8, opset_import: ["" : 17]> g '
    model = onnx.parser.parse_model(
        f"{header}(float[1, 16, 12, 12] image) => (float[1, 16, 12, 12] {x}) {{ {text} }}"
    )
    model.graph.initializer.extend(stored)
    return model.SerializeToString()


def test_every_ledger_entry_has_a_colour_in_both_modes() -> None:
    for name in LEDGER_ENTRIES:
        assert f".{bars.entry_class(name)} {{ fill: var(--" in STYLE
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    variables = [set(re.findall(r"--[\w-]+(?=:)", one)) for one in (light, dark)]
    assert variables[0] == variables[1]


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, two: str) -> float:
    high, low = sorted((_luminance(one), _luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_contrast(mode: int) -> None:
    """WCAG 2.2: 4.5 for text (1.4.3), 3 for what charts are made of (1.4.11)."""
    block = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[mode]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", block))
    for ground in ("paper", "raised"):
        for name in ("ink", "soft", "accent"):
            assert _contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    assert _contrast(colours["ink"], colours["chosen"]) >= 4.5
    grounds = {"paper", "raised", "line", "chosen"}
    for name in colours.keys() - grounds:
        assert _contrast(colours[name], colours["paper"]) >= 3, name


def test_spans_cover_the_work_and_are_few(shipped: Any) -> None:
    graph = api.read_onnx(shipped.model, batch=8)
    with np.load(shipped.calibration) as samples:
        program = api.compile(api.quantize(graph, dict(samples)), api.load_machine("tiny-8"))
    trace = api.simulate(program)
    for most in (10_000, 40, 7):
        lanes = timeline.lanes(trace, most)
        assert sum(len(spans) for spans in lanes.values()) <= most
        for name, spans in lanes.items():
            assert all(a.end <= b.begin for a, b in pairwise(spans))
            assert all(0 < span.busy_cycles <= span.end - span.begin for span in spans)
            events = [
                event
                for segment in trace.segments
                for event in segment.events
                if event.instruction.unit.name.lower() == name and event.issued > event.start
            ]
            if name != timeline.HOST:
                assert sum(span.instructions for span in spans) == len(events)
                wanted = sum(event.issued - event.start for event in events)
                assert sum(span.busy_cycles for span in spans) == wanted
    assert list(lanes) == [u.name.lower() for u in timeline.LANES] + [timeline.HOST]
    assert set(timeline.LANES) == set(Unit)


def test_what_limits_a_layer_comes_first_in_the_table() -> None:
    keys = [column.key for column in table.columns(REPORT)]
    assert keys[:4] == ["layer", "op", "placed", "cycles"]
    assert not [key for key in keys if key.startswith("ledger_")]
    assert "intensity" in keys


def test_cells_sort_by_their_values() -> None:
    assert table.sort_key(1234567.5) == "1234567.5"
    assert table.sort_key((2, 3, 4)) == "24"
    assert table.sort_key(None) == ""


def test_elements_escape_texts_and_attributes() -> None:
    made = element("b", {"title": '"<&', "x": 1.5}, "a < b", element("i", {}, "c"))
    assert made == '<b title="&quot;&lt;&amp;" x="1.5">a &lt; b<i>c</i></b>'
