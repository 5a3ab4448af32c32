"""All calls and replies of an arm, as parallel columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.outcomes import Place

TextKey = str | bytes | None
"""A short text itself, or the key of a long one: two are equal if and only if the texts are. None for no text."""


class Answerer(NamedTuple):
    """The names that a server gives itself with a reply. One that it does not give is empty."""

    model: str
    system_fingerprint: str = ""
    server: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallColumns:
    """The calls of one arm about the original samples, in the order of samples, repeats and sending."""

    positions: Sequence[int] = ()
    repeats: Sequence[int] = ()
    """The places of the replies in the arm's table of replies to a sample (`Draws`)."""
    calls: Sequence[int] = ()
    """Counts the calls of a unit from 1."""
    requests: Sequence[int] = ()
    """Counts equal requests of a unit from 1."""
    members: Sequence[str] = ()
    """The member of an ensemble, or `judge:NAME`; empty for the arm's own reply."""
    forms: Sequence[int | None] = ()
    """The key of the form of the messages; None where the input of the sample was sent unchanged."""
    parameters: Sequence[str] = ()
    """Sampling parameters as JSON; empty for those of the adapter."""
    texts: Sequence[TextKey] = ()
    answered_by: Sequence[Answerer | None] = ()
    """None where it is not known."""
    cached: Sequence[bool | None] = ()
    """Whether the reply was read from the reply cache; None where it is not known, or there is no reply."""
    as_before: Sequence[bool | None] = ()
    """Whether a reply that was requested again and should be the cached one is the same; None for others."""
    finishes: Sequence[str | None] = ()
    """How the reply ended, such as `length`; None where it is not known, or there is no reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyColumns:
    """The replies of one arm to the original samples, in the order of samples and repeats. Lost ones are missing."""

    positions: Sequence[int] = ()
    repeats: Sequence[int] = ()
    texts: Sequence[TextKey] = ()
    finishes: Sequence[str] = ()
    """How each reply ended, such as `length`; empty where that is not known."""
    failures: Sequence[str] = ()
    """Why a reply is a failure; empty for those that were scored."""


Columns = TypeVar("Columns", CallColumns, ReplyColumns)


def move_rows(columns: Columns, place_of: Callable[[Place], Place | None]) -> Columns:
    """Return the columns with each row at its new place, in the order of the places; rows without one are left out."""
    units = enumerate(zip(columns.positions, columns.repeats, strict=True))
    moved = sorted((place, row) for row, unit in units if (place := place_of(unit)) is not None)
    rest: dict[str, Any] = {
        field.name: [getattr(columns, field.name)[row] for _, row in moved] for field in fields(columns)
    }
    return replace(
        columns, **rest | {"positions": [place[0] for place, _ in moved], "repeats": [place[1] for place, _ in moved]}
    )
