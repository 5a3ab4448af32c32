"""The list of samples in Chromium: keys, addresses, and rows that are elements only while they are in view."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_crucible.features.view.samples import indexes
from pytest_crucible.records import MetricFacts, Sample
from tests.dashboard import served_dashboard
from tests.stored_samples import Answer, numbered_samples, score, store_samples

SIZE = 3_000
HOSTILE = "<img src=x onerror=document.title='broken'>\u202e"
FACTS = (
    MetricFacts(name="m", kind="binary", low=0.0, high=1.0),
    MetricFacts(name="score", kind="bounded", low=0.0, high=1.0),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("list") / "runs.db"
    samples = [
        Sample(id=f"s{k}", input=f"question {k}", group=f"g{k % 3}", metadata={"topic": "ab"[k % 2]})
        for k in range(SIZE)
    ]
    arms = {
        "v2": [score(m=k % 10 > 0, score=k / SIZE) for k in range(SIZE)],
        "v1": [score(m=True, score=0.5) for _ in range(SIZE)],
    }
    store_samples(path, samples, arms, metrics=FACTS, groups=3)
    hostile = [Sample(id=HOSTILE, input=HOSTILE, group=HOSTILE)]
    store_samples(
        path, hostile, {HOSTILE: [Answer({HOSTILE: 1.0}, text=HOSTILE)]}, run="hostile", nodeid=f"t.py::{HOSTILE}"
    )
    return path


@pytest.fixture(scope="module")
def tab(path, browser) -> Iterator[Any]:
    with served_dashboard(path) as (address, token):
        tab = browser.new_page(viewport={"width": 1280, "height": 800}, base_url=address)
        tab.messages = []
        tab.on("console", lambda message: tab.messages.append(message.text))
        tab.on("pageerror", lambda error: tab.messages.append(str(error)))
        tab.goto(f"{address}/?token={token}")
        yield tab


@pytest.fixture
def samples(tab) -> Any:
    """The page of a run with 3,000 samples."""
    tab.messages.clear()
    return open_list(tab)


def open_list(tab: Any, query: str = "", run: str = "run") -> Any:
    tab.goto(f"/runs/{run}/samples{query}")
    wait_for_rows(tab)
    return tab


def wait_for_rows(tab: Any) -> None:
    tab.locator("#samples[aria-busy=false]").wait_for()


def count_is(tab: Any, text: str) -> None:
    tab.locator("#count", has_text=re.compile(f"^{re.escape(text)}$")).wait_for()


def focused_row(tab: Any) -> str:
    """Return the id of the sample whose row has the focus, when it is there."""
    return str(tab.locator(".row:focus .name code").text_content())


def address_has(tab: Any, part: str) -> None:
    tab.wait_for_url(lambda url: part in url)


def in_view(tab: Any) -> list[str]:
    """Return the ids of the rows that a reader sees, as soon as all of them are there at once."""
    rows = tab.wait_for_function(
        """() => {
            const { top, bottom } = document.getElementById("samples").getBoundingClientRect();
            const isInView = ({ bottom: low, top: high }) => low > top + 40 && high < bottom;
            const rows = [...document.querySelectorAll("#samples .row")].filter((row) => isInView(row.getBoundingClientRect()));
            const names = rows.map((row) => row.querySelector("code")?.textContent);
            return names.length && names.every(Boolean) ? names : null;
        }"""
    )
    return list(rows.json_value())


def test_a_screen_reader_gets_the_number_of_rows_and_the_place_of_each(samples):
    grid = samples.get_by_role("grid", name="Samples")

    assert grid.get_attribute("aria-rowcount") == str(SIZE + 1)
    assert samples.get_by_role("row", name="question 4 ").first.get_attribute("aria-rowindex") == "6"
    assert samples.locator("#samples .row").count() < 60
    assert samples.messages == []


def test_keys_move_the_focus_to_any_row(samples):
    moves = {"j": "s0", "ArrowDown": "s1", "k": "s0", "End": "s2999", "Home": "s0"}
    for key, sample in moves.items():
        samples.keyboard.press(key)
        assert focused_row(samples) == sample, key
    samples.keyboard.press("PageDown")
    samples.keyboard.press("PageDown")
    assert 10 < int(focused_row(samples)[1:]) < 40
    assert focused_row(samples) in in_view(samples)


def test_enter_opens_the_sample_and_back_returns_to_its_row(samples):
    samples.keyboard.press("j")
    samples.keyboard.press("End")
    samples.keyboard.press("k")
    samples.get_by_text("question 2998").wait_for()
    samples.keyboard.press("Enter")
    samples.wait_for_url("**/runs/run/samples/1/2998")

    samples.go_back()
    wait_for_rows(samples)

    address_has(samples, "at=2998")
    samples.locator(".row:focus", has_text="question 2998").wait_for()


def test_a_bookmark_opens_the_same_list_at_the_same_row(tab):
    open_list(tab, "?show=worse&metric=score&sort=most-gained&group=g1&by=topic&slice=b&search=question&at=1489")

    tab.locator(".row:focus", has_text="question 1489").wait_for()
    count_is(tab, "250 of 3,000 samples")
    fields = ("[name=show]", "[name=metric]", "[name=sort]", "[name=group]", "#slice", "[name=search]")
    values = [tab.locator(field).input_value() for field in fields]
    assert values == ["worse", "score", "most-gained", "g1", "b", "question"]


def test_filters_are_in_the_address_and_back_undoes_them(samples):
    samples.get_by_label("show").select_option("worse")
    count_is(samples, "300 of 3,000 samples")
    address_has(samples, "?show=worse")
    samples.get_by_label("slice").select_option(label="topic = a")
    count_is(samples, "300 of 3,000 samples")
    address_has(samples, "by=topic&slice=a")

    samples.go_back()
    samples.go_back()

    count_is(samples, "3,000 of 3,000 samples")
    assert samples.get_by_label("show").input_value() == ""
    assert samples.get_by_label("slice").evaluate("select => select.selectedIndex") == 0


def test_an_order_begins_at_its_first_row(samples):
    samples.keyboard.press("j")
    samples.keyboard.press("End")
    samples.locator("[name=metric]").select_option("score")
    samples.get_by_label("order").select_option("best")

    samples.locator("[role=columnheader][aria-sort=descending]", has_text="v2").wait_for()
    assert in_view(samples)[0] == "s2999"


def test_a_search_is_typed_after_a_slash_and_left_by_escape(samples):
    samples.keyboard.press("/")
    samples.keyboard.type("question 29")
    count_is(samples, "111 of 3,000 samples")
    address_has(samples, "search=question+29")

    samples.keyboard.press("Escape")

    assert focused_row(samples) == "s29"


def test_rows_far_away_are_fetched_when_they_are_scrolled_to(samples):
    samples.locator("#samples").evaluate("grid => { grid.scrollTop = grid.scrollHeight / 2 }")
    samples.locator(".row", has_text=re.compile("question 15")).first.wait_for()

    assert all(name.startswith(("s14", "s15")) for name in in_view(samples))
    assert samples.locator("#samples .row").count() < 60


def test_rows_are_there_while_a_key_is_held_down(samples):
    samples.keyboard.press("j")
    samples.evaluate(
        """async () => {
            // A slow server has sent them some rows later, while the key is still down.
            for (let step = 0; step < 150 || !document.activeElement.querySelector("code"); step += 1) {
                const event = new KeyboardEvent("keydown", { key: step < 2000 ? "ArrowDown" : "ArrowUp", bubbles: true });
                document.activeElement.dispatchEvent(event);
                await new Promise((resolve) => setTimeout(resolve, 10));
            }
        }"""
    )

    row = samples.locator(".row:focus")
    number = int(row.get_attribute("aria-rowindex")) - 2
    assert number >= 149
    assert row.evaluate("row => row.textContent").startswith(f"s{number}g{number % 3}")


def test_the_row_with_the_focus_stays_when_the_list_is_scrolled_away(samples):
    samples.keyboard.press("j")
    samples.locator("#samples").evaluate("grid => { grid.scrollTop = grid.scrollHeight / 2 }")
    samples.locator(".row", has_text="question 15").first.wait_for()

    samples.keyboard.press("j")

    assert focused_row(samples) == "s1"
    assert "s1" in in_view(samples)


def test_a_mistake_in_the_address_is_one_sentence_and_the_next_choice_works(tab):
    tab.goto("/runs/run/samples?group=nope")
    problem = tab.get_by_role("alert")
    problem.get_by_text("group='nope' of the address is not valid: choose one of 'g0', 'g1', 'g2'").wait_for()

    tab.get_by_label("group").select_option("g1")

    count_is(tab, "1,000 of 3,000 samples")
    assert not problem.is_visible()


def test_hostile_names_are_text(tab):
    tab.messages.clear()
    open_list(tab, run="hostile")
    tab.locator("option", has_text="<img").first.wait_for(state="attached")

    assert tab.locator("#main img").count() == 0
    assert "broken" not in tab.title()
    assert tab.locator(".row .name").inner_text().startswith("<img src=x")
    assert tab.messages == []


@pytest.mark.parametrize("width", [320, 360, 1440])
def test_nothing_is_scrolled_sideways(tab, width):
    tab.set_viewport_size({"width": width, "height": 800})
    open_list(tab, "?at=700")

    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator("#samples").evaluate("grid => grid.scrollWidth <= grid.clientWidth")
    assert "s700" in in_view(tab)
    tab.set_viewport_size({"width": 1280, "height": 800})


MILLION = """async () => {
    const { VirtualRows } = await import("/assets/virtual_rows.js");
    const region = document.getElementById("samples").cloneNode(true);
    document.getElementById("samples").replaceWith(region);
    region.querySelector(".rows").replaceChildren();
    const draw = (place) => Object.assign(document.createElement("div"), { className: "row", textContent: place });
    window.list = new VirtualRows(region, draw, () => {});
    list.open(1_000_000, 0);
}"""


def wait_for_scrolling(tab: Any) -> None:
    """Wait until the list knows where it has been scrolled to: the browser says so before it draws the next frame."""
    tab.wait_for_function("() => list.scrolled === list.region.scrollTop")


class TestAMillionRows:
    """More than an element can be high: the middle of the scroll bar is coarser, and rows are where they belong."""

    @pytest.fixture
    def region(self, samples):
        samples.evaluate(MILLION)
        return samples

    def rows_in_view(self, tab) -> list[int]:
        return tab.evaluate("[list.first, list.last]")

    def drawn(self, tab) -> list[int]:
        """Return the first and the last row that is drawn within the region."""
        return tab.evaluate(
            """() => {
                const { top, bottom } = list.region.getBoundingClientRect();
                const head = list.body.offsetTop;
                const inside = [...list.elements].filter(([, row]) => {
                    const box = row.getBoundingClientRect();
                    return box.bottom > top + head + 1 && box.top < bottom - 1;
                }).map(([place]) => place);
                return [Math.min(...inside), Math.max(...inside)];
            }"""
        )

    def test_both_ends_are_reached_by_the_scroll_bar(self, region):
        assert region.evaluate("list.body.offsetHeight") == 8_000_000
        for part, last in ((1.0, 999_999), (0.0, None)):
            region.evaluate("part => { list.region.scrollTop = part * list.region.scrollHeight }", part)
            wait_for_scrolling(region)
            first, end = self.drawn(region)
            assert end == 999_999 if last else first == 0

    def test_the_middle_of_the_scroll_bar_is_the_middle_of_the_list(self, region):
        region.evaluate("list.region.scrollTop = (list.region.scrollHeight - list.region.clientHeight) / 2")
        wait_for_scrolling(region)

        assert self.drawn(region)[0] == pytest.approx(500_000, abs=50)

    def test_a_step_of_the_wheel_moves_by_its_pixels_and_nothing_jumps_when_it_is_still(self, region):
        region.evaluate("list.focus(500_000)")
        before = region.evaluate("list.top")
        region.evaluate("() => { list.settle = () => { window.settles = true; } }")
        region.evaluate("list.region.scrollTop += 200")
        wait_for_scrolling(region)
        assert region.evaluate("list.top") == pytest.approx(before + 200, abs=1)
        drawn = self.drawn(region)

        region.wait_for_function("() => window.settles")
        region.evaluate("delete list.settle; list.settle(); list.render()")
        region.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")

        assert self.drawn(region) == drawn == self.rows_in_view(region)

    def test_keys_reach_every_row(self, region):
        for place in (999_999, 500_000, 500_001, 499_980, 0, 2_000, 997_000):
            region.evaluate("place => list.focus(place)", place)
            first, last = self.drawn(region)
            assert first <= place <= last
            assert region.evaluate("document.activeElement.textContent") == str(place)


@pytest.mark.slow
def test_rows_of_an_unfinished_run_arrive_and_the_focus_stays(tmp_path, monkeypatch, browser):
    monkeypatch.setattr(indexes, "REFRESH_S", 0.1)
    monkeypatch.setattr(indexes, "_SHARE", 0)
    samples = numbered_samples(3)
    store_samples(tmp_path / "a.db", samples, {"v2": [score(m=True), None, None]}, status="running")

    with served_dashboard(tmp_path / "a.db") as (address, token):
        tab = browser.new_page(base_url=address)
        tab.goto(f"/?token={token}")
        open_list(tab)
        tab.keyboard.press("j")
        tab.keyboard.press("j")
        assert "pending" in tab.locator(".row:focus").inner_text()

        store_samples(tmp_path / "a.db", samples, {"v2": [score(m=True), score(m=False), None]}, status="interrupted")

        tab.locator(".row:focus .score", has_text=re.compile("^0$")).wait_for()
        tab.locator(".row", has_text="not run").wait_for()


def test_the_form_has_the_metric_of_the_list_or_says_that_there_is_none(tmp_path, browser):
    store_samples(tmp_path / "a.db", numbered_samples(1), {"v2": [score(label="calm", words=3.0)]})
    store_samples(tmp_path / "a.db", numbered_samples(1), {"v2": [Answer()]}, run="none")

    with served_dashboard(tmp_path / "a.db") as (address, token):
        tab = browser.new_page(base_url=address)
        tab.goto(f"/?token={token}")
        open_list(tab)
        tab.wait_for_function("() => document.querySelector('[name=metric]').value == 'words'")
        open_list(tab, run="none")
        tab.locator("[name=metric] option", has_text="no metric").wait_for(state="attached")


@pytest.mark.slow
def test_the_worst_of_100_000_samples_by_keyboard(tmp_path, browser):
    answers = [score(m=1.0)] * 100_000
    answers[77_777] = score(m=0.25)
    store_samples(tmp_path / "a.db", numbered_samples(100_000), {"v2": answers})

    with served_dashboard(tmp_path / "a.db") as (address, token):
        tab = browser.new_page(base_url=address)
        tab.goto(f"/?token={token}")
        open_list(tab, "?sort=worst")
        tab.keyboard.press("j")
        assert focused_row(tab) == "s77777"
        tab.keyboard.press("End")
        assert focused_row(tab) == "s99999"
        tab.keyboard.press("k")
        assert focused_row(tab) == "s99998"
