"""A headless Chromium, where this machine has one: Playwright's own, or the system's."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Skips the test where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    installed = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_api.sync_playwright() as playwright:
        path = installed or playwright.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium here: install the package chromium, or run `playwright install chromium`")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
