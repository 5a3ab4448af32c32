"""Errors of servers: retried, final, or the candidate's own failure, each with one sentence."""

from __future__ import annotations

import json
import pickle

import pytest

from pytest_crucible.backends.http.connection import Response
from pytest_crucible.backends.openai.responses import reply_or_error, status_within
from pytest_crucible.backends.openai.settings import read_settings
from pytest_crucible.records import Adapter, Reply
from pytest_crucible.records.errors import BackendError, Refused, Retryable

KEY = "sk-hidden-1234567890"
URL = "https://model.example/v1"
WHO = f"model 'm' at {URL}"
SENT = ("temperature", "max_tokens", "n", "stop", "guided_regex")


def meant(status: int, body: object = b"", **headers: str) -> Reply | BackendError:
    """Return the reply or error of a status and a body (bytes, or JSON)."""
    adapter = Adapter(name="v2", backend="openai", options={"base_url": URL, "model": "m"})
    settings = read_settings(adapter, None, {"OPENAI_API_KEY": KEY})  # type: ignore[arg-type]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return reply_or_error(Response(status, response_headers, content, 0.0, 0.25), settings, SENT)


def error_body(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_transient_statuses_are_retryable(status):
    error = meant(status, error_body("overloaded"), retry_after="3")

    assert isinstance(error, Retryable)
    assert (error.kind, error.retry_after_s, str(error)) == (str(status), 3.0, f"{WHO}: status {status}, overloaded")


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (401, error_body("no such key"), "refuses: status 401, no such key; the key is that of OPENAI_API_KEY"),
        (
            403,
            error_body("not in your country"),
            "refuses: status 403, not in your country; the key is that of OPENAI_API_KEY",
        ),
        (
            404,
            error_body("the model does not exist"),
            "the model does not exist; check that this server has a model 'm'",
        ),
        (404, error_body("unknown checkpoint M"), "unknown checkpoint M; check that this server has a model 'm'"),
        (404, b"<html>Not Found</html>", f"refuses: status 404; check that '{URL}' is this server's base URL"),
        (405, {"detail": "Method Not Allowed"}, "Method Not Allowed; check that "),
        (501, error_body("not supported"), "refuses: status 501, not supported"),
        (429, error_body("pay first", code="insufficient_quota"), "has no quota left: status 429, pay first"),
        (308, b"", "redirects to https://other.example/v1/x: set that as base_url, up to /v1"),
        (400, error_body("Unknown name", param="n"), "does not accept 'n': status 400, Unknown name"),
        (400, error_body("'stop' is not supported with this model"), "does not accept 'stop'"),
        (400, error_body("Unrecognized request argument supplied: guided_regex"), "does not accept 'guided_regex'"),
        (400, error_body("stop is not supported"), "does not accept 'stop'"),
        (400, error_body("Unknown parameter: 'n'"), "does not accept 'n'"),
        (422, {"detail": [{"loc": ["body", "temperature"], "msg": "too hot"}]}, "does not accept 'temperature'"),
    ],
)
def test_permanent_statuses_stop_the_experiment(status, body, sentence):
    error = meant(status, body, location="https://other.example/v1/x")

    assert isinstance(error, Refused)
    assert sentence in str(error)


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (400, error_body("could not decode the image"), "status 400, could not decode the image"),
        (400, error_body("messages must not stop here", param="messages"), "status 400, messages must not stop here"),
        (400, b"", "status 400"),
        (422, {"detail": "unreadable"}, "status 422, unreadable"),
        (400, {"error": "a text"}, "status 400, a text"),
        (418, b"I am a teapot", "status 418, I am a teapot"),
    ],
)
def test_other_bad_requests_lose_one_sample(status, body, sentence):
    error = meant(status, body)

    assert type(error) is BackendError
    assert (error.kind, str(error)) == (str(status), f"{WHO}: {sentence}")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            400,
            error_body(
                "This model's maximum context length is 8 tokens", code="context_length_exceeded", param="messages"
            ),
        ),
        (400, error_body("This model's maximum context length is 8 tokens. However, your max_tokens is 9")),
        (400, error_body("the request exceeds the available context size", type="exceed_context_size_error")),
        (400, error_body("a prompt of 500 tokens leaves no room in a context of 128")),
        (400, error_body("prompt is too long: 210000 tokens > 200000 maximum")),
        (413, b""),
    ],
)
def test_too_long_prompt_is_finish_length(status, body):
    assert meant(status, body) == Reply(text="", finish="length", output_tokens=0, latency_s=0.25, model="m")


@pytest.mark.parametrize(
    "body",
    [
        error_body("The response was filtered due to the prompt triggering a policy", code="content_filter"),
        error_body("Your request was rejected as a result of our safety system"),
        error_body("prompt violates our content policy", code="content_policy_violation"),
    ],
)
def test_filtered_prompt_is_finish_content_filter(body):
    assert meant(400, body).finish == "content_filter"


@pytest.mark.parametrize(
    "message",
    [
        f"Incorrect API key provided: {KEY}",
        "Incorrect API key provided: sk-hidd**********7890. Find yours",
        f"no access with Bearer {KEY}",
    ],
)
def test_echoed_keys_are_redacted(message):
    message = str(meant(401, error_body(message)))

    assert "***" in message
    assert "hidd" not in message
    assert "7890" not in message


@pytest.mark.parametrize(("code", "status"), [(429, 429), ("429", 500), (200, 500), (None, 500)])
def test_error_inside_a_200_response_has_its_own_status(code, status):
    assert status_within(error_body("behind the gateway", code=code)) == status


def test_redirect_target_is_reported_without_keys():
    message = str(meant(302, location=f"https://other.example/v1?key={KEY}"))

    assert message.endswith("redirects to https://other.example/v1?key=***: set that as base_url, up to /v1")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"error": ' + b"[" * 100_000])
def test_deeply_nested_error_is_handled(body):
    assert isinstance(meant(500, body), Retryable)
    assert type(meant(400, body)) is BackendError


def test_control_characters_are_escaped():
    assert str(meant(500, b"\x1b[31mred\x07\x00")).endswith(r"status 500, \x1b[31mred\x07\x00")


def test_long_messages_are_cut():
    assert len(str(meant(500, error_body("x" * 10_000)))) < 500


def test_errors_can_be_pickled():
    error = meant(429, error_body("slowly"), retry_after="2")
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), again.kind, again.retry_after_s) == (Retryable, str(error), "429", 2.0)
