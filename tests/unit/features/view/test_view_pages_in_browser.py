"""Comparisons, trends, requests and trainings in a browser: parts follow, state is in the address, and keys work."""

from __future__ import annotations

import pytest
from chromium import chromium
from dashboard_tabs import horizontal_overflow, open_tabs
from experiment_builders import store_run

from pytest_crucible.records import Event, Sample
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Recorder
from tests.dashboard import served_dashboard


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "runs.db"
    opened = RunStore(str(path))
    samples = [Sample(id=f"q{k:03}", input=k) for k in range(130)]
    for run, right in (("aaaa", 20), ("bbbb", 90)):
        store_run(opened, run, samples, v2=[k < right for k in range(130)])
        recorder, writer = Recorder(run), opened.writer()
        recorder.open(writer)
        for event in events():
            recorder(event)
        writer.close()
        opened.end_run(run, finished="2026-01-02", status="finished")
    opened.close()
    return path


def events():
    for k in range(1, 40):
        facts = {"step": k, "loss": 1 / k, "gradient_norm": float(k % 5), "learning_rate": 0.01}
        yield Event(name="train.step", at=float(k), arm="v2", facts=facts)
        facts = {"input_tokens": 1_000_000 * k, "output_tokens": k, "first_token_s": 0.1}
        yield Event(
            name="request.stop",
            at=50.0 + k,
            seconds=k / 10,
            experiment="test_sums.py::test_sums",
            arm="v2",
            facts=facts,
        )


@pytest.fixture(scope="module")
def tabs(store):
    with chromium() as browser, served_dashboard(store) as served, open_tabs(browser, served) as tabs:
        yield tabs


def test_a_sample_is_opened_by_keyboard_and_closed_to_the_same_place(tabs):
    page = tabs.open("/compare/aaaa/bbbb")

    for key in ("j", "j", "j", "k", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector("#replies:focus")
    assert "open=21" in page.url
    assert page.inner_text("#replies-title") == "Replies to q021"
    page.wait_for_selector("#difference[data-state=done]")
    assert page.inner_text("#difference del").strip() == "True"
    assert page.inner_text("#difference ins").strip() == "False"
    page.keyboard.press("j")
    page.wait_for_selector("#replies-title:has-text('q022')")
    page.keyboard.press("k")
    page.wait_for_selector("#replies-title:has-text('q021')")
    page.keyboard.press("Escape")
    page.wait_for_selector("#sample-21:focus")

    assert "open" not in page.url
    page.go_back()
    page.wait_for_selector("#replies")
    assert "open=21" in page.url
    page.close()


def test_an_address_has_the_page_of_the_list_and_what_is_open(tabs):
    page = tabs.open("/compare/aaaa/bbbb")
    page.click("#next-samples")
    page.wait_for_selector("#sample-70")
    address = page.url.removeprefix(tabs.address)
    page.close()

    page = tabs.open(address)

    assert page.locator("a.sample").count() == 20
    assert "51 to 70 of 70" in page.inner_text("main")
    page.close()


def test_the_form_compares_with_other_choices(tabs):
    page = tabs.open("/compare/aaaa/bbbb")
    page.click("summary")
    page.fill("[name=metric]", "exact")
    page.fill("[name=alpha]", "0.2")
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare/aaaa/bbbb?metric=exact&alpha=0.2")
    page.wait_for_selector("#verdicts")

    assert "80 % interval" in page.inner_text("#verdicts")
    page.close()


def test_trainings_and_requests_are_drawn(tabs):
    page = tabs.open("/runs/aaaa/training")
    assert page.locator("svg polyline").count() == 3
    assert page.locator("svg polyline").first.bounding_box()["width"] > 100
    page.close()

    page = tabs.open("/runs/aaaa/requests")
    assert page.locator("figure svg").count() == 3
    assert "780,000,000" in page.inner_text("main")
    page.close()


PAGES = [
    *("/compare", "/compare/aaaa/bbbb?open=21", "/trend", "/trend/exact"),
    *("/runs/aaaa/requests", "/runs/aaaa/training"),
]


@pytest.mark.parametrize("address", PAGES)
def test_nothing_is_wider_than_a_narrow_window(tabs, address):
    page = tabs.open(address)
    page.set_viewport_size({"width": 320, "height": 400})

    assert horizontal_overflow(page) == []
    page.close()
