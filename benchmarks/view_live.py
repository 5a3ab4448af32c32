"""Live pages of the dashboard: from a commit to the pixel, beside 100,000 samples, and how much slower a run with an open page is.

    python -m benchmarks.view_live

Both are measured on real runs in processes of their own; the page is in headless Chromium.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import million
from benchmarks.dashboard import open_browser, open_tab, served
from benchmarks.figures import Figure, show
from benchmarks.suite import COMPARED, Suite
from pytest_crucible.records import Sample
from pytest_crucible.runs.provenance import utc_now
from pytest_crucible.store.runs import RunStore

SAMPLES, COMMITS = 100_000, 20
PAUSE_S = 0.83
"""Between commits: not a multiple of the time between two looks at the store."""
TIMED, LATENCY_S = 3_000, 0.05
ARGUMENTS = ("--crucible-adapter=v2", "--compare=v1", "--crucible-fresh", "--crucible-cache=off")
REPEATS = 4
# Opens the page of a run as soon as the list has one more.
OPEN_NEXT = """
    () => {
      const runs = () => document.querySelectorAll('#main a[href^="/runs/"]'), before = runs().length;
      new MutationObserver(() => { if (runs().length > before) location.href = runs()[0].href; })
        .observe(document.getElementById("main"), { subtree: true, childList: true });
    }
"""
# The time of each frame after the text of the progress has changed.
WATCH = """
    window.frames = {};
    new MutationObserver(() => requestAnimationFrame(() => requestAnimationFrame(() => {
      const text = document.querySelector("#progress .count")?.textContent;
      window.frames[text] ??= Date.now() / 1e3;
    }))).observe(document, { subtree: true, childList: true, characterData: true });
"""


def figures() -> list[Figure]:
    with open_browser() as browser:
        return [*commit_to_pixel(browser), slowdown(browser)] if browser else []


def commit_to_pixel(browser: Any) -> Iterator[Figure]:
    """Yield the median and the longest time from a commit to the frame that shows it."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "live.db"
        with unfinished_run(path) as commits, served(path) as dashboard, open_tab(browser, dashboard) as tab:
            tab.add_init_script(WATCH)
            tab.goto(f"{dashboard.address}/runs/million")
            tab.wait_for_selector("#progress .count", timeout=60_000)
            committed = {}
            for text in islice(commits, COMMITS):
                committed[text] = time.time()
                time.sleep(PAUSE_S)
            tab.wait_for_function("text => text in window.frames", arg=text, timeout=60_000)
            frames = tab.evaluate("window.frames")
    waits = [frames.get(text, float("inf")) - at for text, at in committed.items()]
    yield Figure(name="from a commit to the pixel, median", measured=statistics.median(waits), unit="s", digits=2)
    yield Figure(name="- longest", measured=max(waits), unit="s", limit=1.0, digits=2)


@contextlib.contextmanager
def unfinished_run(path: Path) -> Iterator[Iterator[str]]:
    """Yield a run of which the last samples are missing; each step commits one, and yields the text of its progress."""
    samples = SAMPLES + COMMITS
    plan, facts = million.plan(samples), {"git": {}, "environment": {}}
    with contextlib.closing(RunStore(str(path))) as store:
        store.begin_run("million", started=utc_now(), seed=0, alpha=0.05, correction="holm", **facts)
        key = store.add_experiment("million", plan, [Sample(id=f"sample-{k}", input="q") for k in range(samples)])
        arms = [store.add_arm(key, number, arm.name, arm.name) for number, arm in enumerate(plan.arms)]
        with contextlib.closing(store.writer()) as writer:
            units = million.outcomes(samples)

            def add(many: int) -> None:
                for outcome, observations in islice(units, many * len(arms)):
                    writer.add(outcome, arms[outcome.unit.arm], observations, ())
                    while writer.behind():
                        time.sleep(0.02)
                writer.flush()

            def commit() -> Iterator[str]:
                for done in range(SAMPLES + 1, samples + 1):
                    add(1)
                    yield f"{done:,} of {samples:,}"

            add(SAMPLES)
            yield commit()


def slowdown(browser: Any) -> Figure:
    """Return by how much longer a run takes while its page is open: the least of several runs, in turns."""
    with tempfile.TemporaryDirectory() as directory:
        suite = Suite(directory=Path(directory), samples=TIMED, marks=COMPARED, latency_s=LATENCY_S).write()
        suite.run(*ARGUMENTS)
        with served(suite.store) as dashboard, open_tab(browser, dashboard) as tab:
            alone, watched = [], []
            for _ in range(REPEATS):
                tab.goto("about:blank")
                alone.append(suite.run(*ARGUMENTS)["asking_wall_s"])
                # The list of runs goes to the one that begins.
                tab.goto(dashboard.address)
                tab.evaluate(OPEN_NEXT)
                watched.append(suite.run(*ARGUMENTS)["asking_wall_s"])
                assert tab.url != dashboard.address, "the page of the run was not open"
    return Figure(
        name="a run with a page open, slower by", measured=100 * (min(watched) / min(alone) - 1), unit="%", limit=2.0
    )


if __name__ == "__main__":
    raise SystemExit(show(figures()))
