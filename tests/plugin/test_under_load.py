"""Suites that ask servers which are limited, slow, broken, or away for a while."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from openai_server import OpenAIServer
from run_documents import of_arms

from pytest_crucible.backends import circuit_breaker, retried

MANY = 120
ASYNC = """
    import pytest

    @pytest.mark.crucible(dataset="many.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.90")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
PLAIN = ASYNC.replace("async ", "").replace("await ", "")
TWO = ASYNC + ASYNC.replace("import pytest", "").replace("test_sums", "test_more")


@pytest.fixture
def served(suite, server):
    """A suite of many sums and one adapter, whose server answers with the prompt."""
    rows = [{"id": f"q{k:03}", "input": f"{k} + {k}", "expected": f"{k} + {k}"} for k in range(MANY)]
    suite.write_rows("many.jsonl", rows)
    suite.test(ASYNC)
    write_adapter(suite, server)
    return suite


def write_adapter(suite, server: OpenAIServer, **settings: Any) -> None:
    """Write an adapter of this server with these settings."""
    suite.adapters({"v2": {"backend": "openai", "base_url": server.url, "model": "m", **settings}})


@pytest.fixture
def _retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the seconds between two requests to hundredths."""
    monkeypatch.setattr(retried, "FIRST_S", 0.02)
    for name in ("DOUBT_AFTER_S", "PROBE_S"):
        monkeypatch.setattr(circuit_breaker, name, 0.02)


@pytest.fixture
def _impatient(_retries_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is given up after half a second. A busy machine may be silent for as long: only for servers that are away."""
    for name in ("MAX_SILENCE_S", "FIRST_ANSWER_S"):
        monkeypatch.setattr(circuit_breaker, name, 0.5)


# -- failures -------------------------------------------------------------------------------------------------------


# -- limits ---------------------------------------------------------------------------------------------------------


def test_concurrency_is_a_number_for_the_run_and_not_for_each_worker(served, server):
    server.behave(latency_s=0.01)
    served.test(TWO)

    result = served.run_n2("--crucible-adapter=v2", "--crucible-concurrency=4", "--crucible-cache=off")

    counts = server.counts()
    assert result.ret == 0
    assert counts["requests"] == 2 * MANY
    assert counts["most_concurrent"] <= 4


# -- servers that are away ------------------------------------------------------------------------------------------

GOES_AWAY = """
    import itertools, urllib.request

    answers = itertools.count(1)

    def pytest_crucible_observed():
        if next(answers) == 40:
            say = urllib.request.Request("{url}", b'{{"fault": "502"}}', method="POST")
            urllib.request.urlopen(say).close()
"""


@pytest.mark.usefixtures("_impatient")
def test_a_vanished_server_stops_the_experiment_which_can_be_resumed(served, server):
    server.behave(latency_s=0.002)
    served.pytester.makeconftest(GOES_AWAY.format(url=server.url.replace("/v1", "/control")))

    result = served.run("--crucible-adapter=v2", "--crucible-concurrency=4", "--crucible-cache=off")

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            f"*server {server.url} has sent no reply since ??:??:??, only errors (* s, * requests failed, the last: *status 502*",
            "*undecided*",
            "*sampling was interrupted; continue with --crucible-resume*",
        ]
    )

    server.behave(fault="")
    served.pytester.makeconftest("")
    answered = server.counts()["distinct"]
    resumed = served.run("--crucible-adapter=v2", "--crucible-resume")

    counts = server.counts()
    assert resumed.ret == 0
    assert 40 <= answered < MANY
    assert counts["distinct"] == MANY
    assert counts["answered_again"] == 0


@pytest.mark.usefixtures("_impatient")
def test_an_unreachable_server_is_reported_in_one_sentence(served):
    served.adapters({"v2": {"backend": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}})

    result = served.run("--crucible-adapter=v2")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*server http://127.0.0.1:9/v1 has never answered*nothing listens at*check its URL*"])
    assert "Traceback" not in result.stdout.str()


