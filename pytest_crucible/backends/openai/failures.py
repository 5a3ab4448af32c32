"""Error responses: which are retried, stop the experiment, lose the sample, or are the candidate's own failure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from pytest_crucible.backends.http.connection import Response
from pytest_crucible.backends.openai.limits import has_exhausted_quota, retry_after
from pytest_crucible.backends.openai.settings import Settings
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import BackendError, Refused, Retryable

# Timeout, conflict, too early, too many requests: the same request may succeed later, as with any status from 500.
_RETRYABLE = (408, 409, 425, 429)
# Key, payment, permission, path, method, model gone, not implemented: no request of this adapter can succeed.
_PERMANENT = (401, 402, 403, 404, 405, 410, 501)
_TOO_LONG = re.compile(
    r"context[ _](length|window|size)|maximum context|leaves no room in a context|prompt is too long|too many tokens",
    re.I,
)
_FILTERED = re.compile(r"content[ _](filter|policy|management)|responsible.?ai|safety system", re.I)
_QUOTA_USED_UP = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_KEY_LIKE = re.compile(r"\b(sk|gsk|hf|xai|nvapi|tml)[-_][\w*.-]{4,}")
# Length from which a parameter's name in an error message is taken for the parameter.
# Shorter names are everyday words ("n", "stop"); "temperature" in an error names the parameter.
_DISTINCTIVE = 6
# Characters of a server's message that are shown.
_MAX_MESSAGE = 300


def reply_or_error(
    response: Response, settings: Settings, sent: Collection[str], error: Mapping[str, Any] | None = None
) -> Reply | BackendError:
    """Return the error, or a Reply if the failure is the candidate's own: a prompt beyond its context, or filtered content.

    `sent` are the names of the parameters that were sent; `error` is the parsed body, if the caller has it already.
    """
    error = error or _parse_error(response.body)
    if response.status in (400, 413, 422):
        if finish := _candidate_failure(response.status, error):
            return Reply(text="", finish=finish, output_tokens=0, latency_s=response.seconds, model=settings.model)
        return _bad_request(error, response.status, settings, sent)
    return _error(response, error, settings)


def status_within(answer: Mapping[str, Any]) -> int:
    """Return the status of an error inside a response with status 200, as gateways send it; 500 if it names none."""
    code = _inner(answer).get("code")
    return code if isinstance(code, int) and 400 <= code <= 599 else 500


def _error(response: Response, body: Mapping[str, Any], settings: Settings) -> BackendError:
    status, description = response.status, _describe(body, response.status, settings)
    if 300 <= status < 400:
        where = _redact(response.headers.get("location", "another place"), settings)
        return Refused(f"{_model(settings)} redirects to {where}: set that as base_url, up to /v1")
    # A quota that is used up comes as 429, but no pause will help.
    if status == 429 and _code(body) in _QUOTA_USED_UP:
        return Refused(f"{_model(settings)} has no quota left: {description}", kind=str(status))
    if status in _PERMANENT:
        return Refused(
            f"{_model(settings)} refuses: {description}; {_advice(status, body, settings)}", kind=str(status)
        )
    if status in _RETRYABLE or status >= 500:
        return Retryable(
            f"{_model(settings)}: {description}",
            kind=str(status),
            retry_after_s=retry_after(response.headers),
            quota_exhausted=has_exhausted_quota(response.headers),
        )
    return BackendError(f"{_model(settings)}: {description}", kind=str(status))


def _bad_request(error: Mapping[str, Any], status: int, settings: Settings, sent: Collection[str]) -> BackendError:
    """Return the error for a rejected request.

    If it is about a parameter, which every request sends, none will succeed; otherwise it may concern only this sample.
    """
    description = _describe(error, status, settings)
    if parameter := next((name for name in sorted(sent) if _names_parameter(name, error)), ""):
        return Refused(f"{_model(settings)} does not accept {parameter!r}: {description}", kind=str(status))
    return BackendError(f"{_model(settings)}: {description}", kind=str(status))


def _candidate_failure(status: int, error: Mapping[str, Any]) -> str:
    # An error of this kind is the model's answer to this prompt, as a refusal in words would be.
    about = f"{_code(error)} {_inner(error).get('type') or ''} {_message(error)}"
    if status == 413 or _TOO_LONG.search(about):
        return "length"
    return "content_filter" if _FILTERED.search(about) else ""


def _names_parameter(name: str, error: Mapping[str, Any]) -> bool:
    """Return whether an error message is about a parameter.

    A parameter with a short name must stand in quotes, as the first word, or behind the word `parameter`.
    """
    word = rf"\b{re.escape(name)}\b"
    if len(name) < _DISTINCTIVE:
        word = rf"(^|['\"`]|(parameter|argument|field|option)\W+){re.escape(name)}\b"
    return _inner(error).get("param") == name or re.search(word, _message(error), re.I) is not None


def _advice(status: int, error: Mapping[str, Any], settings: Settings) -> str:
    if status in (401, 402, 403):
        return settings.key_from
    about_model = rf"model|(?<!\w){re.escape(settings.model)}(?!\w)"
    if status == 404 and re.search(about_model, _message(error), re.I):
        return f"check that this server has a model {settings.model!r}"
    return f"check that {settings.public_url!r} is this server's base URL, which usually ends in /v1"


def _model(settings: Settings) -> str:
    return f"model {settings.model!r} at {settings.public_url}"


def _parse_error(body: bytes) -> Mapping[str, Any]:
    """Return an error's JSON; other content becomes its message."""
    try:
        error = json.loads(body)
    except (ValueError, RecursionError):
        error = None
    if isinstance(error, Mapping):
        return error
    # An HTML page comes from a proxy, and explains less than its status.
    text = "" if b"<html" in body[:200].lower() else body.decode("utf-8", "replace")
    return {"message": " ".join(text.split())}


def _inner(body: Mapping[str, Any]) -> Mapping[str, Any]:
    error = body.get("error")
    return error if isinstance(error, Mapping) else body


def _code(error: Mapping[str, Any]) -> str:
    return str(_inner(error).get("code") or "")


def _message(error: Mapping[str, Any]) -> str:
    """Return the message in OpenAI's form, in FastAPI's `detail`, or as a plain text."""
    for value in (_inner(error).get("message"), error.get("error"), error.get("detail")):
        if isinstance(value, str):
            return value
    return json.dumps(error["detail"]) if error.get("detail") else ""


def _describe(error: Mapping[str, Any], status: int, settings: Settings) -> str:
    message = _redact(_message(error), settings)
    return f"status {status}" + (f", {message}" if message else "")


def _redact(message: str, settings: Settings) -> str:
    """Remove keys from a message: some servers send back the key that they received, or most of it."""
    # The longest first: a key that contains another one must be replaced whole.
    for secret in sorted(settings.secrets, key=len, reverse=True):
        for part in {secret, secret.removeprefix("Bearer ")}:
            message = message.replace(part, "***") if len(part) > 3 else message
    message = " ".join(_KEY_LIKE.sub("***", message).split()).rstrip(".")
    message = "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in message[: _MAX_MESSAGE + 1]
    )
    return message if len(message) <= _MAX_MESSAGE else message[:_MAX_MESSAGE] + " ..."
