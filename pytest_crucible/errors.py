"""Every error that a user can meet. Each class is a decision that somebody takes.

    CrucibleError
    +- SpecError       a marker, option or configuration value is wrong     -> usage error (exit 4) before sampling
    |  +- DatasetError a dataset that is missing or malformed
    +- BackendError    one answer could not be had                          -> that sample is lost
    |  +- Retryable    the same request may be answered later               -> asked again, then lost
    |  +- Spent        the budget is                                        -> that sample is lost, and so are the rest
    |  +- Uncached     the reply is not in the cache, and nobody may be asked -> that sample is lost, and the experiment fails
    |  +- Refused      every answer would be refused                        -> the experiment stops
    +- StoreError      the run store cannot be read or written              -> nothing is sampled any more
    +- NotEnoughData   raised inside `stats` only                           -> analyse turns it into a note

Messages are sentences without capital and full stop: what was given, what was wanted, what to do.
"""

from __future__ import annotations

from typing import Any


class CrucibleError(Exception):
    """Base of all errors that this package raises on purpose."""


class SpecError(CrucibleError):
    """A marker, an option or a configuration value that cannot be meant."""


class DatasetError(SpecError):
    """A dataset that is missing, empty or malformed."""


class BackendError(CrucibleError):
    """A backend could not answer one request."""

    kind: str = ""
    """The class of error that is counted, such as an HTTP status; empty where the type says enough."""

    def __init__(self, message: str = "", *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class Retryable(BackendError):
    """A request that failed in passing: an overloaded server, a broken connection, half an answer."""

    def __init__(self, message: str, *, kind: str, retry_after_s: float | None = None) -> None:
        """`kind` is the class of error that is counted: an HTTP status, or a word such as `timeout`, `connection`, `garbage`."""
        super().__init__(message, kind=kind)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[Any, ...]:
        return _retryable, (str(self), self.kind, self.retry_after_s)


def _retryable(message: str, kind: str, retry_after_s: float | None) -> Retryable:
    """Keyword-only arguments do not survive pickling by themselves."""
    return Retryable(message, kind=kind, retry_after_s=retry_after_s)


class Spent(BackendError):
    """Nothing more may be asked: what the run or the experiment was allowed to spend is spent."""


class Uncached(BackendError):
    """A reply that is not in the reply cache, where nothing may be asked."""


class Refused(BackendError):
    """A backend that would refuse every request: a bad key, no such model."""


class StoreError(CrucibleError):
    """The run store cannot be opened, read or written."""


class NotEnoughData(CrucibleError):
    """A statistic that these data cannot carry."""
