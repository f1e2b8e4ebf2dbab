"""Vector instructions that read and write the same lines: in place is legal, over itself is not."""

from __future__ import annotations

import numpy as np
import pytest

from ridgeline.machine.instructions import Elementwise, Instruction, WindowReduce
from ridgeline.machine.overlap import overlap_faults

BANKS = {"in_banks": 1, "out_banks": 1}


def shifted(lines: int, **fields: int) -> Elementwise:
    """8 vectors from line 100 on, rescaled to `lines` further on."""
    settings = {"channels": 4, **BANKS, **fields}
    walk = {"count_0": 8, "a_line": 100, "a_stride_0": 1, "out_stride_0": 1, **settings}
    return Elementwise(operation=2, out_line=100 + lines, **walk)


def reduced(line: int) -> WindowReduce:
    """Pairs of lines 100, 101; 101, 102; ... reduced to lines from `line` on."""
    return WindowReduce(
        count_0=8,
        line=100,
        stride_0=1,
        x_step=1,
        x_limit=9,
        taps_0=2,
        tap_stride_0=1,
        tap_step_0=1,
        out_line=line,
        out_stride_0=1,
        channels=4,
        **BANKS,
    )


@pytest.mark.parametrize(
    ("one", "legal"),
    [
        (shifted(0), True),
        (shifted(-1), True),
        (shifted(1), False),
        (shifted(8), True),
        (shifted(7), False),
        (shifted(1, in_banks=2), True),
        (shifted(1, out_lane=4), True),
        (shifted(0, out_lane=2), False),
        (shifted(1, channels=2, lane=2), True),
        (shifted(0, a_stride_0=0), False),
        (shifted(0, out_stride_0=-1), True),
        (shifted(7, out_stride_0=-1), False),
        (reduced(100), True),
        (reduced(101), False),
        (reduced(109), True),
        (reduced(91), True),
    ],
)
def test_known_cases(one: Instruction, legal: bool) -> None:
    assert (overlap_faults(one) == []) == legal


def test_against_every_pair() -> None:
    """Brute force over random walks: some vector reads a line that an earlier one has written."""
    rng = np.random.default_rng(3)
    verdicts: list[bool] = []
    for _ in range(600):
        a, b, out = (int(v) for v in rng.integers(100, 112, 3))
        strides = [int(v) for v in rng.integers(-2, 3, 6)]
        one = Elementwise(
            operation=0,
            format=int(rng.integers(0, 3)),
            out_format=int(rng.integers(0, 3)),
            count_0=3,
            count_1=2,
            a_line=a,
            b_line=b,
            out_line=out,
            a_stride_0=strides[0],
            a_stride_1=strides[1],
            b_stride_0=strides[2],
            b_stride_1=strides[3],
            out_stride_0=strides[4],
            out_stride_1=strides[5],
            **BANKS,
        )
        deep, wide = (2 if code == 2 else 1 for code in (one.format, one.out_format))
        written: set[int] = set()
        fault = False
        for x, y, z in zip(one.a_lines(), one.b_lines(), one.out_lines(one.counts), strict=True):
            read = {int(line) + p for line in (x, y) for p in range(deep)}
            fault |= bool(read & written)
            written |= {int(z) + p for p in range(wide)}
        assert bool(overlap_faults(one)) == fault
        verdicts.append(fault)
    assert 50 < sum(verdicts) < 550


def test_the_text() -> None:
    assert overlap_faults(shifted(1)) == ["reads line 101 after it has written it itself"]
