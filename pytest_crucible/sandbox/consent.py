"""Running model-written code is a decision: it is taken by the user, for a process, and off until then."""

from __future__ import annotations

import os

VARIABLE = "CRUCIBLE_RUN_CODE"
ASKED = (
    "this metric runs code that a model wrote: allow it with --crucible-run-code or CRUCIBLE_RUN_CODE=1, "
    "where you would let a stranger's program run"
)
_MEANS_NO = ("", "0", "false", "no", "off")
_given: list[bool] = []


class NotAllowed(RuntimeError):
    """Model-written code was to be run, and nobody has allowed that."""


def allow() -> None:
    """Allow it in this process, until `withdraw`."""
    _given.append(True)


def withdraw() -> None:
    """Take the last `allow` back."""
    if _given:
        _given.pop()


def means_yes(written: str) -> bool:
    """Does the value of a variable allow it?

    >>> means_yes("1"), means_yes("no")
    (True, False)
    """
    return written.strip().lower() not in _MEANS_NO


def is_allowed() -> bool:
    """Has somebody allowed it, by `allow` or by the environment variable CRUCIBLE_RUN_CODE?"""
    return bool(_given) or means_yes(os.environ.get(VARIABLE, ""))


def require() -> None:
    """Raise NotAllowed, which says how to allow it."""
    if not is_allowed():
        raise NotAllowed(ASKED)
