"""Translates errors of Tinker's SDK: retry, lost sample, end of the experiment, or a failure of the candidate."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pytest_crucible.records.errors import BackendError, Refused, Retryable

FINAL = (401, 402, 403, 404)
"""HTTP statuses that a retry cannot change: a bad key, an unpaid bill, an unknown checkpoint."""
PASSING = (408, 409, 410, 429)
"""Statuses, besides 5xx, after which a retry may succeed."""
LOST = (404, 410)
"""Statuses of requests about a session or model that the service does not know."""
_CONNECTION = ("APIConnectionError", "APITimeoutError", "ConnectionError", "TimeoutError")
_TOO_LONG = re.compile(r"context|too long|(maximum|max)\b.{0,20}\b(length|tokens)", re.IGNORECASE)


def translate_error(error: BaseException, hide: Callable[[str], str] = str) -> BackendError:
    """Return the error as one of this package's. `hide` removes keys from its sentence.

    >>> translate_error(TimeoutError("late")).kind
    'timeout'
    """
    message = hide(f"Tinker gave no answer: {error_text(error)}")
    kind = _passing_kind(error)
    if kind is not None:
        return Retryable(message, kind=kind, retry_after_s=_retry_after_s(error))
    return Refused(message) if getattr(error, "status_code", None) in FINAL else BackendError(message)


def is_too_long(error: BaseException) -> bool:
    """Return whether the service refused a prompt that is longer than the model's context."""
    about_request = getattr(error, "category", None) == "user" or getattr(error, "status_code", None) in (400, 413, 422)
    return about_request and bool(_TOO_LONG.search(error_text(error)))


def is_lost(error: BaseException) -> bool:
    """Return whether the service is gone, or has lost its sessions and models, as after a restart."""
    return getattr(error, "status_code", None) in LOST or _passing_kind(error) in ("connection", "timeout", "410")


def error_text(error: BaseException) -> str:
    """Return the message of an error of the SDK, without its wrapping."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        for name in ("detail", "error", "message"):
            if isinstance(body.get(name), str):
                return str(body[name])
    text = str(getattr(error, "message", "") or error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def is_unreachable(error: BaseException) -> bool:
    """Return whether the service did not respond at all."""
    return bool(_names(error) & set(_CONNECTION))


def _passing_kind(error: BaseException) -> str | None:
    names, status = _names(error), getattr(error, "status_code", None)
    if "APIResponseValidationError" in names:  # its status is that of a response which cannot be read
        return "garbage"
    # A status is more exact than the class of the error.
    if isinstance(status, int):
        return str(status) if status in PASSING or status >= 500 else None
    if is_unreachable(error):
        return "timeout" if any("Timeout" in name for name in names) else "connection"
    if "RetryableException" in names:  # the service has lost the request
        return "410"
    return "server" if getattr(error, "category", None) in ("server", "unknown") else None


def _names(error: BaseException) -> set[str]:
    """Return the names of an error's classes, so that the SDK need not be imported to test for them."""
    return {kind.__name__ for kind in type(error).__mro__}


def _retry_after_s(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        return float(headers["retry-after"])
    except (KeyError, TypeError, ValueError):
        return None
