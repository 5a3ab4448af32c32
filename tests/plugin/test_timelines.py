"""Timelines of samples against a real server's log: numbers of calls and requests, votes, cached and copied replies, keys."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from openai_server import OpenAIServer

from pytest_crucible.features.provenance.load_timeline import load_timelines
from pytest_crucible.features.provenance.timeline import Step, Timeline
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.runs import RunStore

TWO_CALLS = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler):
        first = await sampler.generate(f"Think about {sample.input}.")
        return await sampler.generate([{"role": "user", "content": sample.input}, {"role": "assistant", "content": first.text},
            {"role": "user", "content": f"The answer to {sample.input}?"}], temperature=0)
"""
ONE_CALL = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
STORE = ".crucible/crucible.db"


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer.start(latency_s=0.002) as server:
        yield server


@pytest.fixture
def served(suite, server):
    server.reset()
    common = {"backend": "openai", "base_url": server.url}
    suite.adapters(
        {
            "steady": {**common, "model": "steady"},
            "flaky": {**common, "model": "flaky", "retries": 20},
            "slow": {**common, "model": "slow", "retries": 20},
            "both": {"ensemble": ["steady", "flaky"], "vote": "majority", "ties": "first"},
        }
    )
    append(suite, '[adapters.slow.hedge]\nstrategy = "fixed"\ndelay_s = 0.05\nmax_extra = 1.0\n')
    suite.test(TWO_CALLS)
    return suite


def append(suite: Any, table: str) -> None:
    with (suite.path / "crucible.toml").open("a") as file:
        file.write(table)


def timelines(suite: Any, sample: str, run: str = "latest", **selected: Any) -> list[Timeline]:
    with closing(RunStore(str(suite.path / STORE))) as store:
        return load_timelines(store, run, sample, **selected)


def steps(timeline: Timeline, kind: str, member: str = "") -> list[Step]:
    return [step for step in timeline.steps if step.kind == kind and step.member == member]


