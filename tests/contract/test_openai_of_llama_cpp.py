"""The OpenAI-shaped backend against a server of somebody else's: llama-cpp-python's, with tiny random weights made here.

It runs where `CRUCIBLE_LLAMA_PYTHON` names a Python that has `llama-cpp-python[server]` and `gguf`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_crucible.backends.openai.backend import OpenAIBackend, open_openai
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import Refused, Retryable

PYTHON = os.environ.get("CRUCIBLE_LLAMA_PYTHON", "")
READY_S = 60
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON, reason="CRUCIBLE_LLAMA_PYTHON names no Python with llama-cpp-python[server] and gguf"
    ),
]
Ask = Callable[..., Reply]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("llama")
    weights = folder / "tiny.gguf"
    subprocess.run([PYTHON, str(Path(__file__).parent.parent / "tiny_gguf.py"), str(weights)], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [PYTHON, "-m", "llama_cpp.server", "--model", str(weights), "--model_alias", "tiny", "--port", port]
    command += ["--n_ctx", "256", "--n_threads", "1", "--logits_all", "true", "--api_key", "hidden-key"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process:
        try:
            _wait(int(port), process, folder / "log")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"llama-cpp-python did not start: {log.read_text()[-2000:]}")


@pytest.fixture
def opened(url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., OpenAIBackend]:
    monkeypatch.setenv("OPENAI_API_KEY", "hidden-key")

    def open_backend(**options: object) -> OpenAIBackend:
        settings = {"base_url": url, "model": "tiny", **options}
        return open_openai(Adapter(name="v2", backend="openai", options=settings), Path("."))

    return open_backend


@pytest.fixture
def ask(opened) -> Ask:
    def ask(request_fields: object = "2 + 2", *, sample: str = "a", repeat: int = 0, **options: object) -> Reply:
        parameters = {"max_tokens": 8, "seed": 1, "temperature": 1.0, **options.pop("parameters", {})}  # type: ignore[dict-item]
        request = Request(input=request_fields, sample=sample, repeat=repeat, parameters=parameters)
        return asyncio.run(opened(**options).generate(request))

    return ask


@pytest.mark.parametrize("mode", ["chat", "completions"])
def test_chat_and_completions_return_a_reply(ask, mode):
    reply = ask(mode=mode)

    assert (reply.finish, reply.model) == ("length", "tiny")
    assert reply.output_tokens >= 8  # it goes on until a character is whole
    assert reply.input_tokens > 3
    assert reply.latency_s > 0


@pytest.mark.parametrize("mode", ["chat", "completions"])
def test_a_stream_is_the_same_answer(ask, mode):
    whole, streamed = (ask(mode=mode, stream=stream, parameters={"temperature": 0.0}) for stream in (False, True))

    assert streamed.text == whole.text
    assert streamed.finish == whole.finish
    assert 0 < streamed.first_token_s <= streamed.latency_s


def test_a_seed_gives_the_same_reply_and_each_sample_its_own(ask):
    texts = [ask(sample=sample).text for sample in ("a", "a", "b")]

    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("mode", ["chat", "completions"])
def test_every_token_has_its_logprob(ask, mode):
    reply = ask(mode=mode, parameters={"logprobs": True, "top_logprobs": 1})

    assert len(reply.logprobs) == reply.output_tokens
    assert max(reply.logprobs) <= 0


def test_a_grammar_is_kept(ask):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    reply = ask(parameters={"max_tokens": 60, "response_format": {"type": "json_object", "schema": schema}})

    assert reply.text.lstrip().startswith("{")


def test_a_prompt_that_does_not_fit_is_cut_not_lost(ask):
    reply = ask("a " * 500)

    assert (reply.text, reply.finish) == ("", "length")


def test_a_wrong_key_is_refused(ask, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-wrong-key")
    with pytest.raises(Refused, match=r"status 401.*; the key is that of MY_KEY") as caught:
        ask(api_key_env="MY_KEY")

    assert "wrong-key" not in str(caught.value)


def test_unsupported_parameters_are_refused_in_one_line(ask):
    with pytest.raises(Retryable, match=r"status 500, .*'temperature'.*Input should be a valid number") as caught:
        ask(extra_body={"temperature": "hot"})  # it takes any mistake for its own

    assert "\n" not in str(caught.value)


def test_a_url_without_v1_is_refused(ask, url):
    with pytest.raises(Refused, match=r"status 404.*most often in /v1"):
        ask(base_url=url.removesuffix("/v1"))


def test_concurrent_requests_are_answered(opened):
    backend = opened()

    async def generate_twice() -> list[Reply]:
        requests = [
            Request(input=f"{k} + {k}", sample=str(k), repeat=0, parameters={"max_tokens": 4}) for k in range(12)
        ]
        outcomes = await asyncio.gather(*map(backend.generate, requests), return_exceptions=True)
        await backend.close()
        return [outcome for outcome in outcomes if not isinstance(outcome, Retryable)]

    assert min(reply.output_tokens for reply in asyncio.run(generate_twice())) >= 4
