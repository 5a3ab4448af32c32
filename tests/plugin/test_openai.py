"""Suites that ask an OpenAI-shaped server: from the configuration and from the command line, plain and on two workers."""

from __future__ import annotations

import pytest
from openai_server import OpenAIServer

KEY = "sk-hidden-1234567890"
ANSWERS = {f"{k} + {k}": str(2 * k) for k in range(20)}
LAZY = {**ANSWERS, **{f"{k} + {k}": "?" for k in range(12, 20)}}


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


def test_one_model_under_two_names_is_not_compared_with_itself(suite, server):
    common = {"backend": "openai", "base_url": server.url, "model": "good"}
    suite.adapters({"v1": common, "v2": {**common, "stream": True}, "v3": {**common, "system": "Be short."}})

    suite.refuses(
        suite.run("--crucible-adapter=v2", "--compare=v1"),
        f"adapters 'v2' and 'v1' are the same checkpoint ({server.url}#good): *",
    )
    assert suite.run("--crucible-adapter=v3", "--compare=v1").ret == 0