def last_message(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def log_of(server: OpenAIServer) -> Counter[tuple[str, str]]:
    """Return how often the server got each prompt, by model and last message."""
    bodies = [
        json.loads(request["body"]) if isinstance(request["body"], str) else request["body"]
        for request in server.requests()
    ]
    return Counter((body["model"], last_message(body)) for body in bodies)


def prompt_of(call: Step) -> str:
    prompt = call.facts["prompt"]
    return prompt if isinstance(prompt, str) else str(prompt[-1]["content"])


def sent_of(suite: Any, arm: str, member: str = "") -> Counter[tuple[str, str]]:
    """Return how often the timelines say that each prompt was sent; the requests of each call are numbered without gaps."""
    sent: Counter[tuple[str, str]] = Counter()
    for k in range(20):
        [timeline] = timelines(suite, f"q{k:02}", arm=arm)
        numbers = defaultdict(list)
        for step in steps(timeline, "request", member):
            numbers[step.call].append(step.request)
        for call in steps(timeline, "call"):
            assert sorted(numbers[call.call]) == [*range(1, len(numbers[call.call]) + 1)]
            sent[member or arm, prompt_of(call)] = len(numbers[call.call])
    return sent


@pytest.mark.parametrize(
    ("arm", "behaviour"),
    [
        ("flaky", {"fault": "503,reset", "fault_share": 0.3, "retry_after": "ms:5"}),
        ("slow", {"tail_share": 0.3, "tail_times": 200, "fault": "500", "fault_share": 0.1}),
    ],
    ids=["retries", "hedges"],
)
def test_call_and_request_numbers_agree_with_the_servers_log(served, server, run, arm, behaviour):
    server.behave(arm, latency_s=0.002, seed=4, **behaviour)
    run(f"--crucible-adapter={arm}")

    sent = sent_of(served, arm)

    assert sent == log_of(server)
    assert max(sent.values()) > 1


def test_retries_and_hedges_name_their_request(served, server):
    server.behave("flaky", latency_s=0.002, fault="503", fails_first=2, retry_after="ms:5")
    server.behave("slow", latency_s=0.4)
    served.run("--crucible-adapter=flaky", "--compare=slow")

    flaky, slow = timelines(served, "q03")

    assert [(step.kind, step.call, step.request) for step in flaky.steps if step.kind in ("request", "retry")] == [
        (kind, call, request)
        for call in (1, 2)
        for kind, request in (("request", 1), ("retry", 1), ("request", 2), ("retry", 2), ("request", 3))
    ]
    hedged = [step for step in slow.steps if step.kind == "hedge"]
    assert all(step.request == 2 for step in hedged)
    assert all(step.at is not None for step in slow.steps if step.kind in ("hedge", "request"))


def test_a_call_has_its_prompt_parameters_and_reply_and_earlier_turns_are_whole(served):
    served.run("--crucible-adapter=steady")

    [timeline] = timelines(served, "q03")

    first, second = steps(timeline, "call")
    assert first.facts["prompt"] == "Think about 3 + 3."
    assert (first.facts["reply"], first.facts["parameters"]) == ("Think about 3 + 3.", {})
    assert [message["content"] for message in second.facts["prompt"]] == [
        "3 + 3",
        "Think about 3 + 3.",
        "The answer to 3 + 3?",
    ]
    assert (second.facts["reply"], second.facts["parameters"]) == ("The answer to 3 + 3?", {"temperature": 0})
    assert [step.kind for step in timeline.steps] == ["call", "request", "call", "request", "score", "end"]
    assert timeline.steps[-2].facts == {"metric": "exact_match", "value": False}
    assert timeline.steps[-1].facts["finish"] == "stop"


def test_members_of_an_ensemble_have_their_requests_and_replies_and_the_vote_its_call(served, server):
    server.behave("flaky", latency_s=0.002, fault="503", fails_first=1, retry_after="ms:5")
    served.run("--crucible-adapter=both")

    [timeline] = timelines(served, "q03")

    assert sorted((step.call, step.member) for step in timeline.steps if step.kind == "member") == [
        (1, "flaky"), (1, "steady"), (2, "flaky"), (2, "steady")
    ]  # fmt: skip
    assert [step.facts["reply"] for step in steps(timeline, "member", "flaky")] == [
        "Think about 3 + 3.",
        "The answer to 3 + 3?",
    ]
    assert [(step.call, step.request) for step in steps(timeline, "request", "flaky")] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]
    assert [(step.call, step.request) for step in steps(timeline, "request", "steady")] == [(1, 1), (2, 1)]
    assert [step.call for step in steps(timeline, "vote")] == [1, 2]


