"""What a row and a report derive from their figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from report_cases import REPORT, ROWS
from ridgeline.errors import RidgelineError
from ridgeline.results.columns import (
    COLUMNS,
    LEDGER_ENTRIES,
    choose_columns,
    default_columns,
    format_cell,
)


def test_an_operation_is_half_a_multiply_accumulate() -> None:
    assert ROWS[0].operations == 2 * ROWS[0].macs


def test_the_bound_is_the_busiest_resource_and_ties_go_to_the_first() -> None:
    assert [row.bound for row in ROWS] == ["compute", "compute", "fallback"]
    assert ROWS[0].bound_cycles == 28_800
    assert replace(ROWS[0], busy_cycles={}).bound == "none"


def test_utilisation_is_ideal_over_real() -> None:
    assert ROWS[0].utilisation == pytest.approx(0.27)
    assert replace(ROWS[0], cycles=0.0).utilisation == 0


def test_the_largest_loss_is_never_useful_work() -> None:
    assert ROWS[1].largest_loss() == ("read-after-write", 600_000)
    assert replace(ROWS[1], ledger={"useful": 5.0}).largest_loss() == ("", 0)


def test_rows_sum_to_the_total() -> None:
    total = REPORT.total
    assert sum(row.cycles for row in REPORT.rows) == REPORT.cycles
    assert sum(total.ledger.values()) == pytest.approx(REPORT.cycles)
    assert total.macs == sum(row.macs for row in ROWS)
    assert total.busy_cycles["vector"] == 30_600


def test_speed_follows_from_cycles_and_clock() -> None:
    assert REPORT.seconds == pytest.approx(0.055629)
    assert REPORT.inferences_per_s == pytest.approx(450 / 0.055629)
    assert REPORT.steady_inferences_per_s == pytest.approx(450 / 0.055)
    assert replace(REPORT, steady_cycles=None).steady_inferences_per_s is None


def test_the_worst_layers_lose_the_most_cycles() -> None:
    assert [row.name for row in REPORT.worst(2)] == [ROWS[1].name, ROWS[0].name]


def test_every_column_is_documented_and_unique() -> None:
    keys = [column.key for column in COLUMNS]
    assert len(set(keys)) == len(keys)
    assert all(column.doc for column in COLUMNS)
    assert {f"ledger_{n.replace(' ', '_').replace('-', '_')}" for n in LEDGER_ENTRIES} <= set(keys)


def test_wider_terminals_show_more_and_never_less() -> None:
    shown = [{c.key for c in default_columns(w, REPORT)} for w in (40, 80, 100, 140, 200)]
    assert all(narrow <= wide for narrow, wide in pairwise(shown))


def test_a_column_that_says_nothing_is_left_out() -> None:
    rows = tuple(replace(row, sqnr_db=None) for row in ROWS)
    assert "sqnr_db" in [c.key for c in default_columns(200, REPORT)]
    assert "sqnr_db" not in [c.key for c in default_columns(200, replace(REPORT, rows=rows))]


def test_cells_for_people() -> None:
    assert format_cell("whole", 1234567) == "1,234,567"
    assert format_cell("share", 0.5) == "50.0"
    assert format_cell("number", None) == "-"
    assert format_cell("text", (1, 2)) == "1x2"
    assert format_cell("whole", 0) == "0"


def test_an_unknown_column_is_named_with_its_neighbours() -> None:
    assert choose_columns(["all"]) == COLUMNS
    assert [c.key for c in choose_columns(["cycles", "layer"])] == ["cycles", "layer"]
    with pytest.raises(RidgelineError, match=r"no column 'cycels'\. Did you mean 'cycles'"):
        choose_columns(["cycels"])
