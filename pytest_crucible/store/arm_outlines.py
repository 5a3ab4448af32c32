"""Facts about an arm as a whole, which a batch of its outcomes cannot show: its metrics, their kinds, and why it lost replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import CUT_SHORT, LostReason, Plan
from pytest_crucible.store.database import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmOutline:
    """An arm as a whole: what a batch of its outcomes cannot show."""

    metrics: tuple[str, ...]
    labels: frozenset[str]
    """Metrics with texts."""
    numbers: frozenset[str]
    """Metrics with a value that is not of yes or no."""
    scored: frozenset[str]
    """Metrics with a value."""
    has_replies: bool
    has_answers: bool
    """Whether some reply has not failed."""
    lost_reasons: frozenset[LostReason]

    @property
    def is_cut_short(self) -> bool:
        return not CUT_SHORT.isdisjoint(self.lost_reasons)


class _Kind(NamedTuple):
    """The kinds of values that a metric has."""

    has_label: bool
    has_value: bool
    has_number: bool


_HAS_VALUE = "value IS NOT NULL AND label IS NULL"


def read_outline(connection: Connection, plan: Plan, arms: Sequence[int]) -> ArmOutline:
    """Return the outline of an arm, whose rows have these keys."""
    kinds = _kinds(connection, plan, arms)
    has_replies, has_answers = _has_replies(connection, arms)
    lost = "SELECT DISTINCT reason FROM lost WHERE arm IN (:arms)"
    return ArmOutline(
        metrics=tuple(sorted(kinds)),
        labels=frozenset(name for name, kind in kinds.items() if kind.has_label),
        numbers=frozenset(name for name, kind in kinds.items() if kind.has_number),
        scored=frozenset(name for name, kind in kinds.items() if kind.has_value),
        has_replies=has_replies,
        has_answers=has_answers,
        lost_reasons=frozenset(connection.scalars(lost, arms=arms)),
    )


def _kinds(connection: Connection, plan: Plan, arms: Sequence[int]) -> dict[str, _Kind]:
    """Return the kinds of values of each metric. A search ends at its first row: to group all rows takes five times as long."""
    declared = {facts.name for facts in plan.metrics if facts.kind is not None}

    def has_row(metric: str, condition: str) -> bool:
        query = f"SELECT 1 FROM observations WHERE arm IN (:arms) AND metric = :metric AND {condition} LIMIT 1"
        return connection.scalar(query, arms=arms, metric=metric) is not None

    names = connection.scalars("SELECT DISTINCT metric FROM observations WHERE arm IN (:arms)", arms=arms)
    return {
        name: _Kind(
            has_label=name not in declared and has_row(name, "label IS NOT NULL"),
            has_value=has_row(name, _HAS_VALUE),
            has_number=name not in declared and has_row(name, f"{_HAS_VALUE} AND NOT is_bool"),
        )
        for name in list(names)
    }


def _has_replies(connection: Connection, arms: Sequence[int]) -> tuple[bool, bool]:
    """Return True if there are replies, and True if some of them have not failed."""
    query = "SELECT 1 FROM replies WHERE arm IN (:arms) AND {} LIMIT 1"
    first, second = (connection.scalar(query.format(each), arms=arms) for each in ("position >= 0", "failure IS NULL"))
    return first is not None, second is not None
