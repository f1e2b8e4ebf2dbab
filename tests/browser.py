"""Chromium for the tests of the page: found on this computer, never downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = (
    "the page was NOT tested in a browser: no Chromium on this computer. Install it (Debian:"
    " apt-get install chromium) or name one with RIDGELINE_CHROMIUM"
)


def chromium() -> str:
    """The path of a Chromium; without one the test is skipped, or fails in CI."""
    named = os.environ.get("RIDGELINE_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is not None:
        return found
    if os.environ.get("CI"):
        pytest.fail(MISSING)
    pytest.skip(MISSING)


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium, driven by Playwright."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    # Chromium refuses its sandbox to root, as containers run it; the pages are our own.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=options)
        yield started
        started.close()
