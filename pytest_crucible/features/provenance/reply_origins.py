"""Counts the replies of an arm by the run that requested them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.usage import JUDGE
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOrigin:
    """Replies of one arm that were requested in the same run, in the same way."""

    replies: int
    run: str | None
    """The run that requested them: its id, empty where that is not known; None where no call is stored."""
    is_own: bool
    """Whether that is the run itself."""
    copied_from: str | None = None
    """The run whose stored replies were copied; None where nothing was copied."""
    is_cached: bool = False
    """Whether they were read from the reply cache."""

    @property
    def way(self) -> str:
        """One word for the way of the replies into the run: `requested`, `made`, `cached` or `copied`."""
        if self.is_own:
            return "made" if self.run is None else "requested"
        return "cached" if self.is_cached else "copied"


def reply_origins(store: RunStore, run: str, arms: Sequence[int]) -> list[ReplyOrigin]:
    """Return the origins of the replies in the arms with these keys, those of the run itself first.

    A reply with a new call among several is new. Failures count as replies; lost units have none.
    """
    counts: Counter[ReplyOrigin] = Counter()
    for arm in arms:
        for origin in _of_arm(store, run, arm):
            counts[replace(origin, replies=0)] += origin.replies
    origins = (replace(origin, replies=count) for origin, count in counts.items())
    return sorted(origins, key=lambda origin: (not origin.is_own, -origin.replies))


# A judge's calls are about a reply, and did not make it.
_OF_UNITS = f"""
    SELECT position, epoch, SUM(CASE WHEN paid_by IS NULL THEN 1 ELSE 0 END) > 0 AS is_new,
        MIN(paid_by) AS payer, MAX(CASE WHEN cached THEN 1 ELSE 0 END) AS is_cached
    FROM calls WHERE arm = :arm AND member NOT LIKE '{JUDGE}%' GROUP BY position, epoch
"""
_QUERY = f"""
    SELECT COUNT(*), is_new, payer, is_cached FROM (
        SELECT units.is_new, CASE WHEN is_new THEN NULL ELSE payer END AS payer,
            CASE WHEN is_new THEN NULL ELSE is_cached END AS is_cached
        FROM replies LEFT JOIN ({_OF_UNITS}) units
        ON units.position = replies.position AND units.epoch = replies.epoch
        WHERE replies.arm = :arm
    ) origins
    GROUP BY is_new, payer, is_cached
"""


def _of_arm(store: RunStore, run: str, arm: int) -> Iterator[ReplyOrigin]:
    copied_from = store.scalar("SELECT reused_from FROM arms WHERE id = :arm", arm=arm)
    for replies, is_new, payer, is_cached in store.rows(_QUERY, arm=arm):
        has_call = is_new is not None
        if is_new or (not has_call and copied_from is None):
            yield ReplyOrigin(replies=replies, run=run if has_call else None, is_own=True)
        else:
            yield ReplyOrigin(
                replies=replies,
                run=payer if has_call else None,
                is_own=False,
                copied_from=copied_from,
                is_cached=bool(is_cached) and copied_from is None,
            )


def judge_origins(store: RunStore, run: str, arms: Sequence[int]) -> dict[str, list[ReplyOrigin]]:
    """Return the origins of a judge's replies about those of an arm, by `judge:NAME`; counted by calls."""
    query = f"""
        SELECT member, COUNT(*), paid_by FROM calls WHERE arm IN (:arms) AND member LIKE '{JUDGE}%' AND error IS NULL
        GROUP BY member, paid_by ORDER BY member, paid_by IS NOT NULL, paid_by
    """
    origins: dict[str, list[ReplyOrigin]] = {}
    for member, replies, payer in store.rows(query, arms=arms):
        is_own = payer is None
        origin = ReplyOrigin(replies=replies, run=run if is_own else payer, is_own=is_own, is_cached=not is_own)
        origins.setdefault(member, []).append(origin)
    return origins
