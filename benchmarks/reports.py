"""What reports cost: every format of a run of 1,000 samples, the size of its page, and what a browser makes of it.

The pages of 100,000 samples, with answers of one word and with prompts and answers of 2,000 characters, are looked at in headless
Chromium, where there is one: how long until samples are listed, the longest that it did not answer meanwhile, the time of a search.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, show
from benchmarks.suite import Suite
from pytest_crucible import builtin
from pytest_crucible.records import Run
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.report_files import report_files, write_report
from pytest_crucible.store.runs import RunStore
from tests.chromium import find_chromium

SAMPLES = 1_000
MANY = 100_000
LONG = 2_000
"""Characters of each prompt and each answer of a long run."""
MARKS = ("@pytest.mark.quality_target('{metric} >= 0.5')", "@pytest.mark.ab_compare('{metric}')")
LONGEST_TASK = """
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
    }).observe({ type: "longtask", buffered: true });
"""


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few, many = _asked(folder / "few", SAMPLES), _asked(folder / "many", MANY)
        took = {
            ending: _written(few, folder / f"run.{ending}") for ending in builtin.REPORTERS if ending not in _NO_LATENCY
        }
        slow = _written(many, folder / "many.html")
        slower = _written(_asked(folder / "long", MANY, "contains_expected", LONG), folder / "long.html")
        whole = sum(took.values())
        found = [
            Figure(name=f"reports: {len(took)} formats of {SAMPLES:,} samples, CPU", measured=whole, unit="s", limit=10),
            Figure(name="- HTML, CPU", measured=took["html"], unit="s", limit=2, digits=2),
            Figure(name="- its size", measured=(folder / "run.html").stat().st_size / 1e6, unit="MB", limit=2, digits=2),
            Figure(name=f"- HTML of {MANY:,} samples, CPU", measured=slow, unit="s", digits=1),
            Figure(name="- its size", measured=(folder / "many.html").stat().st_size / 1e6, unit="MB", digits=1),
            Figure(name=f"- HTML of {MANY:,} samples with long texts, CPU", measured=slower, unit="s", digits=1),
            Figure(name="- its size", measured=(folder / "long.html").stat().st_size / 1e6, unit="MB", limit=50, digits=1),
        ]  # fmt: skip
        return found + _seen(folder)


_NO_LATENCY = ("latency.svg", "latency.pdf")
"""Of scripts that answer at once there is nothing to draw."""


def _asked(folder: Path, samples: int, metric: str = "exact_match", padding: int = 0) -> Run:
    marks = tuple(mark.format(metric=metric) for mark in MARKS)
    suite = Suite(directory=folder, samples=samples, metrics=(repr(metric),), marks=marks, padding=padding).write()
    suite.run("--crucible-adapter=v2", "--compare=v1")
    store = RunStore(str(suite.store))
    try:
        return load_run(store, store.find_run())
    finally:
        store.close()


def _written(run: Run, path: Path) -> float:
    """Seconds of CPU time: whatever else the machine does would only add. It is one thread's work."""
    began = time.process_time()
    [output] = report_files([path.name], builtin.REPORTERS, path.parent)
    write_report(output, run)
    return time.process_time() - began


def _seen(folder: Path) -> list[Figure]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = find_chromium(playwright)
        if path is None:
            print("no Chromium here: pages are not opened", file=sys.stderr)
            return []
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        few, _, _ = _opened(browser, folder / "run.html")
        many, longest, _ = _opened(browser, folder / "many.html")
        long, longest_of_long, searched = _opened(browser, folder / "long.html")
        browser.close()
    return [
        Figure(name=f"opening the page of {SAMPLES:,} samples", measured=few, unit="s", limit=1, digits=2),
        Figure(name=f"opening the page of {MANY:,} samples", measured=many, unit="s", digits=2),
        Figure(name="- the longest that it does not answer", measured=longest / 1e3, unit="s", digits=2),
        Figure(
            name=f"opening the page of {MANY:,} samples with long texts", measured=long, unit="s", limit=3, digits=2
        ),
        Figure(name="- searching the texts that it has", measured=searched, unit="s", digits=2),
        Figure(
            name="- the longest that it does not answer", measured=longest_of_long / 1e3, unit="s", limit=0.5, digits=2
        ),
    ]


def _opened(browser: Any, path: Path) -> tuple[float, float, float]:
    """Seconds until samples are listed, the longest task in milliseconds, and the seconds of a search that finds nothing."""
    page = browser.new_page()
    page.add_init_script(LONGEST_TASK)
    began = time.perf_counter()
    page.goto(path.as_uri())
    page.locator(".explorer .item").first.wait_for()
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    page.get_by_label("search").fill("what nobody said")
    page.locator(".explorer .count", has_text=re.compile(r"^0 of")).wait_for(timeout=60_000)
    searched = time.perf_counter() - began
    longest = float(page.evaluate("window.longest"))
    page.close()
    return seconds, longest, searched


if __name__ == "__main__":
    raise SystemExit(show(figures()))
