"""The pages of runs that are being written, in a browser."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from dashboard_tabs import axe_violations, horizontal_overflow
from live_runs import LiveRun, live_run
from plan_builders import plan_of
from quiet_ports import find_quiet_port

from pytest_crucible.features.view.live import state
from pytest_crucible.records import MetricFacts
from pytest_crucible.store.prune import Prunable, clear
from tests.dashboard import served_dashboard

RIGHT = MetricFacts(name="right", kind="binary", low=0.0, high=1.0)
PLAN = {"metrics": (RIGHT,), "open_metrics": False, "n": 20}


@dataclass
class Watched:
    """A live run, and a browser that may see its dashboard."""

    live: LiveRun
    address: str
    context: Any

    def open(self, path: str = "/runs/run1", text: str = "0 of 20") -> Any:
        """Open a page, and wait until it shows the progress of its run."""
        page = self.context.new_page()
        page.goto(self.address + path)
        if text:
            page.get_by_text(text, exact=True).first.wait_for()
        # A page that is loaded again has no mark.
        page.evaluate("window.mark = true")
        return page


@pytest.fixture
def watched(browser, tmp_path) -> Iterator[Watched]:
    path = tmp_path / "runs.db"
    with live_run(path, **PLAN) as live, served_dashboard(path) as (address, token):
        context = browser.new_context()
        context.request.get(f"{address}/?token={token}")
        yield Watched(live, address, context)
        context.close()


def enter(watched: Watched, run: str, **facts: Any) -> LiveRun:
    return LiveRun(watched.live.store, plan_of("v2", "v1", **PLAN), run, **facts)


def test_what_is_committed_appears_without_a_reload(watched):
    page = watched.open()
    for position in range(3):
        watched.live.add(position, scores={"right": position > 0})
    watched.live.add(3, lost="error")
    watched.live.commit()
    page.get_by_text("4 of 20", exact=True).first.wait_for()

    assert page.locator("#progress tbody tr").first.inner_text().split("\n")[0].startswith("v2")
    assert "1 error" in page.inner_text("#progress")
    assert "0.667 (n = 3)" in page.inner_text("#progress")
    assert page.evaluate("window.mark")


def test_a_live_page_and_its_events_decide_nothing(watched):
    page = watched.open()
    for position in range(20):
        for arm in (0, 1):
            watched.live.add(position, arm, scores={"right": position % 3 > arm})
    watched.live.commit()
    page.get_by_text("20 of 20").first.wait_for()
    html = page.content()

    assert "0.650 (n = 20)" in html
    words = r"\b(met|missed|undecided|p-value|interval|significant|better|worse|proven)\b|\bp\s*[=<]|\[[-+0-9.]+, |95 %"
    assert not re.search(words, page.inner_text("main") + page.inner_text("header p"))
    assert page.locator("button").all_inner_texts() == ["Keys: ?"]


@pytest.mark.parametrize(
    "kind",
    [
        {"viewport": {"width": 1440, "height": 900}},
        {"viewport": {"width": 360, "height": 800}, "color_scheme": "dark"},
    ],
)
def test_a_live_page_with_a_notice_fits_and_axe_finds_nothing(watched, browser, kind):
    context = browser.new_context(**kind)
    context.add_cookies(watched.context.cookies())
    page = context.new_page()
    for position in range(5):
        watched.live.add(position, scores={"right": True, "a_long_name_of_a_metric_that_does_not_fit": 0.5})
        watched.live.tell("request.stop", at=position, seconds=1.0, error="429")
    watched.live.commit()
    page.goto(f"{watched.address}/runs/run1")
    page.get_by_text("5 of 20", exact=True).wait_for()
    enter(watched, "newer").commit()
    page.locator(".notices").get_by_text("A newer run has begun").wait_for()

    assert horizontal_overflow(page) == []
    assert axe_violations(page) == []
    context.close()


def test_the_results_appear_when_the_run_ends(watched):
    page = watched.open()
    watched.live.end()
    page.wait_for_selector("#live", state="detached")

    assert page.get_attribute("#results", "aria-busy") == "false"
    assert "finished" in page.inner_text("#run-facts")
    assert page.evaluate("window.mark")


def test_a_run_that_writes_nothing_says_since_when(watched, monkeypatch):
    monkeypatch.setattr(state, "SILENT_S", 0.5)
    page = watched.open()
    page.get_by_text("Nothing written since").wait_for()
    time = page.locator("#progress time")

    local = page.evaluate("moment => new Date(moment).toTimeString().slice(0, 8)", time.get_attribute("datetime"))
    assert time.inner_text() == local
    watched.live.add(0)
    watched.live.commit()
    page.get_by_text("Last written at").wait_for()


def test_the_page_of_a_killed_run_goes_to_the_run_that_resumes_it(watched):
    killed = enter(watched, "killed", fingerprint="f")
    page, later = watched.open("/runs/killed"), watched.context.new_page()
    resuming = enter(watched, "resuming", fingerprint="f", resumes=True)
    page.wait_for_url("**/runs/resuming")
    later.goto(f"{watched.address}/runs/killed")
    later.locator(".notices").get_by_text("run resuming has resumed this run").wait_for()

    assert later.url.endswith("/runs/killed")
    for run in (killed, resuming):
        run.commit()


def test_a_newer_run_that_reuses_replies_is_only_named(watched):
    page = watched.open()
    enter(watched, "newer", fingerprint="f").commit()
    page.locator(".notices").get_by_text("A newer run has begun: run newer").wait_for()

    page.get_by_role("link", name="run newer").click()
    page.wait_for_url("**/runs/newer")


def test_a_removed_run_is_said_to_be_removed(watched):
    page = watched.open()
    clear(watched.live.store, Prunable(runs=("run1",), replies=0, before=None))
    page.locator(".notices").get_by_text("run run1 was removed from this store").wait_for()


def test_the_list_of_runs_has_new_runs_without_a_reload(watched):
    page = watched.open("/", text="run1")
    page.get_by_role("link", name="run1").focus()
    enter(watched, "run2").commit()
    page.get_by_role("link", name="run2").wait_for()

    assert page.evaluate("document.activeElement.textContent") == "run1"
    assert page.evaluate("window.mark")


def test_a_run_that_begins_while_the_list_of_runs_is_loaded_is_in_it(watched):
    def begin(route: Any) -> None:
        enter(watched, "run2").commit()
        route.continue_()

    page = watched.context.new_page()
    page.route("**/live.js*", begin)
    page.goto(watched.address)
    page.get_by_role("link", name="run2").wait_for()


def test_updates_are_announced_at_most_every_ten_seconds(watched):
    # Without this clock the test itself would take ten seconds on a slow machine.
    watched.context.add_init_script("window.clock_ms = 0; performance.now = () => window.clock_ms;")
    page = watched.open()
    page.evaluate("""
        window.announced = [];
        new MutationObserver(() => window.announced.push(document.querySelector("[aria-live]").textContent))
            .observe(document.querySelector("[aria-live]"), { childList: true });
    """)
    for position in range(3):
        watched.live.add(position)
        watched.live.commit()
        page.get_by_text(f"{position + 1} of 20", exact=True).first.wait_for()

    assert page.evaluate("window.announced") == []
    page.evaluate("window.clock_ms = 10_000")
    watched.live.add(3)
    watched.live.commit()
    page.get_by_text("4 of 20", exact=True).first.wait_for()
    assert page.evaluate("window.announced") == ["4 of 40 replies"]


def test_an_update_leaves_the_focus_and_the_place_of_the_page(watched):
    page = watched.open()
    page.set_viewport_size({"width": 400, "height": 200})
    page.evaluate("document.querySelector('#progress .scroll').focus()")
    page.evaluate("scrollTo(0, 120)")
    before = page.evaluate("[scrollY, document.querySelector('#progress .scroll').getBoundingClientRect().top]")
    watched.live.add(0, scores={"right": True})
    watched.live.commit()
    page.get_by_text("1 of 20", exact=True).first.wait_for()

    assert page.evaluate("document.activeElement.className") == "scroll"
    assert page.evaluate("[scrollY, document.querySelector('#progress .scroll').getBoundingClientRect().top]") == before


def test_more_pages_than_a_browser_opens_connections_are_live(watched):
    pages = [watched.open() for _ in range(7)]
    watched.live.add(0)
    watched.live.commit()

    for page in pages:
        page.get_by_text("1 of 20", exact=True).first.wait_for()


def test_names_from_the_store_are_text(browser, tmp_path):
    name, path = "<img src=x onerror=alert(1)>\x1b[31m", tmp_path / "runs.db"
    with live_run(path, name, nodeid=f"t.py::{name}") as live, served_dashboard(path) as (address, token):
        page = browser.new_page()
        page.goto(f"{address}/runs/run1?token={token}")
        page.get_by_text("0 of 10", exact=True).wait_for()
        live.add(0, scores={f"{name}2": True})
        live.commit()
        page.get_by_text("1 of 10", exact=True).wait_for()

        assert page.locator("img").count() == 0
        assert page.locator("#progress").get_by_text("<img").count() > 3
        page.close()


def test_a_page_says_that_the_server_is_gone_and_goes_on_when_its_new_link_is_opened(browser, tmp_path):
    path = tmp_path / "runs.db"
    with contextlib.ExitStack() as stack:
        live = stack.enter_context(live_run(path, **PLAN))
        context = browser.new_context()
        with served_dashboard(path, port=find_quiet_port()) as (address, token):
            page = context.new_page()
            page.goto(f"{address}/runs/run1?token={token}")
            page.get_by_text("0 of 20").first.wait_for()
        page.locator(".notices").get_by_text("The dashboard does not answer since").wait_for()
        live.add(0)
        live.commit()
        port = int(address.rpartition(":")[2])
        _, token = stack.enter_context(served_dashboard(path, port=port))
        page.locator(".notices").get_by_text("The dashboard was started again").wait_for()
        context.request.get(f"{address}/?token={token}")
        page.get_by_text("1 of 20", exact=True).first.wait_for()

        assert page.locator(".notices p").count() == 0
        assert page.locator("#progress table.live tbody tr").count() == 2
        context.close()
