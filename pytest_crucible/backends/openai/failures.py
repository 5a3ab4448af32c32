"""What an answer other than 200 means: ask again, stop, lose this sample, or a failure of the model itself."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from pytest_crucible.backends.http.connection import Response
from pytest_crucible.backends.openai.limits import retry_after
from pytest_crucible.backends.openai.settings import Settings
from pytest_crucible.errors import BackendError, Refused, Retryable
from pytest_crucible.records import Reply

_RETRYABLE = (408, 409, 425, 429)
_FINAL = (401, 402, 403, 404, 405, 410, 501)
_TOO_LONG = re.compile(
    r"context[ _](length|window|size)|maximum context|leaves no room in a context|prompt is too long|too many tokens",
    re.I,
)
_FILTERED = re.compile(r"content[ _](filter|policy|management)|responsible.?ai|safety system", re.I)
_SPENT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_KEY_LIKE = re.compile(r"\b(sk|gsk|hf|xai|nvapi|tml)[-_][\w*.-]{4,}")
_NO_EVERYDAY_WORD = 6
"""Letters: nobody says temperature or max_tokens and means something else."""
_MOST = 300
"""Characters of what a server says."""


def reply_or_error(
    response: Response, settings: Settings, said: Collection[str], told: Mapping[str, Any] | None = None
) -> Reply | BackendError:
    """A Reply for what is the candidate's own failure: a prompt that its context cannot hold, or that a filter withheld.

    `said` are the names of the parameters that were sent, `told` is the body where it is read already.
    """
    told = told or _told(response.body)
    if response.status in (400, 413, 422):
        if finish := _own_failure(response.status, told):
            return Reply(text="", finish=finish, output_tokens=0, latency_s=response.seconds, model=settings.model)
        return _bad_request(told, response.status, settings, said)
    return _error(response, told, settings)


def status_within(answer: Mapping[str, Any]) -> int:
    """Of an error that came under status 200, as gateways send it for what went wrong behind them; 500 where it says none."""
    code = _inner(answer).get("code")
    return code if isinstance(code, int) and 400 <= code <= 599 else 500


def _error(response: Response, told: Mapping[str, Any], settings: Settings) -> BackendError:
    status, said = response.status, _said(told, response.status, settings)
    if 300 <= status < 400:
        where = _hidden(response.headers.get("location", "another place"), settings)
        return Refused(f"{_who(settings)} sends on to {where}: write that as base_url, up to /v1")
    if status == 429 and _code(told) in _SPENT:
        return Refused(f"{_who(settings)} answers nothing any more: {said}", kind=str(status))
    if status in _FINAL:
        return Refused(f"{_who(settings)} refuses: {said}; {_advice(status, told, settings)}", kind=str(status))
    if status in _RETRYABLE or status >= 500:
        return Retryable(f"{_who(settings)}: {said}", kind=str(status), retry_after_s=retry_after(response.headers))
    return BackendError(f"{_who(settings)}: {said}", kind=str(status))


def _bad_request(told: Mapping[str, Any], status: int, settings: Settings, sent: Collection[str]) -> BackendError:
    """What every request says, all of them will be refused for; anything else may be this sample's."""
    said = _said(told, status, settings)
    if named := next((name for name in sorted(sent) if _complains_of(name, told)), ""):
        return Refused(f"{_who(settings)} does not take {named!r}: {said}", kind=str(status))
    return BackendError(f"{_who(settings)}: {said}", kind=str(status))


def _own_failure(status: int, told: Mapping[str, Any]) -> str:
    about = f"{_code(told)} {_inner(told).get('type') or ''} {_message(told)}"
    if status == 413 or _TOO_LONG.search(about):
        return "length"
    return "content_filter" if _FILTERED.search(about) else ""


def _complains_of(name: str, told: Mapping[str, Any]) -> bool:
    """Whether a server names a parameter; one that is an everyday word in quotes, as the first word, or behind `parameter`."""
    word = rf"\b{re.escape(name)}\b"
    if len(name) < _NO_EVERYDAY_WORD:
        word = rf"(^|['\"`]|(parameter|argument|field|option)\W+){re.escape(name)}\b"
    return _inner(told).get("param") == name or re.search(word, _message(told), re.I) is not None


def _advice(status: int, told: Mapping[str, Any], settings: Settings) -> str:
    if status in (401, 402, 403):
        return settings.key_from
    about_model = rf"model|(?<!\w){re.escape(settings.model)}(?!\w)"
    if status == 404 and re.search(about_model, _message(told), re.I):
        return f"is there a model {settings.model!r} at this server?"
    return f"does {settings.told_url!r} end as this server's base URL does, most often in /v1?"


def _who(settings: Settings) -> str:
    return f"model {settings.model!r} at {settings.told_url}"


def _told(body: bytes) -> Mapping[str, Any]:
    """An error's JSON; anything else as its message."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, Mapping):
        return told
    text = "" if b"<html" in body[:200].lower() else body.decode("utf-8", "replace")
    return {"message": " ".join(text.split())}


def _inner(told: Mapping[str, Any]) -> Mapping[str, Any]:
    error = told.get("error")
    return error if isinstance(error, Mapping) else told


def _code(told: Mapping[str, Any]) -> str:
    return str(_inner(told).get("code") or "")


def _message(told: Mapping[str, Any]) -> str:
    """OpenAI's form, FastAPI's `detail`, or an error that is a text."""
    for value in (_inner(told).get("message"), told.get("error"), told.get("detail")):
        if isinstance(value, str):
            return value
    return json.dumps(told["detail"]) if told.get("detail") else ""


def _said(told: Mapping[str, Any], status: int, settings: Settings) -> str:
    message = _hidden(_message(told), settings)
    return f"status {status}" + (f", {message}" if message else "")


def _hidden(message: str, settings: Settings) -> str:
    """Without keys: some servers send back what they were sent, or most of it."""
    for secret in sorted(settings.secrets, key=len, reverse=True):
        for part in {secret, secret.removeprefix("Bearer ")}:
            message = message.replace(part, "***") if len(part) > 3 else message
    message = " ".join(_KEY_LIKE.sub("***", message).split()).rstrip(".")
    message = "".join(one if one.isprintable() else repr(one)[1:-1] for one in message[: _MOST + 1])
    return message if len(message) <= _MOST else message[:_MOST] + " ..."
