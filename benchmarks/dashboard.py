"""The dashboard in a process of its own, in a headless Chromium, on large stores that are built once."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

from benchmarks import million
from benchmarks.history import fill_runs
from benchmarks.suite import ROOT
from pytest_crucible.records import Contrast, Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore
from tests.chromium import find_chromium
from tests.dashboard_tabs import settle

# Stores of another format are no use.
STORES = Path(tempfile.gettempdir()) / f"crucible-benchmark-stores-{os.getuid()}-format-{schema.FORMAT}"
MEGABYTE = 1_000_000
# Observed from the first script of a page on: the longest task, and the longest time from an input to the next frame.
OBSERVE = """
    window.longestTask = 0;
    window.longestEvent = 0;
    new PerformanceObserver((list) => {
      for (const task of list.getEntries()) window.longestTask = Math.max(window.longestTask, task.duration);
    }).observe({ type: "longtask", buffered: true });
    new PerformanceObserver((list) => {
      for (const event of list.getEntries()) window.longestEvent = Math.max(window.longestEvent, event.duration);
    }).observe({ type: "event", durationThreshold: 16, buffered: true });
"""


def many_runs() -> Path:
    """Return a store of 1,000 runs with two verdicts each."""
    return _built("runs.db", fill_runs)


def many_samples(samples: int) -> Path:
    """Return a store of a finished run, `million`, of two arms and two metrics, with a request for each reply.

    250,000 samples are a million observations.
    """
    return _built(f"requests-{samples}.db", lambda path: _fill_and_conclude(path, samples))


def long_replies() -> Path:
    """Return a store of a run, `long`, with two replies of 1 MB to each of its samples, which `LONG` names."""
    return _built(f"long-{'-'.join(LONG)}.db", _fill_long)


def _built(name: str, build: Callable[[Path], None]) -> Path:
    STORES.mkdir(exist_ok=True)
    path = STORES / name
    if not path.exists():
        # Under another name until it is whole: whoever interrupts a benchmark leaves no half a store.
        unfinished = STORES / f"unfinished-{os.getpid()}-{name}"
        build(unfinished)
        unfinished.rename(path)
    # Adds the tables that this version has and the one that built it had not; the dashboard only reads.
    RunStore(str(path)).close()
    return path


def _fill_and_conclude(path: Path, samples: int) -> None:
    with contextlib.closing(RunStore(str(path))) as store:
        million.fill(store, samples)
        million.add_requests(store)
        million.conclude_run(store)


def _fill_long(path: Path) -> None:
    plan = with_changes(
        million.plan(2), metrics=million.METRICS[:1], contrasts=(Contrast(metric="right", baseline="v1"),)
    )
    facts = {"seed": 0, "alpha": 0.05, "correction": "holm", "git": {}, "environment": {}}
    with contextlib.closing(RunStore(str(path))) as store:
        store.begin_run("long", started="2026-01-01T00:00:00+00:00", **facts)
        key = store.add_experiment("long", plan, [Sample(id=name, input="q") for name in LONG])
        arms = [store.add_arm(key, number, name, name) for number, name in enumerate(million.ARMS)]
        writer = store.writer()
        for position, texts in enumerate(texts() for texts in LONG.values()):
            for number, text in enumerate(texts):
                unit = Unit(position, 0, number, 0)
                outcome = Outcome(unit, reply=Reply(text=text, latency_s=0.1), started=0.0)
                writer.add(outcome, arms[number], [Observation(unit, "right", number == 0)], ())
        writer.close()
        store.finish_experiment(key)
        conclude(store, "long", alpha=0.05, strict=False, interrupted=False, amend=lambda _: None)


def changed_texts() -> tuple[str, str]:
    """Return two texts of 1 MB of which one word in a hundred differs."""
    draw = random.Random(1)
    words = [f"w{draw.randrange(10_000):04}" for _ in range(MEGABYTE // 6)]
    other = [f"x{word}" if draw.random() < 0.01 else word for word in words]
    return " ".join(words), " ".join(other)


def unlike_texts() -> tuple[str, str]:
    """Return two texts of 1 MB without a common word."""
    draw = random.Random(2)
    one, other = (" ".join(f"{letter}{draw.randrange(10_000):04}" for _ in range(MEGABYTE // 6)) for letter in "ab")
    return one, other


def chinese_texts() -> tuple[str, str]:
    """Return two texts of 1 MB in UTF-8, without blanks, of which one character in a hundred differs."""
    draw = random.Random(3)
    text = written(draw, HAN)
    return text, "".join(chr(HAN[0] + draw.randrange(HAN[1])) if draw.random() < 0.01 else each for each in text)


def written(draw: random.Random, script: tuple[int, int], between: str = "") -> str:
    """Return 1 MB in UTF-8 of a script: some characters are frequent and most are rare, as in all writing."""
    first, many = script
    size = len((chr(first) + between).encode())
    return between.join(chr(first + int(many ** draw.random())) for _ in range(MEGABYTE // size))


# The first character, and how many follow.
HAN, KANA, THAI, EMOJI = (0x4E00, 3000), (0x3041, 80), (0xE01, 58), (0x1F600, 80)


def unlike_texts_in(script: tuple[int, int], between: str = "") -> Callable[[], tuple[str, str]]:
    """Return what makes two texts of 1 MB of a script, that have characters in common, but no sentence."""

    def texts() -> tuple[str, str]:
        draw = random.Random(4)
        return written(draw, script, between), written(draw, script, between)

    return texts


def word_texts() -> tuple[str, str]:
    """Return two texts of one word of 1 MB, of which one letter differs."""
    return "a" * MEGABYTE, "a" * (MEGABYTE // 2) + "b" * (MEGABYTE // 2)


def byte_texts() -> tuple[str, str]:
    """Return two texts of random bytes."""
    draw = random.Random(5)
    return draw.randbytes(MEGABYTE).decode(errors="replace"), draw.randbytes(MEGABYTE).decode(errors="replace")


LONG = {
    "changed": changed_texts,
    "unlike": unlike_texts,
    "chinese": chinese_texts,
    "unlike-chinese": unlike_texts_in(HAN),
    "japanese": unlike_texts_in(KANA),
    "thai": unlike_texts_in(THAI),
    "emoji": unlike_texts_in(EMOJI, " "),
    "word": word_texts,
    "bytes": byte_texts,
}
"""Samples of `long_replies`, and what makes the two replies to them."""


@dataclass(slots=True)
class Dashboard:
    """A served dashboard."""

    process: subprocess.Popen[str]
    link: str
    """With the token."""
    most_memory_mb: float = 0.0
    """Resident memory of the server and its children together, of which some end before anyone asks."""

    @property
    def address(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return self.link.split("?")[0].rstrip("/")

    def server_memory_mb(self) -> float:
        """Return the most resident memory of the server alone."""
        return _status_mb(self.process.pid, "VmHWM")

    def watch_memory(self, ends: threading.Event) -> None:
        while not ends.wait(0.02):
            self.most_memory_mb = max(
                self.most_memory_mb, sum(_status_mb(process, "VmRSS") for process in _family(self.process.pid))
            )


def _family(process: int) -> list[int]:
    """Return a process, its children and theirs."""
    with contextlib.suppress(OSError):
        tasks = [task / "children" for task in Path(f"/proc/{process}/task").iterdir()]
        children = [int(child) for task in tasks for child in task.read_text().split()]
        return [process, *(member for child in children for member in _family(child))]
    return []


def _status_mb(process: int, name: str) -> float:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1e3
    return 0.0


@contextlib.contextmanager
def served(store: Path | str) -> Iterator[Dashboard]:
    """Yield the dashboard of a store, served by `crucible view` in a process of its own."""
    command = [sys.executable, "-u", "-m", "pytest_crucible", "view", f"--store={store}", "--no-browser", "--port=0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    ends = threading.Event()
    try:
        assert process.stdout is not None
        dashboard = Dashboard(
            process, next(word for line in process.stdout for word in line.split() if "token=" in word)
        )
        watch = threading.Thread(target=dashboard.watch_memory, args=(ends,))
        watch.start()
        yield dashboard
        ends.set()
        watch.join()
    finally:
        ends.set()
        process.terminate()
        process.wait()


@contextlib.contextmanager
def open_browser() -> Iterator[Any | None]:
    """Yield a headless Chromium; None where there is none."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = find_chromium(playwright)
        if path is None:
            print("no Chromium here: pages are not opened", file=sys.stderr)
            yield None
            return
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def open_tab(browser: Any, dashboard: Dashboard) -> Iterator[Any]:
    """Yield a tab that has the dashboard's cookie, and observes how long its pages do not respond."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_init_script(OBSERVE)
    tab = context.new_page()
    tab.goto(dashboard.link)
    yield tab
    context.close()


def first_paint_s(tab: Any, address: str) -> float:
    """Open a page, and return the seconds from the navigation to its first contentful paint."""
    response = tab.goto(address)
    assert response.ok, f"{address}: {response.status}"
    tab.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length > 0")
    return float(tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")) / 1e3


def results_s(tab: Any) -> float:
    """Wait until a page has everything that it fetches, and return the seconds since the navigation."""
    settle(tab, most_s=300)  # on a busy machine a run of a million observations takes minutes
    seconds = float(tab.evaluate("performance.now()")) / 1e3
    time.sleep(0.5)  # for what scripts do with the last answer
    return seconds


def not_responding_s(tab: Any) -> float:
    """Return the longest time that the page of a tab did not respond: its longest task, or input without an answer."""
    return float(tab.evaluate("Math.max(window.longestTask, window.longestEvent)")) / 1e3
