"""Every page of the dashboard in a real browser: themes, widths, accessibility, numbers, and a store that stays as it is."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import chromium
from dashboard_suite import run_suite, write_suite
from dashboard_tabs import axe_violations, horizontal_overflow, open_tabs

from pytest_crucible.cli import main
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
WINDOWS = {
    "phone": {"viewport": {"width": 360, "height": 640}},
    "desktop": {"viewport": {"width": 1440, "height": 900}},
    # A window of 1280 pixels at 400 % has 320 CSS pixels.
    "zoomed": {"viewport": {"width": 320, "height": 256}, "device_scale_factor": 4},
}
KINDS = [
    pytest.param({**window, "color_scheme": theme}, id=f"{name}-{theme}")
    for name, window in WINDOWS.items()
    for theme in ("light", "dark")
]

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
    opened = RunStore(str(store))
    dead, run, earlier = (summary.id for summary in list_runs(opened))
    opened.close()
    return {"run": run, "earlier": earlier, "dead": dead}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as chrome:
        yield chrome


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[tuple[str, str]]:
    with served_dashboard(store) as served:
        yield served


@pytest.mark.parametrize("kind", KINDS)
def test_no_page_scrolls_horizontally_or_complains(browser, served, runs, kind):
    with open_tabs(browser, served, **kind) as tabs:
        overflowing = [(name, horizontal_overflow(tabs.open(path.format(**runs)))) for name, path in PAGES.items()]

    assert [page for page in overflowing if page[1]] == []


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[3]])
def test_axe_finds_no_violation(browser, served, runs, kind):
    with open_tabs(browser, served, **kind) as tabs:
        violations = [(name, axe_violations(tabs.open(path.format(**runs)))) for name, path in PAGES.items()]

    assert [page for page in violations if page[1]] == []


def test_no_link_leads_nowhere(browser, served, runs):
    with open_tabs(browser, served) as tabs:
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


def test_the_numbers_of_pages_are_those_of_the_terminal(browser, served, runs, store, tmp_path, capsys):
    place = f"--store={store}"
    for command in (
        ["show", runs["run"], "-vv"], ["compare", runs["run"], runs["earlier"]], ["trend", "agrees"],
        ["report", runs["run"], "-o", str(tmp_path / "run.md")],
    ):  # fmt: skip
        assert main([*command, place]) in (0, 1)
    for subject in ("agrees >= 0.75", "mean(length) <= 15", "agrees: v3 vs v1"):
        main(["why", runs["run"], subject, place])
    printed = set(NUMBER.findall(capsys.readouterr().out + (tmp_path / "run.md").read_text(encoding="utf-8")))

    with open_tabs(browser, served) as tabs:
        for name in ("run", "comparison of runs", "trend"):
            numbers = NUMBER.findall(tabs.open(PAGES[name].format(**runs)).inner_text("main"))
            assert len(numbers) > 5, name
            assert {number for number in numbers if number not in printed} == set(), name


INFERENCE = re.compile(
    r"\bp[ =-]|p-value|interval|\[[-+]?[\d.]+, [-+]?[\d.]+\]|\bmet\b|missed|proven|undecided|verdict: ", re.IGNORECASE
)


def test_the_page_of_an_unfinished_run_has_no_inference(browser, served, runs):
    with open_tabs(browser, served) as tabs:
        text = tabs.open(PAGES["unfinished run"].format(**runs)).inner_text("main")

    assert "so far" in text
    assert INFERENCE.findall(text) == []


def test_a_tour_of_all_pages_changes_no_file(browser, served, runs, store):
    before = file_hashes(store.parent)

    with open_tabs(browser, served) as tabs:
        for path in PAGES.values():
            tabs.open(path.format(**runs))

    assert file_hashes(store.parent) == before


def file_hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