# -- the deadline of the run ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("source", [ASYNC, PLAIN], ids=["async def", "def"])
def test_after_its_deadline_a_run_sends_nothing_and_can_be_resumed(served, server, source, run):
    server.behave(latency_s=0.1)
    served.test(source)

    document = served.json("--crucible-adapter=v2", "--crucible-concurrency=2", "--crucible-deadline=3 s", run=run)

    (experiment,) = document["experiments"]
    answered = experiment["estimates"][0]["n"]
    assert document["exit_status"] == 0
    assert 0 < answered < MANY
    assert of_arms(experiment, "lost")[0] == {"deadline": MANY - answered}
    assert [verdict["state"] for verdict in experiment["verdicts"]] == ["undecided"]

    server.behave(latency_s=0.0)
    resumed = served.json("--crucible-adapter=v2", "--crucible-resume", run=run)
    assert resumed["experiments"][0]["estimates"][0]["n"] == MANY
    assert resumed["experiments"][0]["verdicts"][0]["state"] == "met"
    assert server.counts()["answered_again"] <= 2


def test_the_deadline_is_said_where_samples_are_lost_to_it(served, server):
    server.behave(latency_s=0.05)

    result = served.run("--crucible-adapter=v2", "--crucible-concurrency=2", "--crucible-deadline=0.5s", "-v")

    result.stdout.fnmatch_lines(
        [
            "*sampling was interrupted; continue with --crucible-resume*",
            "*v2: * samples lost (deadline)*",
        ]
    )


@pytest.mark.slow
def test_joined_tests_send_nothing_after_the_deadline(served, server, pytester):
    served.test("""
        import time
        import pytest

        @pytest.mark.parametrize("number", range(5))
        @pytest.mark.quality_target("right >= 0.5")
        def test_joined(crucible, number):
            crucible.score(right=crucible.sampler.generate(f"{number}?").text == f"{number}?")
            time.sleep(2 * (number == 1))
    """)

    document = served.json("--crucible-adapter=v2", "--crucible-deadline=1.5 s")

    (experiment,) = document["experiments"]
    lost = of_arms(experiment, "lost")[0]["deadline"]
    assert 0 < lost < 5
    assert document["exit_status"] == 0
    assert server.counts()["requests"] == 5 - lost
    assert experiment["verdicts"][0]["state"] == "undecided"


@pytest.mark.parametrize("wrong", ["soon", "0", "-3", "1 fortnight"])
def test_a_deadline_is_a_time(suite, run, wrong):
    result = run("--crucible-adapter=v2", f"--crucible-deadline={wrong}")

    suite.refuses(result, f"crucible_deadline is {wrong!r}: write a time such as '30 min'")


# -- interruptions --------------------------------------------------------------------------------------------------


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
@pytest.mark.parametrize("source", [ASYNC, PLAIN], ids=["async def", "def"])
def test_ctrl_c_leaves_no_request_behind(served, server, source, workers):
    server.behave(latency_s=60.0)
    served.test(source)
    command = [*served.pytester._getpytestargs(), "-p", "no:asyncio", "-p", "no:hypothesispytest", *workers]
    command += ["--crucible-adapter=v2", "--crucible-concurrency=8"]
    process = served.pytester.popen(command, stdin=subprocess.PIPE, start_new_session=True)
    until(lambda: server.counts()["concurrent"] == 8)

    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    until(lambda: server.counts()["concurrent"] == 0)
    process.communicate(timeout=60)

    counts = server.counts()
    assert counts["cancelled"] == counts["requests"] == 8


@pytest.mark.parametrize("source", [ASYNC, PLAIN], ids=["async def", "def"])
def test_a_sample_past_its_deadline_leaves_no_request_behind(served, server, source):
    server.behave(latency_s=60.0)
    served.test(source)
    served.write_rows("many.jsonl", [{"id": "q0", "input": "a"}, {"id": "q1", "input": "b"}])

    result = served.run("--crucible-adapter=v2", "--crucible-timeout=1.5")  # both requests have arrived before

    until(lambda: server.counts()["concurrent"] == 0)
    assert result.ret == 1
    assert server.counts()["cancelled"] == 2


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_the_cost_of_a_servers_refusals_is_printed_after_the_run(served, server, options):
    write_adapter(served, server, retries=0)
    server.behave(fault="429", fault_share=0.3, fault_after_s=0.0, retry_after="0.2", latency_s=0.02, quiet=True)

    result = served.run("--crucible-adapter=v2", *options)

    assert result.ret == 0
    result.stdout.re_match_lines(
        [r".*test_sums: waiting for the server's rate was \d\d % of the time: it refuses [23]\d % at any rate"]
    )
    assert not [
        line for line in result.outlines if " lost" in line and " 0 " not in line and "lost  verdict" not in line
    ]
