"""The requests of a run in the dashboard: the numbers of its report, and of an unfinished run counts alone."""

from __future__ import annotations

import re

import pytest
from experiment_builders import store_run

from pytest_crucible.cli import main
from pytest_crucible.records import Event, Sample
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Recorder

SAMPLES = [Sample(id=f"q{k:02}", input=k) for k in range(40)]
T = "test_sums.py::test_sums"
HOSTILE = "<script>alert(1)</script>\u202e"


def events():
    for k in range(80):
        facts = {"input_tokens": 10, "output_tokens": 3, "cost_usd": 0.0125, "first_token_s": 0.1 + k / 1000}
        arm = ("v2", "v1")[k % 2]
        yield Event(name="request.stop", at=1000.0 + k, seconds=0.5 + k / 100, experiment=T, arm=arm, facts=facts)
    yield Event(name="request.stop", at=1010.0, seconds=1.0, experiment=T, arm="v2", facts={"error": "429"})
    yield Event(name="request.stop", at=1010.0, seconds=1.0, experiment=T, arm="v2", facts={"error": HOSTILE})
    yield Event(name="request.retry", at=1010.0, experiment=T, arm="v2")
    yield Event(name="limiter.wait", at=1012.0, seconds=2.5, experiment=T, arm="v2")
    yield Event(name="cache.hit", at=1013.0, experiment=T, arm="v1")
    yield Event(name="hedge.fired", at=1013.0, experiment=T, arm="v1", facts={"delay_s": 1.0})


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "runs.db"
    store = RunStore(str(path))
    for run in ("aaaa", "bbbb", "cccc"):
        store_run(store, run, SAMPLES, v2=[*[True] * 38, "lost", "lost"], v1=[True] * 40)
        recorder, writer = Recorder(run), store.writer()
        recorder.open(writer)
        for event in events() if run != "cccc" else ():
            recorder(event)
        writer.close()
    for run in ("aaaa", "cccc"):
        store.end_run(run, finished="2026-01-02", status="finished")
    store.close()
    return path


def words_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html.replace("\u2007", "").replace("\u2008", "")).split())


def test_the_page_has_the_percentiles_that_the_terminal_prints(path, client, capsys):
    main(["show", "aaaa", "-v", f"--store={path}"])
    lines = [line for line in capsys.readouterr().out.splitlines() if re.match(r"(v\d)? +(reply|first token) ", line)]
    printed = [interval for line in lines for interval in re.findall(r"[\d.]+ \[[\d.]+, (?:[\d.]+|inf)\]", line)]

    text = words_of(client.get("/runs/aaaa/requests/counts").text)

    assert len(printed) == 16
    assert [interval for interval in printed if interval not in text] == []


def test_retries_hedges_waits_failures_and_losses_are_counted(client):
    text = words_of(client.get("/runs/aaaa/requests/counts").text)

    assert "429 x 1" in text
    assert "rate limit waits" in text
    assert "from the cache" in text
    assert "v2 error 2" in text
    assert "gone" in text


def test_an_unfinished_run_has_counts_and_no_percentile_or_interval(client):
    frame, text = client.get("/runs/bbbb/requests").text, client.get("/runs/bbbb/requests/counts").text

    assert "has not finished" in frame
    assert "429 x 1" in text
    assert "p95" not in text
    assert re.search(r"\[\d", words_of(text)) is None


def test_a_run_without_requests_says_so(client):
    text = client.get("/runs/cccc/requests/counts").text

    assert "No request was sent" in text
    assert "<svg" not in text


def test_errors_of_servers_are_inert(client):
    text = client.get("/runs/aaaa/requests/counts").text

    assert "<script" not in text
    assert "\u202e" not in text
