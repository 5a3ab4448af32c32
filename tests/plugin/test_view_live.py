"""A page of a real run, in a browser: the run is killed and resumed, and so is the dashboard."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from chromium import chromium
from quiet_ports import find_quiet_port

from pytest_crucible.features.view.live.progress import ProgressReader
from pytest_crucible.runs.run_store import open_for_reading

MANY = 200
TEST = """
    import asyncio
    import os

    import pytest

    @pytest.mark.crucible(dataset="many.jsonl", metrics=["exact_match"], epochs=2)
    @pytest.mark.quality_target("exact_match >= 0.5")
    async def test_sums(sample, sampler):
        while os.path.exists("hold"):
            await asyncio.sleep(0.05)
        reply = await sampler.generate(sample.input)
        assert sample.id != "q4"
        if sample.id == "q5":
            pytest.skip("not about this")
        return reply
"""
SCRIPTS = """
    def answer(request):
        number = int(request.sample[1:])
        return str(2 * number) if number % 3 else "?"

    base = answer
"""
DECIDES = r"\b(met|missed|undecided|interval|proven)\b|\bp\s*[=<]|\[[-+0-9.]+, "


@pytest.fixture
def many(suite):
    rows = [{"id": f"q{k}", "input": f"{k} + {k}", "expected": str(2 * k)} for k in range(MANY)]
    suite.write_rows("many.jsonl", rows)
    suite.script(SCRIPTS, others={"scripted": {"backend": "scripted", "script": "scripts:answer", "latency_s": 0.2}})
    suite.test(TEST)
    return suite


def test_when_a_run_has_ended_its_means_so_far_are_its_estimates(many):
    document = many.json("--crucible-adapter=scripted", "--crucible-concurrency=200")
    [estimate] = document["experiments"][0]["estimates"]
    with open_for_reading(".crucible/crucible.db", "view") as store, store.connect() as connection:
        [experiment] = ProgressReader(document["run"]["id"]).read(connection).experiments
        [arm] = experiment.arms

    assert (arm.counts.done, arm.planned) == (2 * MANY, 2 * MANY)
    assert (dict(arm.counts.failed), arm.counts.skipped) == ({"assertion": 2}, 2)
    assert [mean.mean for mean in arm.means] == [pytest.approx(estimate["value"])]


@contextlib.contextmanager
def process(suite: Any, *command: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", *command], cwd=suite.path, env=environment, text=True, stdout=subprocess.PIPE
    ) as started:
        yield started
        started.kill()


def session(suite: Any, *arguments: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    plain = ("-p", "no:asyncio", "-p", "no:hypothesispytest", "--crucible-cache=off", "--crucible-concurrency=4")
    return process(suite, "pytest", *plain, "--crucible-adapter=scripted", *arguments)


@contextlib.contextmanager
def dashboard(suite: Any, port: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process of a dashboard, and the link that it prints."""
    with process(suite, "pytest_crucible", "view", "latest", "--no-browser", "--port", port) as started:
        yield started, next(link[0] for line in started.stdout if (link := re.search(r"http://\S+token=\S+", line)))


@pytest.mark.slow
def test_a_page_follows_a_run_that_is_killed_and_resumed_and_a_dashboard_that_is_killed(many):
    with chromium() as browser, contextlib.ExitStack() as stack:
        page = browser.new_context().new_page()
        killed = stack.enter_context(session(many))
        next(line for line in killed.stdout if "crucible: test_sums" in line)
        port = str(find_quiet_port())
        first, link = stack.enter_context(dashboard(many, port))
        page.goto(link)
        page.get_by_text(re.compile(r"^[1-9]\d* of 400$")).wait_for()
        old = page.url
        killed.send_signal(signal.SIGKILL)
        page.get_by_text("Nothing written since").wait_for()
        assert not re.search(DECIDES, page.inner_text("body"))

        first.send_signal(signal.SIGKILL)
        page.locator(".notices").get_by_text("The dashboard does not answer since").wait_for()
        first.wait()
        _, link = stack.enter_context(dashboard(many, port))
        page.locator(".notices").get_by_text("The dashboard was started again").wait_for()
        page.context.request.get(link)
        page.locator(".notices p").first.wait_for(state="detached")
        assert page.locator("#progress table.live tbody tr").count() == 1

        hold = many.path / "hold"
        hold.touch()
        stack.enter_context(session(many, "--crucible-resume", "--crucible-concurrency=50"))
        page.wait_for_url(lambda url: url != old)
        page.get_by_text(re.compile(r"\d+ from run")).wait_for()
        assert not re.search(DECIDES, page.inner_text("body"))
        hold.unlink()
        page.get_by_text("exact_match >= 0.5").first.wait_for()
        page.locator("#live").wait_for(state="detached")
