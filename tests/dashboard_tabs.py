"""Tabs of a headless Chromium on a served dashboard. What a page complains of, or requests from elsewhere, fails the test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

AXE = Path(__file__).parent.parent / "node_modules/axe-core/axe.min.js"
SETTLED = """
    () => document.readyState === "complete" && document.fonts.status === "loaded"
        && !document.querySelector('main [aria-busy="true"], main[aria-busy="true"]')
"""
_VIOLATIONS = """
async () => {
    const { violations } = await axe.run(document);
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
}
"""
_OVERFLOWING = """
() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const wide = [...document.body.querySelectorAll("*")].filter((node) => node.getBoundingClientRect().right > width + 1);
    return [`${document.documentElement.scrollWidth} > ${width}`, ...wide.slice(0, 3).map((node) => node.outerHTML.slice(0, 200))];
}
"""


@dataclass
class Tabs:
    """Opens addresses of a dashboard in tabs of one kind (viewport, colour scheme)."""

    context: Any
    address: str
    faults: list[str] = field(default_factory=list)
    """Messages in the console, errors, dialogs, requests to elsewhere, and answers that are errors."""

    def open(self, path: str) -> Any:
        """Return the page of an address, complete with what its scripts fetch."""
        page = self.context.new_page()
        page.on("console", lambda message: self.faults.append(f"{path}: console: {message.text}"))
        page.on("pageerror", lambda error: self.faults.append(f"{path}: {error}"))
        page.on("dialog", lambda dialog: (self.faults.append(f"{path}: dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._check_request(path, request.url))
        page.goto(self.address + path)
        settle(page)
        return page

    def _check_request(self, path: str, url: str) -> None:
        if not url.startswith((f"{self.address}/", "data:", "blob:")):
            self.faults.append(f"{path}: requests {url}")


def settle(page: Any, most_s: float = 180) -> None:
    """Wait until a page has everything that it fetches when it is opened."""
    page.wait_for_function(SETTLED, timeout=1e3 * most_s)


@contextlib.contextmanager
def open_tabs(browser: Any, served: tuple[str, str], **kind: Any) -> Iterator[Tabs]:
    """Yield tabs that have the dashboard's cookie. At the end, a fault of a page fails the test."""
    address, token = served
    context = browser.new_context(**kind)
    tabs = Tabs(context, address)
    context.new_page().goto(f"{address}/?token={token}")
    yield tabs
    context.close()
    assert not tabs.faults, "\n".join(tabs.faults)


def horizontal_overflow(page: Any) -> list[str]:
    """Return the width of a page that scrolls horizontally, and elements that reach out of it; empty if it does not."""
    return page.evaluate(_OVERFLOWING)


def axe_violations(page: Any) -> list[str]:
    """Return what axe finds wrong on a page. Skips the test where axe is not installed."""
    if not AXE.exists():
        pytest.skip("no axe here: npm install --no-save --no-package-lock axe-core")
    # Scripts that the page itself loads are those of its policy; this one is evaluated beside it.
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return page.evaluate(_VIOLATIONS)
