"""Lists and tags the runs of a store, and reads earlier comparisons of the same candidate with the same baseline."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from pytest_crucible.records import Measure, PastComparison, RunSummary
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.plan import CHOOSING
from pytest_crucible.records.results import RULES_VERSION, rules_of
from pytest_crucible.records.secret_settings import require_no_key
from pytest_crucible.records.serialize import canonical, pick
from pytest_crucible.records.usage import JUDGE
from pytest_crucible.store import schema
from pytest_crucible.store.engine import insert_or_ignore
from pytest_crucible.store.runs import RunStore, newest_first


def list_runs(
    store: RunStore, *, tag: str = "", suite: str = "", adapter: str = "", limit: int = 0
) -> tuple[RunSummary, ...]:
    """Return summaries of runs, newest first: with this tag, with this text in a nodeid, with this adapter as an arm.

    At most `limit` are returned; 0 for all.
    """
    summaries = _summaries(store)
    matching = [
        summary
        for summary in map(summaries.__getitem__, newest_first(store))
        if (not tag or tag in summary.tags)
        and (not suite or any(suite in nodeid for nodeid in summary.experiments))
        and (not adapter or adapter in summary.arms)
    ]
    return tuple(matching[:limit] if limit else matching)


def check_tag(name: str) -> None:
    """Raise SpecError for a tag that a shell would need quoted after `tag:`, or that is too long for the database."""
    longest = schema.LONGEST_TAG
    require_no_key(name, "tag")
    if not re.fullmatch(r"[\w.+/-]+", name) or len(name) > longest:
        raise SpecError(
            f"tag {name!r:.120} is not valid: write 1 to {longest} letters, digits and . _ - + /, for example main or release/2.1"
        )


def add_tag(
    store: RunStore, run: str, name: str, *, at: str, promoted: bool = False, forced: bool = False, why: str = ""
) -> None:
    """Tag a run. Several runs may have one tag: it means the last of them. Raises SpecError."""
    check_tag(name)
    table = schema.tags
    row = {"name": name, "run": run, "at": at, "promoted": promoted, "forced": forced, "why": why or None}
    same = (table.c.name == name, table.c.run == run, table.c.promoted == promoted)
    with store.begin() as connection:
        # Again: its row must become the last one.
        if promoted:
            connection.execute(table.delete().where(*same))
        connection.execute(insert_or_ignore(store.engine.dialect, table), row)


def _summaries(store: RunStore) -> dict[str, RunSummary]:
    """Return the summary of each run by its id."""
    runs, experiments, arms, verdicts, tags = schema.runs, schema.experiments, schema.arms, schema.verdicts, schema.tags
    of_run = experiments.c.run
    entered = select(of_run, experiments.c.nodeid).where(~experiments.c.nodeid.contains(CHOOSING, autoescape=True))
    nodeids = _group_rows(store, entered.order_by(experiments.c.id))
    named = select(of_run, arms.c.name).join(arms, arms.c.experiment == experiments.c.id)
    names = _group_rows(store, named.order_by(experiments.c.id, arms.c.number))
    counted = select(of_run, verdicts.c.state, func.count()).join(verdicts, verdicts.c.experiment == experiments.c.id)
    states = _group_rows(store, counted.group_by(of_run, verdicts.c.state))
    tagged = _group_rows(store, select(tags.c.run, tags.c.name, tags.c.why).order_by(tags.c.id))
    columns = (runs.c[name] for name in ("id", "started", "finished", "status", "git", "exit_status"))
    return {
        row.id: RunSummary(
            **pick(row, "id started finished status exit_status"),
            commit=(row.git or {}).get("commit"),
            dirty=(row.git or {}).get("dirty"),
            experiments=tuple(nodeid for (nodeid,) in nodeids[row.id]),
            arms=tuple(dict.fromkeys(name for (name,) in names[row.id])),
            verdicts=dict(states[row.id]),
            tags=tuple(dict.fromkeys(name for name, _ in tagged[row.id])),
            reasons={name: why for name, why in tagged[row.id] if why is not None},
        )
        for row in store.rows(select(*columns))
    }


def _group_rows(store: RunStore, query: Any) -> Mapping[str, list[Any]]:
    """Return the rest of each row of a query by its first value, which is a run."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for run, *values in store.rows(query):
        groups[run].append(values)
    return groups


