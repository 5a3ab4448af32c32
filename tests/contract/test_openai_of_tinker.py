"""The OpenAI-shaped backend against a server that was not written for it: the local Tinker's own endpoint, with a real model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_crucible.backends.openai.backend import OpenAIBackend, open_openai
from pytest_crucible.records import Adapter, Arm, Reply, Request
from pytest_crucible.records.errors import Refused
from pytest_crucible.sample.sampler import Sampler

Ask = Callable[..., Reply]


@pytest.fixture
def opened(server, monkeypatch) -> Callable[..., OpenAIBackend]:
    monkeypatch.setenv("TINKER_API_KEY", server.key)

    def open_backend(**options: object) -> OpenAIBackend:
        settings = {
            "base_url": f"{server.url}/oai/api/v1",
            "model": "crucible/tiny",
            "api_key_env": "TINKER_API_KEY",
            **options,
        }
        return open_openai(Adapter(name="v2", backend="openai", options=settings), Path("."))

    return open_backend


@pytest.fixture
def ask(opened) -> Ask:
    def ask(request_fields: object = "claim 7", *, sample: str = "a", repeat: int = 0, **options: object) -> Reply:
        parameters = {"max_tokens": 6, "seed": 1, **options.pop("parameters", {})}  # type: ignore[dict-item]
        request = Request(input=request_fields, sample=sample, repeat=repeat, parameters=parameters)
        return asyncio.run(opened(**options).generate(request))

    return ask


def test_chat_and_completions_of_one_prompt_are_one_reply(ask, tokenizer):
    chat, completed, of_tokens = ask(), ask(mode="completions"), ask(tokenizer.encode("claim 7"))

    assert chat.text == completed.text == of_tokens.text
    assert (chat.finish, chat.output_tokens, chat.model) == ("length", 6, "crucible/tiny")
    assert chat.input_tokens == len(tokenizer.encode("claim 7"))


def test_a_seed_gives_the_same_reply_and_each_sample_its_own(ask):
    replies = [ask(sample=sample, repeat=repeat).text for sample, repeat in (("a", 0), ("a", 0), ("b", 0), ("a", 1))]

    assert replies[0] == replies[1]
    assert len(set(replies)) == 3


@pytest.mark.parametrize("mode", ["chat", "completions"])
def test_every_token_has_its_logprob(ask, mode):
    reply = ask(mode=mode, parameters={"logprobs": True, "n": 3})

    assert [len(entry.logprobs) for entry in (reply, *reply.alternatives)] == [6, 6, 6]
    assert max(reply.logprobs) <= 0
    assert reply.output_tokens == 18


def test_a_stop_text_ends_the_reply(ask):
    whole = ask(parameters={"max_tokens": 40}).text
    letter = next(entry for entry in reversed(whole) if " " < entry < "~")
    reply = ask(parameters={"max_tokens": 40, "stop": [letter]})

    assert (reply.text, reply.finish) == (whole[: whole.index(letter)], "stop")


def test_a_prompt_that_does_not_fit_is_cut_not_lost(ask):
    reply = ask("a " * 500)

    assert (reply.text, reply.finish) == ("", "length")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": "gpt-4"}, "unknown model 'gpt-4'.*; check that this server has a model 'gpt-4'"),
        ({"parameters": {"temperature": -1.0}}, "does not accept 'temperature'"),
        ({"extra_body": {"echo": True}}, "does not accept 'echo'"),
    ],
    ids=["model", "temperature", "extra body"],
)
def test_a_refusal_shows_the_servers_own_message(ask, settings, sentence):
    with pytest.raises(Refused, match=sentence):
        ask(**settings)


def test_a_streamed_reply_equals_the_plain_one(ask):
    whole, streamed = ask(), ask(stream=True)

    assert (streamed.text, streamed.finish, streamed.output_tokens) == (whole.text, whole.finish, whole.output_tokens)
    assert streamed.first_token_s is not None
    assert whole.first_token_s is None


@pytest.mark.parametrize("transport", ["default", "httpx"])
@pytest.mark.parametrize("mode", ["chat", "completions"])
def test_a_test_reads_the_text_as_it_comes(opened, mode, transport):
    arm = Arm(name="v2", role="candidate", adapter="v2", identity="b", parameters={"max_tokens": 30, "temperature": 0})
    backend, calls, pieces = opened(mode=mode, transport=transport), [], []
    sampler = Sampler(backend, arm, "a", 0, calls=calls)

    async def read() -> tuple[Reply, Reply]:
        stream = sampler.stream("claim 7")
        pieces.extend([piece async for piece in stream])
        return await sampler.generate("claim 7"), stream.reply

    whole, streamed = asyncio.run(read())
    assert "".join(pieces) == streamed.text == whole.text
    assert len(pieces) > 5
    assert (streamed.finish, streamed.output_tokens) == (whole.finish, whole.output_tokens)
    assert 0 < streamed.first_token_s < streamed.latency_s
    assert [call.reply for call in calls] == [streamed, whole]


def test_a_wrong_key_is_refused_and_never_printed(ask, monkeypatch):
    monkeypatch.setenv("WRONG_KEY", "tml-hidden-1234")
    with pytest.raises(Refused, match=r"status 401.*; the key is that of WRONG_KEY") as caught:
        ask(api_key_env="WRONG_KEY")

    assert "hidden" not in str(caught.value)
