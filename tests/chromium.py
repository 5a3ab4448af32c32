"""A headless Chromium, where this machine has one: the system's, or Playwright's own."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium(playwright: Any) -> str | None:
    """The path of its program."""
    installed = next(filter(None, map(shutil.which, NAMES)), None)
    own = playwright.chromium.executable_path
    return installed or (own if Path(own).exists() else None)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Skips the test where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    # A page with many texts takes seconds to draw where other tests share the processor.
    sync_api.expect.set_options(timeout=30_000)
    with sync_api.sync_playwright() as playwright:
        path = find_chromium(playwright)
        if path is None:
            pytest.skip("no Chromium here: install the package chromium, or run `playwright install chromium`")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
