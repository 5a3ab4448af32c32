"""Responses of a server: replies, errors, and the rate limits in headers."""

from __future__ import annotations

import contextlib
import email.utils
import json
import math
import re
import time
from collections.abc import Collection, Mapping
from typing import Any

from pytest_crucible.backends.http.connection import Response
from pytest_crucible.backends.limiting.history import ReportedLimits
from pytest_crucible.backends.openai.settings import Settings
from pytest_crucible.backends.protocol import is_count
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import BackendError, Refused, Retryable

# Finish reasons of other servers, in OpenAI's terms.
_FINISH = {
    "function_call": "tool_calls",
    **dict.fromkeys(("max_tokens", "model_length"), "length"),
    **dict.fromkeys(("eos", "end_turn", "stop_sequence"), "stop"),
}
_ABORTED = ("abort", "error")
_NO_HEADERS: Mapping[str, str] = {}
# Characters kept of an unknown finish reason.
_MAX_FINISH = 16


def parse_reply(
    answer: Mapping[str, Any],
    *,
    seconds: float,
    first_token_s: float | None,
    where: str,
    prompt: Any = None,
    headers: Mapping[str, str] = _NO_HEADERS,
) -> Reply:
    """Return the first choice, with the others as alternatives. Raises Retryable if the response has no choice.

    Zero tokens of a `prompt` with text are unknown, and then a zero of the reply is, too: gateways that do not count write zeros.
    """
    try:
        choices = answer["choices"]
        if len(choices) > 1:
            choices = sorted(choices, key=lambda choice: choice.get("index") or 0)
        first, *others = [_choice_fields(choice) for choice in choices]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Retryable(f"{where} responded without a choice", kind="garbage") from None
    usage = answer.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    read, written = (usage.get(name) for name in ("prompt_tokens", "completion_tokens"))
    if read == 0 and has_text(prompt):
        read, written = None, written or None
    return Reply(
        **first,
        input_tokens=read if is_count(read) else None,
        output_tokens=written if is_count(written) else None,
        cached_input_tokens=_cached_tokens(usage) if read is not None and is_count(read) else None,
        latency_s=seconds,
        first_token_s=first_token_s,
        alternatives=tuple(Reply(**other) for other in others),
        model=str(answer.get("model") or ""),
        system_fingerprint=str(answer.get("system_fingerprint") or ""),
        server=server_version(headers),
    )


def _cached_tokens(usage: Mapping[str, Any]) -> int | None:
    """Return how many of the prompt's tokens came from the provider's cache: OpenAI's field, or DeepSeek's."""
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else usage.get("prompt_cache_hit_tokens")
    return cached if is_count(cached) else None


def has_text(prompt: Any) -> bool:
    """Return whether a prompt has tokens: a text, token ids, or messages with content.

    >>> has_text("Hi"), has_text([{"role": "user", "content": ""}]), has_text(None)
    (True, False, False)
    """
    if isinstance(prompt, list | tuple):
        return any(part.get("content") if isinstance(part, Mapping) else True for part in prompt)
    return bool(prompt)


# Characters kept of a header that names a version.
_LONGEST_VERSION = 100


def server_version(headers: Mapping[str, str]) -> str:
    """Return the headers that say which server and which version answered; empty without one.

    >>> server_version({"server": "uvicorn", "openai-version": "2020-10-01", "date": "today"})
    'openai-version: 2020-10-01, server: uvicorn'
    """
    named = [name for name in headers if name == "server" or name.endswith("-version")]
    named.sort()
    return ", ".join(f"{name}: {headers[name][:_LONGEST_VERSION]}" for name in named)


def check_choices(reply: Reply, expected: Any, where: str) -> None:
    """Raise Refused for a server that returned one choice of several, Retryable for one that returned too few."""
    count = 1 + len(reply.alternatives)
    if expected is None or count >= expected:
        return
    message = f"{where} returned {count} of {expected} choices"
    if count > 1:
        raise Retryable(message, kind="half")
    raise Refused(f"{message}: it ignores the parameter n; remove it, and set epochs = {expected} instead")


def _choice_fields(choice: Mapping[str, Any]) -> dict[str, Any]:
    message = choice.get("message")
    content = choice["text"] if message is None else message
    finish = choice.get("finish_reason") or "stop"
    if finish in _ABORTED:
        raise Retryable(f"the server broke off its response ({finish})", kind="half")
    # `reasoning_content` of vLLM and DeepSeek, `reasoning` of others.
    reasoning = message and (message.get("reasoning_content") or message.get("reasoning"))
    calls = [dict(call) for call in (message.get("tool_calls") if message else None) or ()]
    return {
        "text": content if isinstance(content, str) else _text(content),
        "finish": _FINISH.get(finish, finish[:_MAX_FINISH]),
        "logprobs": _logprobs(choice.get("logprobs")),
        "tool_calls": tuple(calls),
        "reasoning": reasoning if isinstance(reasoning, str) else "",
    }


