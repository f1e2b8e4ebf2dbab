"""The pages say what the code does: examples run, references are generated or complete."""

from __future__ import annotations

import importlib.util
import re
from math import prod
from pathlib import Path
from typing import Any

import onnx
import pytest

from docs.examples import ROOT, Page
from ridgeline.frontend.runtime import cpu_matches
from ridgeline.machine.loader import known_keys
from ridgeline.results.columns import COLUMNS, LEDGER_ENTRIES
from ridgeline.results.energy import LEVELS
from ridgeline.rtl.bus.register_map import as_markdown, register_map
from ridgeline.workload.read import read_workloads

DOCS = ROOT / "docs"


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.mark.parametrize(
    "name",
    [
        "tutorial.md",
        "one_convolution.md",
        "chips.md",
        "spec_sheets.md",
        "whole_models.md",
        "advice.md",
        "analysis.md",
        "worth.md",
        "mac_formats.md",
        "board.md",
        "pipeline.md",
    ],
)
def test_examples_print_what_the_page_says(name: str, update: bool, tmp_path: Path) -> None:
    path = DOCS / name
    text = path.read_text(encoding="utf-8")
    now = Page(tmp_path).rerun(text)
    if update:
        path.write_text(now, encoding="utf-8", newline="\n")
    elif cpu_matches():  # elsewhere ONNX Runtime may round otherwise; running it is the test
        assert now == text, "if meant, `make golden`"


BEGIN, END = "<!-- output of make run: begin -->\n", "<!-- output of make run: end -->"


def test_the_readme_shows_what_make_run_prints(update: bool, tmp_path: Path) -> None:
    path = ROOT / "README.md"
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    recipe = re.search(r"^run: setup\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    command = recipe[1].replace("$(BIN)/", "").replace("$(MODELS)", "src/ridgeline/models")
    now = f"```text\n{Page(tmp_path).command(command)}```\n"
    if update:
        path.write_text(before + BEGIN + now + END + after, encoding="utf-8", newline="\n")
    elif cpu_matches():
        assert now == shown, "if meant, `make golden`"


def test_the_readme_counts_the_shipped_models_parameters(shipped: Any) -> None:
    """As `ridgeline analyze` counts them, and by the shapes of its operators' weights."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    said = re.search(r"([\d,]+) parameters \(([\d,]+) of conv.*?layer, (\d+) scales", text)
    assert said is not None
    counted, weights, others = (int(figure.replace(",", "")) for figure in said.groups())
    (workload,) = read_workloads(shipped.model)
    assert counted == workload.parameters == weights + others
    held = onnx.load(shipped.model).graph.initializer
    sizes = {tensor.name: prod(tensor.dims) for tensor in held}
    assert weights == sum(size for name, size in sizes.items() if "_norm/" not in name)


def _generator(name: str = "generate_isa") -> Any:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_instruction_set_reference_is_up_to_date(update: bool) -> None:
    path = DOCS / "isa.md"
    wanted = _generator().text()
    if update:
        path.write_text(wanted, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == wanted, "if meant, `make golden`"


REGISTERS = "<!-- registers: begin -->\n", "<!-- registers: end -->"


def test_the_page_about_boards_has_every_register(update: bool) -> None:
    path = DOCS / "board.md"
    before, _, rest = path.read_text(encoding="utf-8").partition(REGISTERS[0])
    shown, _, after = rest.partition(REGISTERS[1])
    wanted = "\n" + as_markdown(register_map(counts=True)) + "\n"
    if update:
        text = before + REGISTERS[0] + wanted + REGISTERS[1] + after
        path.write_text(text, encoding="utf-8", newline="\n")
    else:
        assert shown == wanted, "if meant, `make golden`"


def test_the_fpga_tables_are_those_of_the_reports(update: bool) -> None:
    path = DOCS / "fpga.md"
    page = path.read_text(encoding="utf-8")
    wanted = _generator("generate_fpga").text(page)
    if update:
        path.write_text(wanted, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == wanted, "if meant, `make golden`"


def _rows(name: str) -> set[str]:
    text = (DOCS / name).read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE))


def test_the_machine_reference_has_every_key_and_no_other() -> None:
    assert _rows("machine.md") == set(known_keys())


def test_the_report_reference_has_every_column_and_ledger_entry() -> None:
    wanted = {c.key for c in COLUMNS if not c.key.startswith(("ledger_", "joules_"))}
    assert wanted <= _rows("report.md")
    for page, names in (("report.md", LEDGER_ENTRIES), ("energy.md", LEVELS)):
        text = (DOCS / page).read_text(encoding="utf-8")
        for name in names:
            assert f"| {name} |" in text


def test_links_between_pages_lead_somewhere() -> None:
    for path in [*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def _anchors(path: Path) -> set[str]:
    """As GitHub makes them of headings: small letters, spaces as hyphens, no other marks."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def test_links_lead_to_sections_that_are_there() -> None:
    for path in [*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = path.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text):
            page = path.parent / target if target else path
            assert anchor in _anchors(page), f"{path.name} links to {target}#{anchor}"