def past_comparisons(store: RunStore, experiment: int, baseline: int, measure: Measure) -> tuple[PastComparison, ...]:
    """Return the earlier concluded comparisons of an experiment's candidate with one of its baselines, oldest first.

    `baseline` is the number of the arm. Earlier runs are those entered before this experiment, so that an old run has the
    same history whenever it is shown. Arms without a fingerprint (joined tests, imported runs) have none.
    """
    rows = [row for row in store.rows(_query(experiment, baseline)) if _is_about(row, measure)]
    new = arms_with_new_replies(store, [key for row in rows for key in (row.candidate, row.baseline)])
    by_experiment = {row.experiment: _past_comparison(row, new) for row in rows}
    return tuple(by_experiment.values())


def past_targets(store: RunStore, experiment: int, text: str) -> tuple[tuple[str, str, int], ...]:
    """Return run, start and candidate's key of each earlier session with the same candidate and a verdict on this target.

    Oldest first, and as in `past_comparisons`.
    """
    now, experiments, runs, verdicts = schema.experiments.alias(), schema.experiments, schema.runs, schema.verdicts
    arms = schema.arms.alias()
    query = (
        select(runs.c.id, runs.c.started, arms.c.id)
        .select_from(experiments)
        .join(runs, runs.c.id == experiments.c.run)
        .join(now, and_(now.c.id == experiment, now.c.nodeid == experiments.c.nodeid, experiments.c.id < now.c.id))
        .join(arms, _equal_arm(arms, experiments, experiment, 0))
        .join(verdicts, and_(verdicts.c.experiment == experiments.c.id, verdicts.c.kind == "target"))
        .where(experiments.c.finished, arms.c.number == 0, verdicts.c.subject == text)
        .order_by(experiments.c.id)
    )
    return tuple((run, started, arm) for run, started, arm in store.rows(query))


def has_new_replies(store: RunStore, experiment: int, number: int) -> bool:
    """Return whether an arm has any reply that was neither copied from a stored run nor cached."""
    return bool(arms_with_new_replies(store, [arm_key(store, experiment, number)]))


def sessions_with_same_replies(store: RunStore, experiment: int, number: int) -> int:
    """Return how many sessions in a row, this one last, compared with the same replies of a baseline.

    The first of them brought the latest new replies, if the arm was a baseline there.
    """
    arms, experiments = schema.arms, schema.experiments
    query = (
        select(arms.c.id)
        .join(experiments, experiments.c.id == arms.c.experiment)
        .where(_equal_arm(arms, experiments, experiment, number), arms.c.number > 0)
        .where(experiments.c.finished, experiments.c.id <= experiment)
        .order_by(arms.c.id.desc())
    )
    keys = list(store.scalars(query))
    new = arms_with_new_replies(store, keys)
    latest = next((place for place, key in enumerate(keys) if key in new), len(keys) - 1)
    return latest + 1


def candidates_on_samples(store: RunStore, experiment: int, dataset: str) -> int:
    """Return how many different candidates experiments on these rows had, in any groups, up to this experiment."""
    table = schema.experiments
    query = select(table.c.plan[("arms", 0)]).where(
        table.c.plan[("fingerprint", "dataset")].as_string() == dataset, table.c.id <= experiment
    )
    return len({canonical([arm["identity"], arm.get("parameters")]) for arm in store.scalars(query)})


def arm_key(store: RunStore, experiment: int, number: int) -> int:
    """Return the store's key of an arm."""
    table = schema.arms
    return int(store.scalar(select(table.c.id).where(table.c.experiment == experiment, table.c.number == number)))


def claim_of(subject: str, candidate: str, baseline: str) -> str:
    """Return the subject of a comparison without the names of its arms, which may change.

    >>> claim_of("accuracy: v2 vs v1 non-inferior by 0.05", "v2", "v1")
    'accuracy: candidate vs baseline non-inferior by 0.05'
    """
    return subject.replace(f": {candidate} vs {baseline}", ": candidate vs baseline", 1)


