"""The page in headless Chromium: by keyboard, light and dark, narrow, without a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import browser
from page_cases import EVIL, evil_page


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def address(shipped: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(evil_page(shipped), encoding="utf-8", newline="\n")
    return path.as_uri()


@pytest.fixture
def opened(chromium: Any, address: str) -> Iterator[Any]:
    """The page in a window of usual width; afterwards, that nothing went wrong in it."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900}, color_scheme="light")
    faults: list[str] = []
    requests: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    yield page
    assert faults == []
    assert [url for url in requests if not url.startswith("data:")] == [address]
    context.close()


def _column(page: Any, heading: str) -> tuple[int, Any]:
    """Its place and its button."""
    buttons = page.locator("#layers thead button")
    for place in range(buttons.count()):
        if buttons.nth(place).inner_text().split()[0] == heading:
            return place, buttons.nth(place)
    raise AssertionError(heading)


def _values(page: Any, place: int) -> list[str]:
    script = (
        "(rows, place) => rows.map(row => row.cells[place])"
        ".map(cell => cell.dataset.v ?? cell.innerText.replaceAll(',', ''))"
    )
    return page.locator("#layers tbody tr").evaluate_all(script, place)


def test_the_table_sorts_by_keyboard(opened: Any) -> None:
    place, button = _column(opened, "cycles")
    heading = opened.locator("#layers thead th").nth(place)
    executed = _values(opened, place)
    numbers = sorted(map(float, executed))
    assert heading.get_attribute("aria-sort") == "none"
    button.focus()
    opened.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert [float(v) for v in _values(opened, place)] == numbers[::-1]
    opened.keyboard.press("Space")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert [float(v) for v in _values(opened, place)] == numbers
    opened.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "none"
    assert _values(opened, place) == executed


def test_texts_sort_and_only_one_heading_says_so(opened: Any) -> None:
    _column(opened, "cycles")[1].click()
    place, button = _column(opened, "op")
    button.click()
    values = _values(opened, place)
    assert values == sorted(values, key=str.lower)
    sorts = opened.locator("#layers thead th").evaluate_all("hs => hs.map(h => h.ariaSort)")
    assert sorts.count("ascending") == 1
    assert sorts.count("none") == len(sorts) - 1


def test_every_part_is_reached_with_tab(opened: Any) -> None:
    reached: set[str] = set()
    for _ in range(60):
        opened.keyboard.press("Tab")
        reached.add(
            opened.evaluate(
                "() => { const e = document.activeElement; const s = e.closest('section, nav');"
                " return (s ? s.id || 'nav' : '') + ' ' + e.tagName.toLowerCase() }"
            )
        )
    assert {
        "nav a", "roofline circle", "timeline button", "timeline rect", "ledger input",
        "ledger tr", "table button", "table div", "machine div",
    } <= reached  # fmt: skip


def test_arrows_choose_a_layer_and_it_is_marked_everywhere(opened: Any) -> None:
    opened.locator('circle[tabindex="0"]').focus()
    opened.keyboard.press("End")
    opened.keyboard.press("ArrowLeft")
    layer = opened.evaluate("document.activeElement.dataset.layer")
    assert opened.locator("circle.chosen").get_attribute("data-layer") == layer
    assert opened.locator("#layers tr.chosen").get_attribute("data-layer") == layer
    assert opened.locator("rect.chosen").count() > 0
    assert "of the time, limited by" in opened.locator("#said").inner_text()
    opened.keyboard.press("Escape")
    assert opened.locator(".chosen").count() == 0


def test_a_hostile_name_is_shown_as_text(opened: Any) -> None:
    assert opened.title() == f"{EVIL} on tiny-8"
    assert opened.locator("h1").inner_text().startswith(EVIL)
    assert EVIL in opened.locator("#layers").inner_text()
    rect = opened.locator('rect[data-layer="0"]').first
    rect.hover()
    assert EVIL in opened.locator("#said").inner_text()


