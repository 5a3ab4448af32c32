"""The list of runs: its filters and what is chosen are in its address, and its cells are those of `crucible runs`."""

from __future__ import annotations

import re

import pytest
from experiment_builders import store_run
from live_runs import LiveRun
from plan_builders import plan_of

from pytest_crucible.cli import main
from pytest_crucible.records import Sample, Verdict
from pytest_crucible.store.history import add_tag
from pytest_crucible.store.runs import RunStore
from tests.dashboard import dashboard_client, served_dashboard

SAMPLES = [Sample(id=f"q{k}", input=f"question {k}") for k in range(3)]


def enter_run(
    store: RunStore, run: str, state: str = "", *, status: str = "finished", started: float = 0.0, **facts
) -> None:
    plan = store_run(store, run, SAMPLES, started=started, **facts)
    key = store.scalar("SELECT MAX(id) FROM experiments")
    if state:
        store.add_verdicts(
            key, [Verdict(nodeid=plan.nodeid, subject="s", kind="target", state=state, proven=False, reason="")]
        )
    if status != "running":
        store.end_run(run, finished="2026-01-02", status=status)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "runs.db"
    store = RunStore(str(path))
    scores = [True, False, True]
    enter_run(store, "aaaa", "met", v2=scores, v1=scores)
    enter_run(store, "bbbb", "missed", v3=scores, v1=scores)
    enter_run(store, "cccc", status="running", started=1_767_225_600.0, v2=scores)
    enter_run(store, "dddd", status="interrupted", nodeid="test_words.py::test_words", v2=scores)
    enter_run(store, "eeee", **{"<b>bold</b>": scores})
    add_tag(store, "aaaa", "main", at="2026-01-01")
    store.close()
    return path


def listed_runs(html: str) -> list[str]:
    return re.findall(r'<tr id="run-(\w+)"', html)


def test_running_ones_are_on_top_and_then_the_newest(client):
    assert listed_runs(client.get("/").text) == ["cccc", "eeee", "dddd", "bbbb", "aaaa"]


def test_a_running_one_says_when_its_last_reply_was_there(client):
    text = client.get("/").text

    assert text.count("last reply") == 1
    assert "last reply 2026-01-01 00:00:00" in text


def test_whether_an_unfinished_one_still_runs_is_not_claimed(client):
    assert ">unfinished</span>" in client.get("/").text
    assert ">running<" not in client.get("/").text


def test_a_run_that_another_has_resumed_is_not_on_top(tmp_path):
    store = RunStore(str(tmp_path / "runs.db"))
    LiveRun(store, plan_of("v2"), "killed", fingerprint="f")
    LiveRun(store, plan_of("v2"), "resuming", fingerprint="f", resumes=True).end()
    store.close()
    with dashboard_client(tmp_path / "runs.db") as client:
        assert listed_runs(client.get("/").text) == ["resuming", "killed"]


def test_all_runs_are_counted_and_parts_of_them_located(client):
    assert ">5 runs</p>" in client.get("/").text
    assert ">1 run that fits (5 in the store)</p>" in client.get("/?tag=main").text


@pytest.mark.parametrize(
    ("query", "runs"),
    [
        ("tag=main", ["aaaa"]),
        ("suite=words", ["dddd"]),
        ("adapter=v1", ["bbbb", "aaaa"]),
        ("verdict=missed", ["bbbb"]),
        ("verdict=none", ["cccc", "eeee", "dddd"]),
        ("adapter=v1&verdict=met", ["aaaa"]),
        ("page=2", []),
        ("page=-1", ["cccc", "eeee", "dddd", "bbbb", "aaaa"]),
    ],
)
def test_filters_of_the_address(client, query, runs):
    assert listed_runs(client.get(f"/?{query}").text) == runs


def test_filters_that_no_run_fits_say_so(client):
    assert "No run of 5 fits these filters." in client.get("/?suite=nothing").text


def test_cells_are_those_of_crucible_runs(path, client, capsys):
    main(["runs", "list", "--tag=main", f"--store={path}"])
    head, line = capsys.readouterr().out.splitlines()

    html = client.get("/?tag=main").text.partition("<tbody>")[2]

    cells = re.findall(r'data-head="(\w+)">(.*?)</t[hd]>', html, flags=re.DOTALL)
    assert [name for name, _ in cells] == head.split()
    assert [" ".join(re.sub(r"<[^>]*>", "", cell).split()) for _, cell in cells] == re.split(r"  +", line.strip())