def reply_sources(store: RunStore, arm: int, run: str) -> dict[tuple[int, int], str]:
    """Return the origin of each reply of an arm, by (position, repeat).

    The origin is the run that paid for the reply, which copied and cached replies share with their original. A reply without
    calls has the time of its sample, which a copy has too. `run` is the arm's own run.
    """
    replies, calls = schema.replies, schema.calls
    units = select(replies.c.position, replies.c.epoch, replies.c.started).where(replies.c.arm == arm)
    paid = select(calls.c.position, calls.c.epoch, calls.c.paid_by).distinct()
    paid = paid.where(calls.c.arm == arm, ~calls.c.member.startswith(JUDGE))
    sources = {(position, repeat): f"at {started}" for position, repeat, started in store.rows(units)}
    payers: dict[tuple[int, int], set[str]] = {}
    for position, repeat, payer in store.rows(paid):
        payers.setdefault((position, repeat), set()).add(run if payer is None else payer)
    # A reply with one new call among several is new.
    return sources | {
        unit: run if run in payers[unit] else min(payers[unit]) for unit in payers.keys() & sources.keys()
    }


def _query(experiment: int, baseline: int) -> Select[Any]:
    """Return one row for each verdict on a comparison in a finished experiment with equal arms."""
    now, experiments, runs, verdicts = schema.experiments.alias(), schema.experiments, schema.runs, schema.verdicts
    candidates, baselines = schema.arms.alias(), schema.arms.alias()
    return (
        select(
            experiments.c.id.label("experiment"),
            runs.c.id.label("run"),
            runs.c.started,
            runs.c.environment,
            runs.c.manifest["settings"]["memory"].as_string().label("memory"),
            candidates.c.id.label("candidate"),
            candidates.c.name.label("candidate_name"),
            baselines.c.id.label("baseline"),
            baselines.c.name.label("baseline_name"),
            verdicts.c.subject,
            verdicts.c.state,
            verdicts.c.proven,
        )
        .select_from(experiments)
        .join(runs, runs.c.id == experiments.c.run)
        .join(now, and_(now.c.id == experiment, now.c.nodeid == experiments.c.nodeid, experiments.c.id < now.c.id))
        .join(candidates, _equal_arm(candidates, experiments, experiment, 0))
        .join(baselines, _equal_arm(baselines, experiments, experiment, baseline))
        .join(verdicts, and_(verdicts.c.experiment == experiments.c.id, verdicts.c.kind == "comparison"))
        .where(experiments.c.finished, candidates.c.number == 0, baselines.c.number > 0)
        .order_by(experiments.c.id)
    )


def _equal_arm(arms: Any, experiments: Any, experiment: int, number: int) -> ColumnElement[bool]:
    same = schema.arms.alias()
    fingerprint = select(same.c.fingerprint).where(same.c.experiment == experiment, same.c.number == number)
    return and_(
        arms.c.experiment == experiments.c.id,
        arms.c.fingerprint == fingerprint.scalar_subquery(),
        arms.c.fingerprint != "",
    )


def _is_about(row: Any, measure: Measure) -> bool:
    """Return whether a verdict is on this measure: the alternative and the margin follow in its subject, and may differ."""
    stem = f"{measure.expression}: {row.candidate_name} vs {row.baseline_name}"
    return bool(row.subject == stem or row.subject.startswith(f"{stem} "))


def arms_with_new_replies(store: RunStore, arms: Iterable[int]) -> set[int]:
    """Return the arms with a call that this run paid for, or, without any calls, with replies of its own."""
    keys, calls, table = list(arms), schema.calls, schema.arms
    # EXISTS stops at the first call, while counting would read all calls of a long history.
    called = select(calls.c.arm).where(calls.c.arm == table.c.id, ~calls.c.member.startswith(JUDGE))
    paid = called.where(calls.c.paid_by.is_(None)).exists()
    # A test function that calls no model makes new replies in every run, except in a run that copies them.
    own = and_(~called.exists(), table.c.reused_from.is_(None))
    return set(store.scalars(select(table.c.id).where(table.c.id.in_(keys), or_(paid, own))))


def _past_comparison(row: Any, new: set[int]) -> PastComparison:
    return PastComparison(
        run=row.run,
        started=row.started,
        arms=(row.candidate, row.baseline),
        has_new_replies=(row.candidate in new, row.baseline in new),
        subject=claim_of(row.subject, row.candidate_name, row.baseline_name),
        is_pooled=row.memory == "pool",
        missed=row.state == "missed" and rules_of(row.environment) == RULES_VERSION,
        proven=bool(row.proven),
    )
