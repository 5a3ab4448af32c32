"""One prompt, whichever way a model is asked: `local`, Tinker's clients on a local server, and its OpenAI endpoint.

The same messages become the same tokens, and a prompt that the model cannot read is the same failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tinker_http import SHAPE, WAIT_S, Http, OpenAI, ask, sampled_tokens

from pytest_crucible.backends.local import load_local, open_engine
from pytest_crucible.backends.tinker.backend import TinkerBackend, prompt_tokens
from pytest_crucible.backends.tinker.services import load_local_tokenizer
from pytest_crucible.local_model.tokens import render_prompt
from pytest_crucible.records import Reply, Request

SYSTEM = {"role": "system", "content": "claim 7 of document 49\nis supported."}
USER = {"role": "user", "content": "which document is it?"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "claim "}, {"type": "text", "text": "7"}]}
ANSWER = {"role": "assistant", "content": "Document 49"}
INPUTS = {
    "a text": "claim 7 of document 49",
    "an empty text": "",
    "one message": [USER],
    "a message in parts": [PARTS],
    "a conversation": [SYSTEM, USER],
    "a long conversation": [SYSTEM, USER, ANSWER, PARTS],
    "an answer first": [ANSWER, USER],
}
PARAMETERS = {"max_tokens": 5, "temperature": 0.0, "stop": ["zzz"], "seed": 1}


def request(messages: Any, **parameters: Any) -> Request:
    return Request(input=messages, sample="q", repeat=0, parameters={**PARAMETERS, **parameters})


def generate(backend: Any, request: Request) -> Reply:
    return asyncio.run(asyncio.wait_for(backend.generate(request), WAIT_S))


@pytest.fixture
def home(http_client: Http) -> Path:
    """The folder of the local model's tokenizer for transformers."""
    return Path(http_client.get("/get_server_capabilities")["supported_models"][0]["model_name"])


@pytest.fixture(params=["own", "transformers"])
def hosted(request: pytest.FixtureRequest, server, home, monkeypatch) -> Iterator[TinkerBackend]:
    """The SDK's client, with the tokenizer of the session's own service and with that of any other."""
    if request.param == "transformers":
        pytest.importorskip("jinja2")
    tinker = pytest.importorskip("tinker")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    service = tinker.ServiceClient(base_url=server.url, api_key=server.key)
    sampling_client = service.create_sampling_client(base_model=str(home))
    client = sampling_client.result(timeout=WAIT_S) if hasattr(sampling_client, "result") else sampling_client
    tokenizer = load_local_tokenizer(str(home)) if request.param == "own" else client.get_tokenizer()
    yield TinkerBackend(client, tokenizer, identity="a")
    if hasattr(service, "close"):
        service.close("success").result(timeout=WAIT_S)


def wanted_tokens(messages: Any, tokenizer: Any) -> list[int]:
    return tokenizer.encode(messages if isinstance(messages, str) else render_prompt(messages)) or [tokenizer.eos]


@pytest.mark.parametrize("messages", INPUTS.values(), ids=INPUTS)
def test_the_tokenizer_renders_the_expected_prompt(home, tokenizer, messages):
    assert prompt_tokens(messages, load_local_tokenizer(str(home))) == wanted_tokens(messages, tokenizer)


@pytest.mark.parametrize("messages", INPUTS.values(), ids=INPUTS)
def test_transformers_render_the_same_prompt(home, tokenizer, messages):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("jinja2")
    loaded = transformers.AutoTokenizer.from_pretrained(str(home))

    assert prompt_tokens(messages, loaded) == wanted_tokens(messages, tokenizer)


@pytest.mark.parametrize("messages", INPUTS.values(), ids=INPUTS)
def test_the_chat_endpoint_samples_from_the_same_prompt(server, http_client, sampler, tokenizer, messages):
    tokens = wanted_tokens(messages, tokenizer)
    chunk = {"tokens": tokens, "type": "encoded_text"}
    request = ask(http_client, 0, sampler, prompt={"chunks": [chunk]}, params={"temperature": 0.0})
    (same,) = sampled_tokens(http_client.protobuf(request["request_id"]))
    body = {"temperature": 0.0, "max_tokens": 5, "stop": ["zzz"]}
    if isinstance(messages, str):
        status, answer = OpenAI(server).complete(prompt=messages, **body)
        text = answer["choices"][0]["text"]
    else:
        status, answer = OpenAI(server).complete("chat/completions", messages=messages, **body)
        text = answer["choices"][0]["message"]["content"]

    assert (status, answer["usage"]["prompt_tokens"]) == (200, len(tokens))
    assert text == tokenizer.decode(same)


@pytest.mark.parametrize("messages", INPUTS.values(), ids=INPUTS)
def test_local_and_tinker_return_the_same_reply(base, hosted, tokenizer, messages):
    here = generate(load_local(open_engine(base), None, name="a"), request(messages))
    there = generate(hosted, request(messages))

    assert here.input_tokens == there.input_tokens == len(wanted_tokens(messages, tokenizer))
    assert (here.text, here.finish) == (there.text, there.finish)


# A prompt that the model cannot read


LONG = {"as long": SHAPE.context, "longer": SHAPE.context + 1, "much longer": 5 * SHAPE.context}


@pytest.mark.parametrize("length", LONG.values(), ids=LONG)
def test_local_returns_an_empty_reply_cut_by_length(base, length):
    engine = open_engine(base)
    text = engine.tokenizer.decode([ord("~")] * length)
    reply = generate(load_local(engine, None, name="a"), request(text))

    assert (reply.text, reply.input_tokens, reply.output_tokens, reply.finish) == ("", length, 0, "length")


@pytest.mark.parametrize("options", [True, False], ids=["options before", "refused"])
@pytest.mark.parametrize("length", LONG.values(), ids=LONG)
def test_tinker_returns_an_empty_reply_cut_by_length(hosted, length, options):
    hosted._context = SHAPE.context if options else None
    reply = generate(hosted, request([ord("~")] * length))

    assert (reply.text, reply.input_tokens, reply.output_tokens, reply.finish) == ("", length, 0, "length")


@pytest.mark.parametrize("length", LONG.values(), ids=LONG)
@pytest.mark.parametrize("path", ["completions", "chat/completions"])
def test_the_openai_endpoint_refuses_in_openais_words(server, length, path):
    text = "~" * length
    messages = {"prompt": text} if path == "completions" else {"messages": [{"role": "user", "content": text}]}
    status, answer = OpenAI(server).complete(path, **messages)

    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert "maximum context length" in answer["error"]["message"]


def test_one_token_less_is_read(base, server, hosted):
    engine, tokens = open_engine(base), [ord("~")] * (SHAPE.context - 1)
    replies = [
        generate(load_local(engine, None, name="a"), request(engine.tokenizer.decode(tokens))),
        generate(hosted, request(tokens)),
    ]
    status, answer = OpenAI(server).complete(prompt=tokens, max_tokens=5, temperature=0.0)

    assert [(reply.output_tokens, reply.finish) for reply in replies] == [(1, "length")] * 2
    assert (status, answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]) == (200, 1, "length")
