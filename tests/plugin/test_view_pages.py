"""Every page of the dashboard in a real browser: themes, widths, accessibility, numbers, and a store that stays as it is."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_suite import run_suite, write_suite
from dashboard_tabs import Tabs, axe_violations, horizontal_overflow, open_tabs

from pytest_crucible.cli import main
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore
from tests.dashboard import served_dashboard

PAGES = {
    "runs": "/",
    "run": "/runs/{run}",
    "unfinished run": "/runs/{dead}",
    "samples": "/runs/{run}/samples",
    "sample": "/runs/{run}/samples/1/0",
    "lost sample": "/runs/{run}/samples/1/7",
    "requests": "/runs/{run}/requests",
    "training": "/runs/{run}/training",
    "comparison of runs": "/compare/{run}/{earlier}",
    "trend": "/trend/agrees",
}
"""Every page, by what it shows."""
# 320 pixels are a window of 1280 at 400 %.
WIDTHS = (320, 360, 1440)
THEMES = ("light", "dark")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, python: str) -> Path:
    """A store of three runs: a good one, a worse one, and one that was killed."""
    folder = tmp_path_factory.mktemp("suite")
    write_suite(folder)
    for candidate in ("v2", "v3", "dying"):
        path = run_suite(folder, python, f"--crucible-adapter={candidate}", "--compare=v1")
    return path


@pytest.fixture(scope="module")
def runs(store: Path) -> dict[str, str]:
    """The ids of the runs, by the names in addresses."""
    with contextlib.closing(RunStore(str(store))) as opened:
        dead, run, earlier = (summary.id for summary in list_runs(opened))
    return {"run": run, "earlier": earlier, "dead": dead}


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[tuple[str, str]]:
    with served_dashboard(store) as served:
        yield served


@pytest.fixture
def tabs(browser: Any, served: tuple[str, str]) -> Iterator[Tabs]:
    with open_tabs(browser, served) as tabs:
        yield tabs


@pytest.fixture
def crucible(store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """A command on the store: what it prints."""
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: str) -> str:
        assert main([*arguments, f"--store={store}"]) in (0, 1)
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_each_window_in_each_theme_and_satisfies_axe(tabs, runs, name):
    page = tabs.open(PAGES[name].format(**runs))

    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 640})
            assert horizontal_overflow(page) == [], (theme, width)
        assert axe_violations(page) == [], theme
    page.set_viewport_size({"width": WIDTHS[0], "height": 640})
    assert axe_violations(page) == [], "narrow"


def test_no_link_leads_nowhere(tabs, runs):
    links = {
        address
        for path in PAGES.values()
        for address in tabs.open(path.format(**runs)).eval_on_selector_all(
            "a[href]", "nodes => nodes.map((node) => node.href)"
        )
    }
    answers = {address: tabs.context.request.get(address.partition("#")[0]).status for address in links}

    assert {address: status for address, status in answers.items() if status != 200} == {}
    assert all(address.startswith(tabs.address) for address in links)


NUMBER = re.compile(r"(?<![\w.:-])[+-]?\d[\d,]*\.\d+(?![\w.:])")
"""Decimals: of integers nearly each occurs somewhere by chance."""


def numbers_of(text: str) -> set[str]:
    """Return the decimals of a text, in which a typographic minus is a hyphen."""
    return set(NUMBER.findall(text.replace("\u2212", "-")))


def test_the_numbers_of_a_run_are_those_of_the_terminal_and_its_report(tabs, runs, store, tmp_path, crucible):
    report = tmp_path / "run.html"
    crucible("report", runs["run"], "-o", str(report))
    verdicts = crucible("show", runs["run"])
    explained = "".join(crucible("why", runs["run"], subject) for subject in subjects_of(store, runs["run"]))
    tables = re.sub(r"<svg.*?</svg>|<[^>]*>", " ", report.read_text(encoding="utf-8"), flags=re.DOTALL)

    numbers = numbers_of(read_tables(tabs.open(PAGES["run"].format(**runs))))

    assert numbers_of(verdicts + explained) - numbers == set()
    assert numbers - numbers_of(crucible("show", runs["run"], "-vv") + explained + tables) == set()


def test_the_numbers_of_a_comparison_are_those_of_compare(tabs, runs, crucible):
    named = (runs["run"], runs["earlier"])
    page = tabs.open(PAGES["comparison of runs"].format(**runs))

    # Beside them the page has what only reports show, such as estimates of each group.
    assert numbers_of(crucible("compare", *named)) - numbers_of(read_tables(page)) == set()
    assert numbers_of(page.inner_text("#verdicts")) - numbers_of(crucible("compare", "-vv", *named)) == set()


def test_the_numbers_of_a_trend_are_those_of_trend(tabs, runs, crucible):
    assert numbers_of(read_tables(tabs.open(PAGES["trend"]))) == numbers_of(crucible("trend", "agrees"))


def test_the_numbers_of_requests_are_those_of_show(tabs, runs, crucible):
    text = read_tables(tabs.open(PAGES["requests"].format(**runs)))
    # The width of a point of the lines over time, which no command draws.
    text = re.sub(r"one point for each [\d.]+", "", text)

    assert numbers_of(text) - numbers_of(crucible("show", runs["run"], "-vv")) == set()


def subjects_of(store: Path, run: str) -> list[str]:
    with contextlib.closing(RunStore(str(store))) as opened:
        return [verdict.subject for verdict in load_run(opened, run).verdicts]


def read_tables(page: Any) -> str:
    """Return the text of a page without its figures, whose axes have numbers of their own; what is folded, too."""
    return page.evaluate(
        """() => {
            const main = document.querySelector("main");
            for (const figure of main.querySelectorAll("svg")) figure.remove();
            for (const folded of main.querySelectorAll("details")) folded.open = true;
            return main.innerText;
        }"""
    )


INFERENCE = re.compile(
    r"\bp[ =-]|p-value|interval|\[[-+]?[\d.]+, [-+]?[\d.]+\]|\bmet\b|missed|proven|undecided|verdict: ", re.IGNORECASE
)


def test_the_page_of_an_unfinished_run_has_no_inference(tabs, runs):
    text = tabs.open(PAGES["unfinished run"].format(**runs)).inner_text("main")

    assert "so far" in text
    assert INFERENCE.findall(text) == []


def test_a_tour_of_all_pages_changes_no_file(tabs, runs, store):
    before = file_hashes(store.parent)

    for path in PAGES.values():
        tabs.open(path.format(**runs))

    assert file_hashes(store.parent) == before


def file_hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
