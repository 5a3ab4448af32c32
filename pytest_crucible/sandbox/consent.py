"""Consent to run model-written code: off until the user allows it for this process."""

from __future__ import annotations

import os

VARIABLE = "CRUCIBLE_RUN_CODE"
HOW_TO_ALLOW = (
    "this metric runs code that a model wrote: allow it with --crucible-run-code or CRUCIBLE_RUN_CODE=1, "
    "where you would let a stranger's program run"
)
_MEANS_NO = ("", "0", "false", "no", "off")
_grants: list[bool] = []


class NotAllowed(RuntimeError):
    """Model-written code was about to run without the user's permission."""


def allow() -> None:
    """Allow model-written code in this process, until `withdraw`."""
    _grants.append(True)


def withdraw() -> None:
    """Take the last `allow` back."""
    if _grants:
        _grants.pop()


def is_yes(value: str) -> bool:
    """Return True unless the value of an environment variable means no.

    >>> is_yes("1"), is_yes("no")
    (True, False)
    """
    return value.strip().lower() not in _MEANS_NO


def is_allowed() -> bool:
    """Return True after `allow`, or when the environment variable CRUCIBLE_RUN_CODE allows it."""
    return bool(_grants) or is_yes(os.environ.get(VARIABLE, ""))


def require() -> None:
    """Raise NotAllowed, with the ways to allow it, unless running code is allowed."""
    if not is_allowed():
        raise NotAllowed(HOW_TO_ALLOW)