def test_the_timeline_zooms_by_keyboard_and_follows_the_choice(opened: Any) -> None:
    lane = opened.locator("svg.spans").last
    whole = lane.get_attribute("viewBox")
    opened.locator('rect[tabindex="0"]').focus()
    for _ in range(6):
        opened.keyboard.press("+")
    x, _, width, _ = map(float, lane.get_attribute("viewBox").split())
    assert width == pytest.approx(100_000 / 64)
    opened.keyboard.press("ArrowDown")
    assert "cycles" in opened.locator("#said").inner_text()
    opened.keyboard.press("End")
    moved = float(lane.get_attribute("viewBox").split()[0])
    assert moved > x
    assert opened.locator("#time-axis text").count() >= 2
    opened.keyboard.press("0")
    assert lane.get_attribute("viewBox") == whole
    opened.get_by_role("button", name="zoom in").press("Enter")
    assert float(lane.get_attribute("viewBox").split()[2]) == 50_000


def test_bars_may_all_have_the_same_length(opened: Any) -> None:
    box = opened.get_by_label("every bar the whole width")
    box.focus()
    opened.keyboard.press("Space")
    script = "bars => bars.map(bar => bar.getAttribute('width'))"
    assert set(opened.locator(".bars .bar svg").evaluate_all(script)) == {"100%"}


@pytest.mark.parametrize(
    ("mode", "paper", "ink"),
    [
        ("light", "rgb(255, 255, 255)", "rgb(27, 29, 32)"),
        ("dark", "rgb(21, 23, 26)", "rgb(233, 235, 238)"),
    ],
)
def test_light_and_dark(opened: Any, mode: str, paper: str, ink: str) -> None:
    opened.emulate_media(color_scheme=mode)
    script = (
        "() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color] }"
    )
    assert opened.evaluate(script) == [paper, ink]
    assert opened.locator(".roof.array line").first.evaluate(
        "line => getComputedStyle(line).stroke"
    ) == ink  # fmt: skip


@pytest.mark.parametrize("width", [320, 480, 800, 1200])
def test_nothing_is_cut_at_any_width(opened: Any, width: int) -> None:
    """320 pixels are also 1280 at 400 % (WCAG 2.2, 1.4.10): only tables scroll sideways."""
    opened.set_viewport_size({"width": width, "height": 640})
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    script = (
        "all => all.filter(e => !e.closest('.region') && e.getBoundingClientRect().right"
        " > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    blocks = opened.locator("h1, h2, p, dd, dt, li, button, a, svg, .axes, .lanes")
    assert blocks.evaluate_all(script) == []


def test_without_scripts_the_figures_are_still_there(chromium: Any, address: str) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator("circle").count() > 3
    assert page.locator("#layers tbody tr").count() > 5
    context.close()


def test_the_unified_buffer_zooms_and_is_read_out(opened: Any) -> None:
    level = opened.locator("svg.level")
    assert "of 64 KiB occupied" in level.get_attribute("aria-label")
    rect = opened.locator('#lanes rect[tabindex="0"]')
    rect.focus()
    assert re.search(r"; unified buffer up to [\d,]+ bytes \(\d+ %\)$", _said(opened))
    opened.keyboard.press("+")
    assert level.get_attribute("viewBox").split()[2:] == ["50000", "64"]
    # Below the last unit there is no other to choose: the area has no spans.
    for _ in range(10):
        opened.keyboard.press("ArrowDown")
    assert opened.evaluate("document.activeElement.tagName") == "rect"
    level.hover()
    assert re.fullmatch(r"unified buffer: [\d,]+ bytes \(\d+ %\), cycle [\d,]+", _said(opened))
    opened.mouse.move(0, 0)
    assert not _said(opened).startswith("unified buffer")


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_unified_buffer_is_seen_against_its_lane(opened: Any, mode: str) -> None:
    opened.emulate_media(color_scheme=mode)
    fill = "e => getComputedStyle(e).fill"
    ground = "e => getComputedStyle(e).backgroundColor"
    area = opened.locator("svg.level path").evaluate(fill)
    assert area != opened.locator("svg.level").evaluate(ground)
    box = opened.locator("svg.level path").bounding_box()
    assert box["height"] > 10
    assert box["width"] > 500


def _said(page: Any) -> str:
    return page.locator("#said").inner_text()
