"""Suites whose server answers most samples and leaves some without any answer, across resumed runs."""

from __future__ import annotations

from typing import Any

import pytest
from openai_server import OpenAIServer
from run_documents import of_arms

from pytest_crucible.backends import circuit_breaker, retried

pytestmark = pytest.mark.usefixtures("_hurried")

MANY, HANGING = 40, (7, 21)
ASYNC = """
    import pytest

    @pytest.mark.crucible(dataset="many.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.90")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
PLAIN = ASYNC.replace("async ", "").replace("await ", "")
TURNS = ASYNC.replace(
    "return await",
    """first = await sampler.generate("Well?")
        return await""",
)
STREAMED = ASYNC.replace(
    "return await sampler.generate(sample.input)",
    """stream = sampler.stream(sample.input)
        async for piece in stream:
            pass
        return stream.reply""",
)
SLEEPING = ASYNC.replace(
    "return await sampler.generate(sample.input)",
    """reply = await sampler.generate(sample.input.removesuffix(" hang"))
        if sample.input.endswith("hang"):
            import asyncio
            await asyncio.sleep(30)
        return reply""",
)


@pytest.fixture
def server(server) -> OpenAIServer:
    server.behave(fault="hang", fault_in=" hang")
    return server


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries come at once, and a server that does not answer is given up after a quarter of a second."""
    monkeypatch.setattr(retried, "FIRST_S", 0.02)
    for name, seconds in {
        "DOUBT_AFTER_S": 0.02,
        "PROBE_S": 0.02,
        "MAX_SILENCE_S": 0.25,
        "FIRST_ANSWER_S": 0.25,
    }.items():
        monkeypatch.setattr(circuit_breaker, name, seconds)


@pytest.fixture
def served(suite, server):
    """A suite of forty prompts, two of which the server never answers."""
    prompts = [f"{k}? hang" if k in HANGING else f"{k}?" for k in range(MANY)]
    suite.write_rows(
        "many.jsonl",
        [{"id": f"q{k:02}", "input": prompt, "expected": prompt} for k, prompt in enumerate(prompts)],
    )
    suite.test(ASYNC)
    ask(suite, server)
    return suite


def ask(suite, server: OpenAIServer, **settings: Any) -> None:
    adapter = {"backend": "openai", "base_url": server.url, "timeout_s": 0.8, "retries": 1, **settings}
    suite.adapters({"v2": {**adapter, "model": "m2"}, "v1": {**adapter, "model": "m1"}})


def lost_and_failed(document: dict[str, Any], arm: int = 0) -> tuple[dict[str, int], dict[str, int]]:
    (experiment,) = document["experiments"]
    return of_arms(experiment, "lost")[arm], of_arms(experiment, "failures")[arm]


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
@pytest.mark.parametrize("source", [ASYNC, PLAIN, STREAMED], ids=["async def", "def", "stream"])
def test_samples_that_are_never_answered_are_lost_and_resumed_runs_do_not_send_them(served, server, source, workers):
    served.test(source)

    first = served.json("--crucible-adapter=v2", *workers)

    assert lost_and_failed(first) == ({"unanswered": 2}, {})
    assert first["exit_status"] == 0
    assert first["experiments"][0]["verdicts"][0]["state"] == "met"
    assert server.counts()["requests"] == MANY - 2 + 2 * 2

    for _ in range(2):
        resumed = served.json("--crucible-adapter=v2", "--crucible-resume", *workers)

        assert resumed["exit_status"] == 0
        assert lost_and_failed(resumed) == ({"unanswered": 2}, {})
        assert resumed["experiments"][0]["verdicts"][0]["state"] == "met"
    assert server.counts()["requests"] == MANY - 2 + 2 * 2

    served.run("--crucible-adapter=v2", *workers)

    # Without --crucible-resume only they are tried again: the other replies are cached.
    assert server.counts()["requests"] == MANY - 2 + 2 * 2 + 2 * 2


def test_the_report_says_what_was_lost_and_how_to_send_it_again(served):
    result = served.run("--crucible-adapter=v2")

    result.stdout.fnmatch_lines(
        [
            "test_sums: v2: 2 samples lost (no answer)",
            "    first: no answer in 2 attempts, in * s, from a server that answers others; the last: no answer within 0.8 s",
            "    --crucible-resume does not send them again; a run without it does",
        ]
    )


def test_a_run_that_was_cut_short_sends_them_once_more_when_it_is_resumed(served, server):
    ask(served, server, timeout_s=30)
    served.run("--crucible-adapter=v2", "--crucible-deadline=3 s")
    ask(served, server)

    document = served.json("--crucible-adapter=v2", "--crucible-resume")

    assert lost_and_failed(document) == ({"unanswered": 2}, {})
    assert document["exit_status"] == 0


@pytest.mark.parametrize(
    ("source", "fault", "kind"),
    [
        pytest.param(ASYNC, "hang", "lost", id="no answer"),
        pytest.param(PLAIN, "hang", "lost", id="no answer in a thread"),
        pytest.param(TURNS, "hang", "failed", id="an answer, then none"),
        pytest.param(STREAMED, "stall", "failed", id="half a stream"),
        pytest.param(SLEEPING, "hang", "failed", id="a function that sleeps"),
    ],
)
def test_at_a_samples_own_deadline_only_silence_loses_it(served, server, source, fault, kind):
    server.behave(fault=fault, fault_in=" hang")
    served.test(source)
    ask(served, server, timeout_s=0)

    outcome = lost_and_failed(served.json("--crucible-adapter=v2", "--crucible-timeout=2"))

    assert outcome == (({"unanswered": 2}, {}) if kind == "lost" else ({}, {"timeout": 2}))


@pytest.mark.parametrize("status", ["504", "524"])
def test_a_gateway_timeout_counts_as_silence(served, server, status):
    server.behave(fault=status, fault_in=" hang")

    assert lost_and_failed(served.json("--crucible-adapter=v2")) == ({"unanswered": 2}, {})
