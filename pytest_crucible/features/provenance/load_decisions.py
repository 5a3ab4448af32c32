"""Reads recorded decisions from the run store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.tables import trace_events
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.calls import unknown_calls
from pytest_crucible.store.database import from_json
from pytest_crucible.store.outcomes import variant_keys
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The recorded decisions of one reply, in their order."""

    experiment: str
    arm: str
    sample: str
    repeat: int
    variant: str
    """The name of the variant; empty for the sample itself."""
    decisions: tuple[Decision, ...]


def load_decisions(
    store: RunStore, run: str, *, sample: str | None = None, arm: str | None = None, experiment: str | None = None
) -> list[Chain]:
    """Return the decisions of each reply of a run, or of one sample, arm or experiment; replies without any are left out.

    They are in the order of experiments, arms, samples and repeats.
    """
    return [
        chain
        for key, plan, _ in store.all_experiments(run)
        if experiment in (None, plan.nodeid)
        for number, planned in enumerate(plan.arms)
        if arm in (None, planned.name)
        for chain in _chains_of_arm(store, key, plan, number, sample)
    ]


def refuse_unknown(store: RunStore, run: str) -> None:
    """Raise SpecError for a run whose decisions are not known, which must not read as if it had none."""
    sentence = unknown_calls(store, run)
    if sentence:
        raise SpecError(sentence.replace(": its calls are", ": its decisions are"))


def _chains_of_arm(store: RunStore, key: int, plan: Plan, number: int, sample: str | None) -> Iterator[Chain]:
    for twin in range(1 + len(plan.variants)):
        for arm, prompt in variant_keys(store, key, number, twin):
            for (sample_id, epoch), decisions in _by_reply(store, arm, plan.dataset_sha256, sample):
                yield Chain(
                    experiment=plan.nodeid,
                    arm=plan.arms[number].name,
                    sample=sample_id,
                    repeat=plan.draws(number).place(prompt, epoch),
                    variant=plan.variant_name(twin) if twin else "",
                    decisions=decisions,
                )


_COLUMNS = tuple(name for name in trace_events.names if name not in ("arm", "position", "epoch"))


def _by_reply(
    store: RunStore, arm: int, dataset: str, sample: str | None
) -> Iterator[tuple[tuple[str, int], tuple[Decision, ...]]]:
    """Yield sample and repeat of each reply of an arm that has decisions, and these."""
    query = f"""
        SELECT samples.sample_id, trace_events.epoch, {", ".join(f"trace_events.{name}" for name in _COLUMNS)}
        FROM trace_events JOIN samples ON samples.dataset = :dataset AND samples.position = trace_events.position
        WHERE trace_events.arm = :arm {"" if sample is None else "AND samples.sample_id = :sample"}
        ORDER BY trace_events.position, trace_events.epoch, trace_events.number
    """
    rows = store.rows(query, dataset=dataset, arm=arm, sample=sample)
    for place, of_reply in groupby(rows, itemgetter(0, 1)):
        yield place, tuple(_decision(dict(zip(_COLUMNS, row[2:], strict=True))) for row in of_reply)


def _decision(row: dict[str, Any]) -> Decision:
    return Decision(
        number=row["number"],
        kind=row["kind"],
        decision=row["decision"],
        over=tuple(from_json(row["rejected"]) or ()),
        because=row["because"] or "",
        confidence=row["confidence"],
        parent=row["parent"],
        revises=row["revises"],
        stage=row["stage"] or "",
        is_claim=bool(row["is_claim"]),
        calls=row["calls"],
        at=row["at"],
    )