def test_the_requests_of_a_judge_belong_to_the_arm_whose_reply_it_scores(served, server):
    served.adapters(
        {**{name: {"backend": "openai", "base_url": server.url, "model": name} for name in ("v2", "v1", "judge")}}
    )
    append(served, '[scorers]\njudge = { adapter = "judge" }\n')
    server.behave("v2", text="two")
    server.behave("v1", text="one")
    server.behave("judge", text="It is.\nVERDICT: good")
    served.test(
        """
        import pytest
        from pytest_crucible import judges

        helpful = judges.rubric("helpful", "Is it?", levels={"bad": 0, "good": 1})

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=[helpful])
        @pytest.mark.ab_compare("helpful")
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )
    served.run("--crucible-adapter=v2", "--compare=v1")

    for timeline, answer in zip(timelines(served, "q03"), ("two", "one"), strict=True):
        [call] = steps(timeline, "call", "judge:judge")
        assert f"\n{answer}\n" in call.facts["prompt"]
        assert [(step.call, step.request) for step in steps(timeline, "request", "judge:judge")] == [(2, 1)]
        assert [(step.call, step.request) for step in steps(timeline, "request")] == [(1, 1)]


def test_timelines_of_a_run_in_postgresql_are_those_of_one_in_sqlite(served, server, postgresql):
    for store_option in ((), (f"--crucible-store={postgresql}",)):
        server.reset()
        server.behave("flaky", latency_s=0.002, fault="503", fails_first=1, retry_after="ms:5")
        served.run("--crucible-adapter=flaky", "--crucible-cache=off", *store_option)
    [own] = timelines(served, "q03")
    with closing(RunStore(postgresql)) as store:
        [other] = load_timelines(store, "latest", "q03")

    def content(timeline: Timeline) -> list[Any]:
        # Whether a request waits for its turn is a matter of time.
        happened = [step for step in timeline.steps if step.kind != "wait"]
        return [(step.kind, step.call, step.request, step.member, step.facts.get("reply")) for step in happened]

    assert content(other) == content(own)


def test_without_texts_of_calls_a_vote_has_no_answers(served):
    served.run("--crucible-adapter=both", "--crucible-trace=off")

    [timeline] = timelines(served, "q03")

    assert [step.facts.keys() & {"winner", "counts", "consensus"} for step in steps(timeline, "vote")] == [
        {"consensus"}
    ] * 2


# -- the run that has requested a reply -------------------------------------------------------------------------------


def run_ids(suite: Any) -> list[str]:
    """Return the runs of the store, the first one first."""
    with closing(RunStore(str(suite.path / STORE))) as store:
        return [run for (run,) in store.rows("SELECT run FROM experiments ORDER BY id")]


def paid_by(timeline: Timeline) -> list[str | None]:
    return [step.facts["paid_by"] for step in steps(timeline, "cached")]


def test_a_cached_and_a_copied_reply_lead_to_the_run_that_requested_them(served, server):
    served.run("--crucible-adapter=flaky")
    served.run("--crucible-adapter=flaky")  # cached
    served.run(
        "--crucible-adapter=steady", "--compare=flaky"
    )  # the baseline's replies are copied from a run that had them cached
    served.run("--crucible-adapter=steady", "--compare=flaky")  # and from a copy
    first, *later = run_ids(served)

    assert not steps(timelines(served, "q03", first)[0], "cached")
    for run in later:
        [timeline] = timelines(served, "q03", run, arm="flaky")
        assert paid_by(timeline) == [first, first]
        assert not steps(timeline, "request")
    assert len([prompt for model, prompt in log_of(server).elements() if model == "flaky"]) == 40


def test_after_a_kill_and_a_resumed_run_each_reply_leads_to_the_run_that_requested_it(served, server):
    served.test(ONE_CALL)
    server.behave("steady", latency_s=0.1)
    process = served.popen("-p", "no:asyncio", "--crucible-adapter=steady", "--crucible-concurrency=1", cwd=served.path)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        time.sleep(0.05)
        with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(served.path / STORE)) as store:
            if store.execute("SELECT COUNT(*) FROM replies").fetchone()[0] > 3:
                break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    server.behave("steady", latency_s=0.0)
    served.run("--crucible-adapter=steady", "--crucible-resume")
    served.run("--crucible-adapter=steady")
    killed, resumed, last = run_ids(served)

    for k in range(20):
        [timeline] = timelines(served, f"q{k:02}", resumed)
        payer = killed if steps(timeline, "cached") else resumed
        assert paid_by(timeline) == ([killed] if payer == killed else [])
        assert len(steps(timeline, "request")) == (payer == resumed)
        assert paid_by(timelines(served, f"q{k:02}", last)[0]) == [payer]


# -- what is not known ------------------------------------------------------------------------------------------------


def test_without_texts_of_calls_their_hashes_parameters_and_models_stay_and_the_run_can_be_reused(served, server):
    served.run("--crucible-adapter=steady", "--crucible-trace=off")
    [run] = run_ids(served)

    [timeline] = timelines(served, "q03")
    first, second = steps(timeline, "call")
    assert timeline.unknown == f"run {run} was recorded with --crucible-trace=off: its calls are unknown"
    assert first.facts == {"parameters": {}, "model": "steady"}
    assert second.facts == {"parameters": {"temperature": 0}, "model": "steady", "reply": "The answer to 3 + 3?"}
    assert [(step.call, step.request) for step in steps(timeline, "request")] == [(1, 1), (2, 1)]
    with closing(sqlite3.connect(served.path / STORE)) as store:
        assert store.execute("SELECT COUNT(*), COUNT(messages) FROM calls").fetchone() == (40, 40)
        assert store.execute("SELECT COUNT(*) FROM messages").fetchone() == (0,)
        assert store.execute("SELECT COUNT(text), COUNT(text_id) FROM calls").fetchone() == (0, 20)
    # Copied to a run that stores texts, they stay unknown, and nothing is requested again.
    before = log_of(server)
    served.run("--crucible-adapter=flaky", "--compare=steady")
    assert not [key for key in log_of(server) - before if key[0] == "steady"]
    assert "reply" not in steps(timelines(served, "q03", arm="steady")[0], "call")[0].facts


def test_a_run_without_texts_of_calls_and_those_that_copy_from_it_are_verified_and_exported(served):
    served.run("--crucible-adapter=steady", "--crucible-trace=off")
    served.run("--crucible-adapter=flaky", "--compare=steady")
    served.run("--crucible-adapter=steady", "--compare=flaky", "--crucible-trace=off")

    for run in run_ids(served):
        assert served.command("verify", run).ret == 0
    exported = served.command("export", "-o", "sft.jsonl", "--what=sft", "--allow-gate-samples", "--on=exact_match")
    assert (exported.ret, "Traceback" in exported.stderr.str()) == (pytest.ExitCode.USAGE_ERROR, False)
    with closing(sqlite3.connect(served.path / STORE)) as store:
        counts = store.execute(
            "SELECT has_texts, COUNT(*), COUNT(text) FROM calls GROUP BY has_texts ORDER BY 1"
        ).fetchall()
    # Of the second run the candidate's calls have texts, and of the copies none.
    assert counts == [(None, 40, 20), (0, 160, 0)]


def test_a_wrong_value_of_trace_is_refused_in_one_sentence(served):
    served.refuses(served.run("--crucible-trace=maybe"), "--crucible-trace=maybe: write one of on, off")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("latest", "q033", None), "run {run} has no sample 'q033': did you mean 'q03'?"),
        (("latest", "q03", "stedy"), "run {run} has no arm 'stedy': did you mean 'steady'?"),
        (("zzzz", "q03", None), "run store '{store}' has no run that begins with 'zzzz': the latest is '{run}'"),
    ],
    ids=["sample", "arm", "run"],
)
def test_an_unknown_run_sample_or_arm_is_named_with_the_nearest(served, arguments, sentence):
    served.run("--crucible-adapter=steady")
    [run] = run_ids(served)
    named, sample, arm = arguments

    with pytest.raises(SpecError) as error:
        timelines(served, sample, named, arm=arm)

    assert str(error.value) == sentence.format(run=run, store=served.path / STORE)


# -- keys -------------------------------------------------------------------------------------------------------------

KEY = "sk-planted-4711aaaabbbbcccc"


def test_a_key_in_prompts_earlier_replies_and_errors_is_in_no_byte_of_the_store(served, server, monkeypatch):
    monkeypatch.setenv("MODEL_API_KEY", KEY)
    served.write_rows(
        "questions.jsonl", [{"id": f"q{k:02}", "input": f"{k} with {KEY}", "expected": "1"} for k in range(5)]
    )
    server.behave("steady", fault="500", fails_first=1, message=f"no {KEY} here", retry_after="ms:5")
    served.run("--crucible-adapter=steady", "--crucible-cache=off")

    [timeline] = timelines(served, "q03")

    first, second = steps(timeline, "call")
    assert first.facts["prompt"].startswith("Think about 3 with ")
    assert first.facts["reply"] == first.facts["prompt"]
    assert len(second.facts["prompt"]) == 3
    assert KEY not in repr(timeline)
    assert not [path for path in (served.path / ".crucible").glob("crucible.db*") if KEY.encode() in path.read_bytes()]
