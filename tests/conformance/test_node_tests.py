"""ONNX's node tests: a sample always, all of them with `make test-peers`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from node_tests import NodeTest, conformance, node_tests

# Every test whose place in the order of names is a multiple of this, a prime so that the many
# variants of one operator do not all fall out.
_STEP = 11


def _nothing_wrong(tests: Iterable[NodeTest], right: float, accelerated: float) -> None:
    """No test is wrong, and at least these shares are right, and accelerated and close."""
    found = conformance(tests)
    assert found.wrong == ()
    assert found.executed["right"] >= right * found.tests
    assert found.accelerated.total() - len(found.far) >= accelerated * found.tests


def test_a_sample_is_right_or_refused() -> None:
    _nothing_wrong(node_tests()[::_STEP], 0.75, 0.25)


@pytest.mark.peer
def test_all_are_right_or_refused() -> None:
    _nothing_wrong(node_tests(), 0.79, 0.28)