def _text(message: Mapping[str, Any]) -> str:
    """Return the message's text, or its refusal; empty if it only calls a tool."""
    content = message.get("content")
    if content is None:
        content = message.get("refusal") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content)


def _logprobs(logprobs: Any) -> tuple[float, ...] | None:
    """Return the chosen tokens' log-probabilities in either endpoint's form; None if there are none."""
    if not logprobs:
        return None
    values = (
        [token.get("logprob") for token in logprobs["content"]]
        if logprobs.get("content")
        else logprobs.get("token_logprobs")
    )
    return tuple(float(value) for value in values or () if value is not None and not math.isnan(value)) or None


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Characters of a duration: the pattern takes quadratic time on a header full of digits.
_LONGEST = 64
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|d)")
# A larger number of seconds is a point in time.
# Three years in seconds, longer than any wait; timestamps are above 1.7e9, and those in milliseconds (OpenRouter) above 1.7e12.
_TIMESTAMP, _TIMESTAMP_MS = 1e8, 1e11
# LiteLLM passes on the headers of a model's provider with this prefix.
_PROVIDER = "llm_provider-"
# What is left of a quota: x-ratelimit-remaining-tokens, anthropic-ratelimit-requests-remaining, RateLimit-Remaining, ...
_REMAINING = re.compile(r"(?:x-)?(?:[a-z]{1,20}-)?rate-?limit-(?:[a-z_-]{1,40}-)?remaining(?:-[a-z_-]{1,40})?")


def read_headers(headers: Mapping[str, str]) -> ReportedLimits | None:
    """Return the limits in a response's headers; None if there are none.

    >>> read_headers({"x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s"}).reset_requests_s
    1.0
    """
    numbers: dict[str, int] = {}
    resets: dict[str, float] = {}
    for unit in ("requests", "tokens"):
        for name in ("limit", "remaining"):
            value = headers.get(f"x-ratelimit-{name}-{unit}", "")
            # `²` is a digit that int() refuses, and so it does thousands of digits.
            if value.isascii() and value.isdigit() and len(value) < 19:
                numbers[f"{name}_{unit}"] = int(value)
        reset = parse_seconds(headers.get(f"x-ratelimit-reset-{unit}", ""))
        if reset is not None:
            resets[f"reset_{unit}_s"] = reset
    # The field names are put together above, which mypy cannot follow.
    return ReportedLimits(**numbers, **resets) if numbers or resets else None  # type: ignore[arg-type]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait before the next request; None if the server does not report them.

    `retry-after-ms` and `retry-after` (seconds, or an HTTP date) come first, then the reset of the limit that is used up. Headers
    of the model's provider, as LiteLLM passes them on, count where the proxy has none of its own.

    >>> retry_after({"retry-after-ms": "250"}), retry_after({"llm_provider-retry-after": "7"})
    (0.25, 7.0)
    """
    provider = {name.removeprefix(_PROVIDER): headers[name] for name in headers if name.startswith(_PROVIDER)}
    headers = {**provider, **headers}
    milliseconds = parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after", "")
    seconds = parse_seconds(header)
    if seconds is None and header:
        with contextlib.suppress(ValueError, TypeError):
            seconds = max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    if seconds is None:
        seconds = _reset(read_headers(headers))
    if seconds is None:
        texts = [headers.get(name.replace("remaining", "reset"), "") for name in exhausted_quotas(headers)]
        seconds = max((reset for reset in map(parse_seconds, texts) if reset is not None), default=None)
    return seconds


def exhausted_quotas(headers: Mapping[str, str]) -> list[str]:
    """Return the names of the headers that say that nothing is left of a quota.

    >>> exhausted_quotas({"x-ratelimit-remaining-requests": "12", "x-ratelimit-remaining-tokens": "0"})
    ['x-ratelimit-remaining-tokens']
    """
    return [name for name, value in headers.items() if value.strip() == "0" and _REMAINING.fullmatch(name)]


def parse_seconds(text: str) -> float | None:
    """Parse `12`, `0.5`, `1s`, `6m0s`, `20ms` or a point in time (seconds since 1970); None for anything else.

    >>> parse_seconds("1m30s")
    90.0
    """
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    # Checked before the units: a bare number is seconds, or a timestamp.
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", text):
        value = float(text)
        if value > _TIMESTAMP_MS:
            value /= 1000
        return max(0.0, value - time.time()) if value > _TIMESTAMP else value
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _reset(limits: ReportedLimits | None) -> float | None:
    """Return the reset of the limit that is used up; the later one if the remaining amounts are unknown."""
    if limits is None:
        return None
    both = ((limits.remaining_requests, limits.reset_requests_s), (limits.remaining_tokens, limits.reset_tokens_s))
    resets = [(left, reset) for left, reset in both if reset is not None and not left]
    used_up = [reset for left, reset in resets if left == 0]
    return max(used_up or [reset for _, reset in resets], default=None)


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
            quota_exhausted=bool(exhausted_quotas(response.headers)),
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
