"""Suites that ask an OpenAI-shaped server: from the configuration and from the command line, plain and on two workers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from openai_server import OpenAIServer
from run_documents import of_arms
from tiny_base import write_tiny_base

from pytest_crucible.local_model.server.process import LocalServer

KEY = "sk-hidden-1234567890"
ANSWERS = {f"{k} + {k}": str(2 * k) for k in range(20)}
LAZY = {**ANSWERS, **{f"{k} + {k}": "?" for k in range(12, 20)}}


@pytest.fixture(scope="module")
def scripted_server() -> Iterator[OpenAIServer]:
    with OpenAIServer.start() as server:
        yield server


@pytest.fixture
def server(scripted_server) -> OpenAIServer:
    scripted_server.reset()
    scripted_server.behave("good", answers=ANSWERS)
    scripted_server.behave("lazy", answers=LAZY)
    return scripted_server


@pytest.fixture
def served(suite, server):
    """The suite with two models of the server as adapters."""
    suite.adapters({name: {"backend": "openai", "base_url": server.url, "model": name} for name in ("good", "lazy")})
    return suite


def test_two_models_of_a_server_are_compared(served, server, run):
    result = run("--crucible-adapter=good", "--compare=lazy")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["exact_match >= 0.70 * 1.000 * 20 * met*"])
    assert server.counts()["models"] == {"good": 20, "lazy": 20}


def test_a_stored_baseline_sends_no_request(served, server):
    for _ in range(2):
        served.run("--crucible-adapter=good", "--compare=lazy", "--crucible-cache=off")

    assert server.counts()["models"] == {"good": 40, "lazy": 20}


@pytest.mark.slow
def test_a_server_can_be_named_on_the_command_line(suite, server, run):
    result = run(f"--crucible-adapter=openai+{server.url}#good", f"--compare=openai+{server.url}#lazy")

    assert result.ret == 0
    assert server.counts()["models"] == {"good": 20, "lazy": 20}


def test_connections_are_closed_with_the_session(served, server):
    result = served.run_apart("--crucible-adapter=good", "--crucible-concurrency=8")

    assert result.ret == 0
    assert server.counts()["open_connections"] == 1
    assert server.counts()["most_concurrent"] <= 8


def test_cut_and_filtered_answers_are_failures_of_their_own(served, server, run):
    server.behave("good", answers=ANSWERS, finish="content_filter")
    server.behave("lazy", answers=ANSWERS, finish="length")

    result = run("--crucible-adapter=good", "--compare=lazy")

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "exact_match >= 0.70 * 0.000 * 20 * missed*",
            "test_sums: good: 20 samples failed (content filter)",
            "test_sums: lazy: 20 samples failed (truncation)",
        ],
    )


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_reply_that_is_too_long_is_cut_and_stored_once(suite, server, run, stream):
    server.behave("long", text="12345678 " * 1_000)
    common = {"backend": "openai", "base_url": server.url, "model": "long", "stream": stream}
    suite.adapters({"v2": {**common, "max_reply_bytes": 5_000}})

    result = run("--crucible-adapter=v2", "--crucible-store=runs.db")

    result.stdout.fnmatch_lines(["test_sums: v2: 20 samples failed (truncation)"])
    with closing(sqlite3.connect(suite.path / "runs.db")) as store:
        assert store.execute("SELECT length(body) FROM texts").fetchall() == [(5_000,)]
        query = "SELECT length(body), finish, text FROM replies JOIN texts ON texts.id = replies.text_id"
        assert [*store.execute(query)] == [(5_000, "length", None)] * 20
        assert {*store.execute("SELECT text, text_id, reasoning, is_scored FROM calls")} == {(None, None, None, 1)}
        query = "SELECT count(*), max(length(reply)) FROM reply_cache JOIN texts ON texts.id = reply_cache.text_id"
        assert store.execute(query).fetchone() < (21, 200)


@pytest.mark.slow
def test_a_reply_that_was_cut_is_requested_again_with_another_limit(suite, server):
    server.behave("long", text="12345678 " * 1_000)
    common = {"backend": "openai", "base_url": server.url, "model": "long"}
    for limit, requests in ((5_000, 20), (50_000, 40)):
        suite.adapters({"v2": {**common, "max_reply_bytes": limit}})
        suite.run("--crucible-adapter=v2")
        assert server.counts()["requests"] == requests

    suite.adapters({"v2": {**common, "max_reply_bytes": 7_000}})
    result = suite.run("--crucible-adapter=v2", "--crucible-cache=only")
    result.stderr.fnmatch_lines(["*the run store has no replies of adapter 'v2' as it is configured now*"])


def test_an_empty_answer_is_scored(served, server):
    server.behave("good", text="")
    document = served.json("--crucible-adapter=good")
    (experiment,) = document["experiments"]

    assert (of_arms(experiment, "lost"), of_arms(experiment, "failures")) == ([{}], [{}])
    assert document["experiments"][0]["verdicts"][0]["state"] == "missed"


def test_a_refused_key_stops_the_run_and_is_never_printed(served, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.behave("good", key="another")

    result = served.run_apart("--crucible-adapter=good", "--crucible-concurrency=1", "-vv", "--crucible-json=run.json")

    assert result.ret != 0
    result.stdout.fnmatch_lines(["*status 401, Incorrect API key provided: *; the key is that of OPENAI_API_KEY*"])
    result.stdout.fnmatch_lines(["    sampling stopped before the first result of good"])
    result.stdout.no_fnmatch_line("*--crucible-resume*")
    assert server.counts()["requests"] == 1
    written = [path.read_bytes() for path in served.path.rglob("*") if path.is_file() and path.suffix != ".toml"]
    assert not any(b"hidden" in content for content in [*written, result.stdout.str().encode()])


@pytest.mark.parametrize(
    ("adapter", "sentence"),
    [
        (
            "openai+http://127.0.0.1:1/v1",
            "adapter 'openai+http://127.0.0.1:1/v1' names no model: write openai+http:*#MODEL",
        ),
        (
            "openai+http:#m",
            "adapter 'openai+http:#m' has an invalid base_url: 'http:' is not a URL of a server*",
        ),
        (
            "openai+ftp://a/v1#m",
            "adapter 'openai+ftp://a/v1#m' has an invalid base_url: 'ftp://a/v1' is not a URL of a server*",
        ),
        ("openai:m", "adapter 'openai:m' is not configured*"),
        ("typo", "adapter 'typo' has 'modell', which is not a setting of backend 'openai': did you mean 'model'?"),
        ("hot", "adapter 'hot' has invalid parameters: temperature must be a number, not 'hot'"),
        (
            "keyless",
            "adapter 'keyless' has api_key_env = 'NO_KEY', but that environment variable is not set: set it before the run",
        ),
    ],
)
def test_invalid_settings_are_a_usage_error(suite, adapter, sentence):
    common = {"backend": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
    suite.adapters({"typo": {**common, "modell": "m"}, "hot": common, "keyless": {**common, "api_key_env": "NO_KEY"}})
    path = suite.path / "crucible.toml"
    path.write_text(path.read_text().replace("[adapters.hot]", "[adapters.hot]\nparameters = { temperature = 'hot' }"))

    suite.refuses(suite.run(f"--crucible-adapter={adapter}"), sentence)


def test_one_model_under_two_names_is_not_compared_with_itself(suite, server):
    common = {"backend": "openai", "base_url": server.url, "model": "good"}
    suite.adapters({"v1": common, "v2": {**common, "stream": True}, "v3": {**common, "system": "Be short."}})

    suite.refuses(
        suite.run("--crucible-adapter=v2", "--compare=v1"),
        f"adapters 'v2' and 'v1' are the same checkpoint ({server.url}#good): *",
    )
    assert suite.run("--crucible-adapter=v3", "--compare=v1").ret == 0


def test_messages_tools_and_parameters_of_one_call_reach_the_server(served, server):
    served.test(
        """
        import pytest

        TOOLS = [{"type": "function", "function": {"name": "add"}}]

        @pytest.mark.crucible(dataset="questions.jsonl")
        @pytest.mark.quality_target("called >= 1")
        async def test_sums(sample, sampler, score):
            reply = await sampler.generate([{"role": "user", "content": sample.input}], tools=TOOLS, temperature=0)
            score(called=reply.tool_calls[0]["function"]["name"] == "add")
        """
    )
    server.behave("good", finish="tool_calls")

    assert served.run("--crucible-adapter=good").ret == 0
    assert {json.dumps(entry["body"]["tools"]) for entry in server.requests()} == {
        '[{"type": "function", "function": {"name": "add"}}]'
    }


def test_the_local_tinker_works_as_an_openai_server(suite, tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("tinker")
    with LocalServer.start(folder / "kept", base=write_tiny_base(folder / "base")) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        common = {"base_url": "$TINKER_BASE_URL/oai/api/v1", "model": "crucible/tiny", "api_key_env": "TINKER_API_KEY"}
        suite.adapters(
            {"plain": {"backend": "openai", **common}, "told": {"backend": "openai", **common, "system": "Be short."}}
        )
        suite.test(
            """
            import math
            import pytest

            @pytest.mark.crucible(dataset="questions.jsonl")
            @pytest.mark.quality_target("perplexity >= 1")
            async def test_sums(sample, sampler, score):
                reply = await sampler.generate(sample.input, max_tokens=4, logprobs=True, stop="zzz")
                score(perplexity=math.exp(-sum(reply.logprobs) / len(reply.logprobs)))
            """
        )
        result = suite.run("--crucible-adapter=told", "--compare=plain")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["perplexity >= 1 * 20 * 0 * met*"])
