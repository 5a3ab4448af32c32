"""The calls that each arm has received over the endpoint, by role."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.plan import PlanValue
from pytest_crucible.store.outcomes import variant_keys
from pytest_crucible.store.runs import RunStore

ENDPOINT = PlanValue[bool]("endpoint", bool, False)
"""Whether the function of an experiment takes the endpoint."""
FEW = 0.5
"""An arm whose agents send less than this share of another arm's calls has most likely not been asked by all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCalls:
    """The calls of one arm over the endpoint, or of one of its roles."""

    arm: str
    role: str
    """Empty for the arm itself."""
    replies: int
    """The number of replies of the arm's agents."""
    calls: int
    parallel: int
    """The number of calls that were in flight beside another one of their reply: their order is that of arrival alone."""
    models: tuple[str, ...]
    """The clients' names of the model, sorted."""
    paths: tuple[str, ...]

    @property
    def per_reply(self) -> float:
        return self.calls / self.replies if self.replies else 0.0


def load_sent_calls(
    store: RunStore, experiment: int, arms: Sequence[str], replies: Sequence[int]
) -> tuple[SentCalls, ...]:
    """Return the calls of all arms and their roles; `replies` are the numbers of replies of the arms."""
    return tuple(
        summary
        for number, (arm, count) in enumerate(zip(arms, replies, strict=True))
        for summary in _of_arm(store, [key for key, _ in variant_keys(store, experiment, number, 0)], arm, count)
    )


def _of_arm(store: RunStore, keys: Iterable[int], arm: str, replies: int) -> list[SentCalls]:
    query = """
        SELECT role, model, path, COUNT(*), SUM(CASE WHEN is_parallel THEN 1 ELSE 0 END) FROM endpoint_calls
        WHERE arm = :arm GROUP BY role, model, path ORDER BY role, model, path
    """
    rows = [row for key in keys for row in store.rows(query, arm=key)]
    roles = dict.fromkeys(("", *(row[0] for row in rows)))
    return [_summarise(arm, role, replies, [row[1:] for row in rows if row[0] == role]) for role in roles]


def _summarise(arm: str, role: str, replies: int, rows: Sequence[tuple[str, str, int, int]]) -> SentCalls:
    return SentCalls(
        arm=arm,
        role=role,
        replies=replies,
        calls=sum(count for *_, count, _ in rows),
        parallel=sum(parallel for *_, parallel in rows),
        models=tuple(sorted({model for model, *_ in rows})),
        paths=tuple(sorted({path for _, path, *_ in rows})),
    )


def few_calls(sent: Sequence[SentCalls]) -> list[str]:
    """Return a sentence for each arm that received no call, or far fewer than the arm with most.

    >>> facts = {"role": "", "replies": 10, "parallel": 0, "models": (), "paths": ()}
    >>> few_calls([SentCalls(arm="v2", calls=10, **facts), SentCalls(arm="v1", calls=50, **facts)])
    ["v2's endpoint received 1.0 calls a reply, v1's 5.0: check that every client of the agent is pointed at it"]
    """
    arms = [each for each in sent if not each.role and each.replies]
    if not arms:
        return []
    most = max(arms, key=lambda each: each.per_reply)
    sentences = []
    for each in arms:
        if not each.calls:
            sentences.append(
                f"{each.arm}'s endpoint received no call: point the agent's client at endpoint.base_url, or its scores are not "
                "those of the arm"
            )
        elif each.per_reply < FEW * most.per_reply:
            sentences.append(
                f"{each.arm}'s endpoint received {each.per_reply:.1f} calls a reply, {most.arm}'s {most.per_reply:.1f}: check "
                "that every client of the agent is pointed at it"
            )
    return sentences
