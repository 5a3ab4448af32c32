"""A tour by keyboard alone: from the list of runs to the worst of 100,000 samples, its word difference and time lines, and back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import chromium
from dashboard_tabs import Tabs, open_tabs, settle

from benchmarks import million
from pytest_crucible.store.runs import RunStore
from tests.dashboard import served_dashboard

SAMPLES = 100_000
FOCUS_IS_SEEN = """
    () => {
        const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
        return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
    }
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one run of 100,000 samples."""
    path = tmp_path_factory.mktemp("large") / "runs.db"
    with contextlib.closing(RunStore(str(path))) as opened:
        million.fill(opened, SAMPLES)
        million.add_requests(opened)
        million.conclude_run(opened)
    return path


@pytest.fixture(scope="module")
def tabs(store: Path) -> Iterator[Tabs]:
    with chromium() as browser, served_dashboard(store) as served, open_tabs(browser, served) as tabs:
        yield tabs


def tab_to(page: Any, selector: str) -> None:
    """Press Tab until an element that matches has the focus, which must be visible on each element on the way."""
    for _ in range(100):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUS_IS_SEEN), page.evaluate("document.activeElement.outerHTML")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"no {selector} has the focus after 100 tabs")


def test_the_worst_sample_is_found_compared_and_left_by_keyboard(tabs):
    page = tabs.open("/")

    tab_to(page, "a[href='/runs/million']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/million")
    tab_to(page, "a[href='/runs/million/samples']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/samples")
    settle(page)
    tab_to(page, "select[name=sort]")
    # Letters select an option too, but only as long as less than a second is between two of them.
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**sort=most-lost**")
    settle(page)
    tab_to(page, "[role=row]")
    worst = page.evaluate("document.activeElement.querySelector('code').textContent")
    page.keyboard.press("Enter")
    page.wait_for_url("**/samples/1/**")
    settle(page)
    page.keyboard.press("d")
    page.locator("#difference[data-state=done]").wait_for()
    assert page.locator("#difference ins").inner_text() == "no"
    page.get_by_role("heading", name="Time line").nth(1).wait_for()
    assert page.get_by_role("heading", name="Time line").count() == 2
    page.keyboard.press("Escape")
    page.wait_for_url("**/samples?**")
    page.wait_for_function("() => document.activeElement.matches('[role=row]')")

    assert worst == page.evaluate("document.activeElement.querySelector('code').textContent")
    assert "sort=most-lost" in page.url


def test_search_and_keys_are_reached_by_keyboard(tabs):
    page = tabs.open("/runs/million/samples")

    page.keyboard.press("/")
    page.keyboard.type("sample-99999")
    page.get_by_role("status").filter(has_text="1 of 100,000 samples").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog")
    assert {"/", "j", "k", "Enter", "Esc", "?"} <= set(keys.locator("kbd").all_inner_texts())
    page.keyboard.press("Escape")

    assert keys.count() == 0
    assert page.locator("[role=row] code").first.inner_text() == "sample-99999"
