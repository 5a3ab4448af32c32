"""The backend against a scripted server."""

from __future__ import annotations

import asyncio

import pytest

from pytest_crucible.backends.limiting.history import ReportedLimits
from pytest_crucible.backends.protocol import Backend, Closeable, Remote
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable

REQUEST = Request(input="2 + 2", sample="a", repeat=0)
CHUNK = b'data: {"choices": [{"index": 0, "delta": {"content": "4"}}]}\n\n'
ERROR = b'data: {"error": {"message": "overloaded", "code": 503}}\n\n'


def test_backend_protocols_are_implemented(open_backend, server):
    backend = open_backend()

    assert isinstance(backend, Backend)
    assert isinstance(backend, Remote)
    assert isinstance(backend, Closeable)
    assert (backend.server, backend.model) == (server.url, "m")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("mode", ["chat", "completions"])
def test_reply_has_all_fields_of_the_response(ask, mode, stream):
    reply = ask(mode=mode, stream=stream, parameters={"n": 2, "logprobs": True})

    assert (reply.text, reply.finish, reply.model) == ("one two three", "stop", "m")
    assert (reply.input_tokens, reply.output_tokens) == (3, 6)
    assert [alternative.text for alternative in reply.alternatives] == ["one two three"]
    assert len(reply.logprobs) == 3
    assert (reply.first_token_s is not None) == stream


def test_latency_and_first_token_are_measured(ask):
    reply = ask(stream=True, model="m?latency_s=0.01&first_token_s=0.01&chunk_s=0.02")

    assert 0.02 <= reply.first_token_s <= reply.latency_s - 0.04
    assert ask(model="m?latency_s=0.03").latency_s >= 0.03


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("429", "429"),
        ("500", "500"),
        ("503", "503"),
        ("reset", "connection"),
        ("close", "connection"),
        ("half", "half"),
        ("garbage", "garbage"),
        ("no_choices", "garbage"),
        ("error_200", "500"),
    ],
)
def test_transient_faults_are_retryable(ask, server, fault, kind, stream):
    with pytest.raises(Retryable) as caught:
        ask(stream=stream, model=f"m?fault={fault}")

    assert (caught.value.kind, caught.value.retry_after_s) == (kind, None)
    assert server.counts()["requests"] == 1


@pytest.mark.parametrize(
    ("head", "body", "kind"),
    [
        (b"content-type: text/event-stream", CHUNK + ERROR, "503"),
        (b"content-type: text/event-stream", CHUNK + ERROR + b"data: [DONE]\n\n", "503"),
        (
            b"content-type: application/json",
            b'{"choices": [{"message": {"content": ""}}], "error": {"code": 502}}',
            "502",
        ),
        (b"content-type: application/json", b'{"choices": ' + b"[" * 100_000, "garbage"),
        (b"content-encoding: gzip", b"\x1f\x8b and so on", "garbage"),
    ],
    ids=["half a stream", "a stream with an error", "an error with a choice", "too deep", "compressed"],
)
def test_invalid_bodies_are_retryable(open_backend, head, body, kind):
    with pytest.raises(Retryable) as caught:
        asyncio.run(_send_bytes(open_backend, head, body))

    assert caught.value.kind == kind


def test_header_values_are_case_insensitive(open_backend):
    body = CHUNK.replace(b'"4"}', b'"4"}, "finish_reason": "stop"')

    assert asyncio.run(_send_bytes(open_backend, b"Content-Type: Text/Event-Stream; charset=UTF-8", body)).text == "4"


async def _send_bytes(open_backend, head: bytes, body: bytes) -> Reply:
    """Return the reply to a response of these bytes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n%b\r\ncontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        return await open_backend(base_url=f"http://127.0.0.1:{port}/v1", stream=b"vent-" in head.lower()).generate(
            REQUEST
        )


def test_slow_body_is_read_completely(ask):
    assert ask(model="m?fault=slow&chunk_s=0.001").text == "one two three"


def test_wrong_key_stops_and_names_its_origin(ask, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-hidden-12345")
    with pytest.raises(Refused) as caught:
        ask(model="m?key=right", api_key_env="MY_KEY")

    assert str(caught.value).endswith("Incorrect API key provided: ***; the key is that of MY_KEY")


def test_refused_parameter_stops_the_experiment(ask):
    with pytest.raises(Refused, match="does not accept 'top_k'"):
        ask(model="m?fault=400&message=unknown field top_k of `top_k`", parameters={"top_k": 5})
    with pytest.raises(BackendError) as caught:
        ask(model="m?fault=400&message=unreadable image")

    assert type(caught.value) is BackendError


def test_reported_limits_are_available(open_backend):
    backend = open_backend(model="m?rate=10")

    assert backend.reported_limits is None

    asyncio.run(backend.generate(REQUEST))

    assert backend.reported_limits == ReportedLimits(limit_requests=600, remaining_requests=9, reset_requests_s=0.0)


def test_query_of_the_base_url_is_sent(ask, server):
    assert ask(base_url=f"{server.url}?api-version=2024-10-21").text

    (received,) = server.requests()
    assert received["path"] == "/v1/chat/completions?api-version=2024-10-21"


def test_prompts_are_scored_by_echo(open_backend):
    async def score(**options):
        backend = open_backend(**options)
        try:
            return await backend.score_prompt("a bb ccc")
        finally:
            await backend.close()

    assert asyncio.run(score()) == [-3.0, -3.0]
    with pytest.raises(BackendError, match="returned no log-probabilities of the prompt; use a server with echo"):
        asyncio.run(score(model="m?text=no echo"))
    with pytest.raises(BackendError, match="cannot score a prompt: it responded with status 400"):
        asyncio.run(score(model="m?status=400"))
