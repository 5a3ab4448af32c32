"""The page of a finished run in a browser: results follow its frame, and verdicts are opened by keys and by its address."""

from __future__ import annotations

import pytest
from test_view_results import enter_run

from pytest_crucible.store.runs import RunStore
from tests.dashboard import served_dashboard


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "runs.db"
    store = RunStore(str(path))
    enter_run(store, "aaaa")
    enter_run(store, "broken")
    store.execute("UPDATE runs SET alpha = 'broken' WHERE id = 'broken'")
    store.close()
    with served_dashboard(path) as served:
        yield served


@pytest.fixture
def page(site, browser):
    address, token = site
    page = browser.new_page()
    page.messages = []
    page.on("console", lambda message: page.messages.append(message.text))
    page.goto(f"{address}/?token={token}")
    page.goto(f"{address}/runs/aaaa")
    page.wait_for_selector("#section-facts")
    yield page
    page.close()


def test_the_results_follow_the_frame_without_a_message_in_the_console(page):
    assert page.locator("#results").get_attribute("aria-busy") == "false"
    assert page.locator("#verdicts tbody .ruling").count() == 2
    assert page.locator("#results .failure").count() == 0
    assert page.get_by_role("link", name="Fragility").get_attribute("href") == "#section-facts"
    assert page.messages == []


def test_a_long_reason_takes_lines_and_is_not_cut_off(page):
    reason = page.locator("#verdicts .below").first

    assert reason.evaluate("part => getComputedStyle(part).whiteSpace") == "normal"


def test_keys_lead_from_verdict_to_verdict_and_open_why(page):
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    opened = page.locator("details.explanation[open]")

    assert opened.get_attribute("id") == "verdict-2"
    assert "fragility" in opened.inner_text()
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.parentElement.id") == "verdict-1"


def test_what_is_open_is_in_the_address(page):
    from playwright.sync_api import expect

    address = page.url
    page.locator("#verdict-2 summary").click()
    expect(page).to_have_url(f"{address}?open=1")

    page.reload()
    page.wait_for_selector("#section-facts")
    assert page.locator("details.explanation[open]").get_attribute("id") == "verdict-2"
    assert "fragility" in page.locator("#verdict-2").inner_text()

    page.locator("#verdict-2 summary").click()
    expect(page).to_have_url(address)


@pytest.mark.parametrize("width", [320, 1440])
def test_nothing_scrolls_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("#verdict-1 summary").click()

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_analysis_that_raises_is_a_sentence_below_the_frame(page, site):
    page.goto(f"{site[0]}/runs/broken")

    assert "cannot be computed" in page.get_by_role("alert").inner_text()
    assert page.get_by_role("heading", level=1).inner_text() == "Run broken"
    assert page.messages == []
