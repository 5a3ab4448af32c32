"""What an error of Tinker's SDK means for a sample: asked again, lost, stopping everything, or the candidate's own failure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pytest_crucible.errors import BackendError, Refused, Retryable

FINAL = (401, 402, 403, 404)
"""HTTP statuses of what will not be answered later either: a bad key, an unpaid bill, no such checkpoint."""
PASSING = (408, 409, 410, 429)
"""Statuses, besides 5xx, after which asking again may help."""
_CONNECTION = ("APIConnectionError", "APITimeoutError", "ConnectionError", "TimeoutError")
_TOO_LONG = re.compile(r"context|too long|(maximum|max)\b.{0,20}\b(length|tokens)", re.IGNORECASE)


def understood(error: BaseException, hide: Callable[[str], str] = str) -> BackendError:
    """The error as this package has it. `hide` takes keys out of its sentence.

    >>> understood(TimeoutError("late")).kind
    'timeout'
    """
    said = hide(f"Tinker gave no answer: {sentence(error)}")
    kind = _passing_kind(error)
    if kind is not None:
        return Retryable(said, kind=kind, retry_after_s=_retry_after_s(error))
    return Refused(said) if getattr(error, "status_code", None) in FINAL else BackendError(said)


def is_too_long(error: BaseException) -> bool:
    """Whether the service refused a prompt because the model cannot read so much."""
    about_request = getattr(error, "category", None) == "user" or getattr(error, "status_code", None) in (400, 413, 422)
    return about_request and bool(_TOO_LONG.search(sentence(error)))


def sentence(error: BaseException) -> str:
    """What an error of the SDK says, without its wrapping."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        for name in ("detail", "error", "message"):
            if isinstance(body.get(name), str):
                return str(body[name])
    said = str(getattr(error, "message", "") or error).strip()
    return said.splitlines()[0] if said else type(error).__name__


def is_unreachable(error: BaseException) -> bool:
    """Whether there was no answer at all."""
    return bool(_names(error) & set(_CONNECTION))


def _passing_kind(error: BaseException) -> str | None:
    names, status = _names(error), getattr(error, "status_code", None)
    if "APIResponseValidationError" in names:  # with the status of an answer that is none
        return "garbage"
    if isinstance(status, int):
        return str(status) if status in PASSING or status >= 500 else None
    if is_unreachable(error):
        return "timeout" if any("Timeout" in name for name in names) else "connection"
    if "RetryableException" in names:  # the service has lost the request
        return "410"
    return "server" if getattr(error, "category", None) in ("server", "unknown") else None


def _names(error: BaseException) -> set[str]:
    """Of its classes: the SDK's need not be imported for that."""
    return {kind.__name__ for kind in type(error).__mro__}


def _retry_after_s(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        return float(headers["retry-after"])
    except (KeyError, TypeError, ValueError):
        return None
