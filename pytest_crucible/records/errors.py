"""Every error that a user can meet. Each class has its own consequence.

    CrucibleError
    +- SpecError       a marker, option or configuration value is wrong     -> usage error (exit 4) before sampling
    |  +- DatasetError a dataset that is missing or malformed
    |  +- ServiceLost  a training service is gone                         -> the training fails, or resumes
    +- BackendError    one reply could not be obtained                      -> that sample is lost
    |  +- Retryable    the same request may succeed later                   -> sent again, then lost
    |  +- Spent        the budget is exhausted                              -> that sample is lost, and so are the rest
    |  +- Unanswered   a server answers others, and not this request        -> that sample is lost, and counts as tried
    |  +- Uncached     the reply is not in the cache, and no model may be called -> that sample is lost, the experiment fails
    |  +- Refused      every request would be refused                       -> the experiment stops
    +- NotStored       stored replies lack what a new metric needs              -> they are not used
    +- StoreError      the run store cannot be opened                        -> experiments fail at their setup, other tests run
    |                  ... or not be read or written during the run          -> sampling stops

`stats.interval.NotEnoughData` is raised by statistics; analyses turn it into a note.

Messages are sentences without capital and full stop: what was given, what was expected, what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

# Kinds of failures in which a server refuses a request that it could answer at another time, or at a lower load.
REFUSALS = frozenset({"429", "503", "529"})


class CrucibleError(Exception):
    """Base of all errors that this package raises on purpose."""


class SpecError(CrucibleError):
    """An invalid marker argument, option or configuration value."""


class DatasetError(SpecError):
    """A dataset that is missing, empty or malformed."""


class ServiceLost(SpecError):
    """A service that is gone, is late, or has lost its sessions and models."""


class BackendError(CrucibleError):
    """A backend could not reply to one request."""

    kind: str = ""
    """The class under which it is counted, such as an HTTP status; empty for the name of the type."""

    def __init__(self, message: str = "", *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class Retryable(BackendError):
    """A temporary failure of a request: an overloaded server, a broken connection, half a reply."""

    def __init__(
        self, message: str, *, kind: str, retry_after_s: float | None = None, quota_exhausted: bool = False
    ) -> None:
        """`kind` is the class of error that is counted: an HTTP status, or a word such as `timeout`, `connection`, `garbage`.

        `quota_exhausted`: the server reports that nothing is left of a quota, so that any other request would be refused, too.
        """
        super().__init__(message, kind=kind)
        self.retry_after_s = retry_after_s
        self.quota_exhausted = quota_exhausted

    def __reduce__(self) -> tuple[Any, ...]:
        return _retryable, (str(self), self.kind, self.retry_after_s, self.quota_exhausted)


def _retryable(message: str, kind: str, retry_after_s: float | None, quota_exhausted: bool) -> Retryable:
    """Keyword-only arguments do not survive pickling by themselves."""
    return Retryable(message, kind=kind, retry_after_s=retry_after_s, quota_exhausted=quota_exhausted)


class Spent(BackendError):
    """The budget of the run or of the experiment is exhausted."""


class Unanswered(BackendError):
    """A request that a server never answered in time, although it answers others."""


class Uncached(BackendError):
    """A reply that is not in the reply cache, where no model may be called."""


class Refused(BackendError):
    """A backend that would refuse every request: an invalid key, an unknown model."""


class UnsuitableMetric(SpecError):
    """A metric that a sweep or a run with looks cannot decide by, as its first scores have shown: an error of the suite."""


class StoreError(CrucibleError):
    """The run store cannot be opened, read or written."""


class NotStored(CrucibleError):
    """The calls by which a stored reply would be scored are not in the run store."""


class UnknownSetting(SpecError):
    """An unknown key of an adapter, such as `lora.rnak`."""

    def __init__(self, adapter: str, key: str, rest: str) -> None:
        """`rest` is the end of the sentence: the owner of the settings, and what to write."""
        super().__init__(f"adapter {adapter!r} has {key!r}{rest}")
        self.key, self.rest = key, rest


# difflib's own default: one wrong letter in three is still near.
NEAR = 0.6


def suggest(name: str, names: Iterable[str], *, otherwise: str = "", always: str = "") -> str:
    """Return "did you mean 'NAME'?" where a name is near, else `otherwise`; followed by `always`.

    >>> suggest("acuracy", ["accuracy", "cost"], always="the metrics are accuracy, cost")
    "did you mean 'accuracy'? the metrics are accuracy, cost"
    >>> suggest("x", ["accuracy"], otherwise="there is accuracy")
    'there is accuracy'
    """
    near = closest_name(name, names)
    hint = otherwise if near is None else f"did you mean {near!r}?"
    return " ".join(part for part in (hint, always) if part)


def closest_name(name: str, names: Iterable[str], *, cutoff: float = NEAR) -> str | None:
    """Return the name that is most similar; None if none reaches the similarity `cutoff`, from 0 to 1."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)), None)


_PYTHON = {
    "NoneType": "None",
    "bool": "a boolean",
    "builtin_function_or_method": "a function",
    "bytes": "bytes",
    "complex": "a complex number",
    "float": "a number",
    "int": "a number",
    "str": "a string",
    "type": "a class",
}
_JSON = {"NoneType": "null", "dict": "an object", "list": "an array"}
_COLLECTIONS = (str, list, tuple, dict, set)


def describe_type(value: object) -> str:
    """Return a value's type in words, with its article.

    >>> [describe_type(value) for value in (7, "text", [], {"a": 1}, None)]
    ['a number', 'a string', 'an empty list', 'a dict', 'None']
    """
    name = type(value).__name__
    if isinstance(value, _COLLECTIONS) and not value:
        return f"an empty {_PYTHON.get(name, name).removeprefix('a ')}"
    return _PYTHON.get(name, _with_article(name))


def describe_json_type(value: object) -> str:
    """Return the type of a value that was read from JSON, in the words of JSON.

    >>> [describe_json_type(value) for value in (7, "text", [], {"a": 1}, None)]
    ['a number', 'a string', 'an array', 'an object', 'null']
    """
    name = type(value).__name__
    return _JSON.get(name) or _PYTHON.get(name, _with_article(name))


def _with_article(name: str) -> str:
    # "ndarray" is spoken with its first letter's name; names that begin with a "u", such as Unit, mostly sound like "you".
    return f"{'an' if name[:1].lower() in 'aeio' or name.startswith('nd') else 'a'} {name}"