def test_names_of_a_store_are_inert(client):
    text = client.get("/").text

    assert "&lt;b&gt;bold" in text
    assert "<b>bold" not in text


def test_many_runs_have_pages_that_link_to_each_other(tmp_path):
    store = RunStore(str(tmp_path / "runs.db"))
    for k in range(201):
        store.begin_run(
            f"{k:04}", started="2026-01-01", seed=0, alpha=0.05, correction="holm", environment={}, git=None
        )
        store.end_run(f"{k:04}", finished="2026-01-01", status="finished")
    store.close()
    with dashboard_client(tmp_path / "runs.db") as client:
        first, second = client.get("/?verdict=none").text, client.get("/?verdict=none&page=2").text

    assert len(listed_runs(first)) == 200
    assert len(listed_runs(second)) == 1
    assert 'href="/?page=2&amp;verdict=none" rel="next"' in first
    assert 'href="/?verdict=none" rel="prev"' in second


def test_an_empty_store_says_how_to_fill_it(tmp_path):
    RunStore(str(tmp_path / "runs.db")).close()
    with dashboard_client(tmp_path / "runs.db") as client:
        text = client.get("/").text

    assert "No run is in" in text
    assert "pytest.mark.crucible" in text
    assert "crucible import FILE" in text


@pytest.fixture
def page(path, browser):
    with served_dashboard(path) as (address, token):
        page = browser.new_page()
        page.goto(f"{address}/?token={token}")
        yield page
        page.close()


def shown_runs(page) -> list[str]:
    return [row.get_attribute("id")[4:] for row in page.locator("tbody tr").all()]


class TestInABrowser:
    def test_a_filter_is_in_the_address_and_the_back_button_leads_to_the_one_before(self, page):
        from playwright.sync_api import expect

        page.get_by_label("adapter").select_option("v1")
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_label("verdict").select_option("met")
        expect(page.locator("tbody tr")).to_have_count(1)
        assert page.url.endswith("/?adapter=v1&verdict=met")

        page.go_back()
        expect(page.locator("tbody tr")).to_have_count(2)
        assert page.get_by_label("verdict").input_value() == ""

        page.reload()
        assert shown_runs(page) == ["bbbb", "aaaa"]

    def test_a_filter_is_not_undone_by_a_list_that_was_requested_before_it(self, page):
        from playwright.sync_api import expect

        held = []
        page.route(lambda url: url.endswith("/"), lambda route: held.append((route, route.fetch())))
        page.evaluate("import('/assets/live.js').then(({ refresh }) => { refresh(); })")
        while not held:
            page.wait_for_timeout(10)
        page.get_by_label("adapter").select_option("v1")
        expect(page.locator("tbody tr")).to_have_count(2)
        with page.expect_response(lambda response: response.url.endswith("/")) as late:
            for route, response in held:
                route.fulfill(response=response)
        late.value.finished()
        page.evaluate("new Promise((resolve) => setTimeout(resolve))")

        assert shown_runs(page) == ["bbbb", "aaaa"]

    def test_a_suite_is_searched_while_its_name_is_typed_by_keyboard_alone(self, page):
        from playwright.sync_api import expect

        page.keyboard.press("/")
        page.keyboard.type("words")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_role("searchbox")).to_be_focused()
        assert page.url.endswith("/?suite=words")

        page.keyboard.press("Escape")
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/dddd")

    def test_two_chosen_runs_are_compared_the_newer_one_as_the_candidate(self, page):
        from playwright.sync_api import expect

        button = page.get_by_role("button", name="Compare the two chosen runs")
        expect(button).to_be_disabled()
        page.get_by_label("compare run aaaa").check()
        page.get_by_label("compare run bbbb").check()
        expect(button).to_be_enabled()

        page.reload()
        expect(page.get_by_label("compare run aaaa")).to_be_checked()
        button.click()
        page.wait_for_url("**/compare/bbbb/aaaa")
