"""Lists and tags the runs of a store, and reads earlier comparisons of the same candidate with the same baseline."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_crucible.records import Measure, PastComparison, RunSummary
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.plan import CHOOSING
from pytest_crucible.records.results import RULES_VERSION, rules_of
from pytest_crucible.records.secret_settings import require_no_key
from pytest_crucible.records.serialize import canonical
from pytest_crucible.records.usage import JUDGE
from pytest_crucible.store import schema
from pytest_crucible.store.database import Row, from_json, json_part
from pytest_crucible.store.runs import RunStore, newest_first


def list_runs(
    store: RunStore, *, tag: str = "", suite: str = "", adapter: str = "", limit: int = 0
) -> tuple[RunSummary, ...]:
    """Return summaries of runs, newest first: with this tag, with this text in a nodeid, with this adapter as an arm.

    At most `limit` are returned; 0 for all.
    """
    summaries = _summaries(store)
    matching = filter_runs(map(summaries.__getitem__, newest_first(store)), tag=tag, suite=suite, adapter=adapter)
    return matching[:limit] if limit else matching


def filter_runs(
    summaries: Iterable[RunSummary], *, tag: str = "", suite: str = "", adapter: str = ""
) -> tuple[RunSummary, ...]:
    """Return the runs with this tag, with this text in a nodeid, and with this adapter as an arm."""
    return tuple(
        summary
        for summary in summaries
        if (not tag or tag in summary.tags)
        and (not suite or any(suite in nodeid for nodeid in summary.experiments))
        and (not adapter or adapter in summary.arms)
    )


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
    row = {"name": name, "run": run, "at": at, "promoted": promoted, "forced": forced, "why": why or None}
    with store.begin() as connection:
        # Again: its row must become the last one.
        if promoted:
            same = "DELETE FROM tags WHERE name = :name AND run = :run AND promoted = :promoted"
            connection.execute(same, name=name, run=run, promoted=promoted)
        connection.insert(schema.tags, [row])


def _summaries(store: RunStore) -> dict[str, RunSummary]:
    """Return the summary of each run by its id."""
    nodeids = _group_rows(store, "SELECT run, nodeid FROM experiments ORDER BY id")
    named = """
        SELECT experiments.run, arms.name FROM experiments JOIN arms ON arms.experiment = experiments.id
        ORDER BY experiments.id, arms.number
    """
    names = _group_rows(store, named)
    counted = """
        SELECT experiments.run, verdicts.state, COUNT(*)
        FROM experiments JOIN verdicts ON verdicts.experiment = experiments.id
        GROUP BY experiments.run, verdicts.state
    """
    states = _group_rows(store, counted)
    tagged = _group_rows(store, "SELECT run, name, why FROM tags ORDER BY id")
    with store.connect() as connection:
        runs = list(connection.named_rows("SELECT id, started, finished, status, exit_status, git FROM runs"))
    summaries, explaining = {}, store.explaining_runs()
    for row in runs:
        run, git = row["id"], from_json(row.pop("git")) or {}
        summaries[run] = RunSummary(
            **row,
            commit=git.get("commit"),
            dirty=git.get("dirty"),
            experiments=tuple(nodeid for (nodeid,) in nodeids[run] if CHOOSING not in nodeid),
            arms=tuple(dict.fromkeys(name for (name,) in names[run])),
            verdicts=dict(states[run]),
            tags=tuple(dict.fromkeys(name for name, _ in tagged[run])),
            reasons={name: why for name, why in tagged[run] if why is not None},
            explains=run in explaining,
        )
    return summaries


def _group_rows(store: RunStore, query: str) -> Mapping[str, list[Any]]:
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
    with store.connect() as connection:
        verdicts = connection.named_rows(_query(connection.is_sqlite), experiment=experiment, baseline=baseline)
        rows = [row for row in verdicts if _is_about(row, measure)]
    new = arms_with_new_replies(store, [key for row in rows for key in (row["candidate"], row["baseline"])])
    by_experiment = {row["experiment"]: _past_comparison(row, new) for row in rows}
    return tuple(by_experiment.values())


def past_targets(store: RunStore, experiment: int, text: str) -> tuple[tuple[str, str, int], ...]:
    """Return run, start and candidate's key of each earlier session with the same candidate and a verdict on this target.

    Oldest first, and as in `past_comparisons`.
    """
    query = f"""
        SELECT runs.id, runs.started, arms.id FROM {_EARLIER}
        JOIN arms ON {_equal_arm("arms", "0")}
        JOIN verdicts ON verdicts.experiment = experiments.id AND verdicts.kind = 'target'
        WHERE experiments.finished AND arms.number = 0 AND verdicts.subject = :text
        ORDER BY experiments.id
    """
    return tuple(store.rows(query, experiment=experiment, text=text))


def has_new_replies(store: RunStore, experiment: int, number: int) -> bool:
    """Return whether an arm has any reply that was neither copied from a stored run nor cached."""
    return bool(arms_with_new_replies(store, [arm_key(store, experiment, number)]))


def sessions_with_same_replies(store: RunStore, experiment: int, number: int) -> int:
    """Return how many sessions in a row, this one last, compared with the same replies of a baseline.

    The first of them brought the latest new replies, if the arm was a baseline there.
    """
    query = f"""
        SELECT arms.id FROM arms JOIN experiments ON {_equal_arm("arms", ":number")}
        WHERE arms.number > 0 AND experiments.finished AND experiments.id <= :experiment
        ORDER BY arms.id DESC
    """
    keys = list(store.scalars(query, experiment=experiment, number=number))
    new = arms_with_new_replies(store, keys)
    latest = next((place for place, key in enumerate(keys) if key in new), len(keys) - 1)
    return latest + 1


def candidates_on_samples(store: RunStore, experiment: int, dataset: str) -> int:
    """Return how many different candidates experiments on these rows had, in any groups, up to this experiment."""
    is_sqlite = store.database.is_sqlite
    query = f"""
        SELECT {json_part("plan", "arms", 0, is_sqlite=is_sqlite)} FROM experiments
        WHERE {json_part("plan", "fingerprint", "dataset", is_sqlite=is_sqlite)} = :dataset AND id <= :experiment
    """
    candidates = map(from_json, store.scalars(query, dataset=dataset, experiment=experiment))
    return len({canonical([arm["identity"], arm.get("parameters")]) for arm in candidates})


def arm_key(store: RunStore, experiment: int, number: int) -> int:
    """Return the store's key of an arm."""
    query = "SELECT id FROM arms WHERE experiment = :experiment AND number = :number"
    return int(store.scalar(query, experiment=experiment, number=number))


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
    units = "SELECT position, epoch, started FROM replies WHERE arm = :arm"
    paid = f"SELECT DISTINCT position, epoch, paid_by FROM calls WHERE arm = :arm AND {_IS_OWN}"
    sources = {(position, repeat): f"at {started}" for position, repeat, started in store.rows(units, arm=arm)}
    payers: dict[tuple[int, int], set[str]] = {}
    for position, repeat, payer in store.rows(paid, arm=arm):
        payers.setdefault((position, repeat), set()).add(run if payer is None else payer)
    # A reply with one new call among several is new.
    return sources | {
        unit: run if run in payers[unit] else min(payers[unit]) for unit in payers.keys() & sources.keys()
    }


_IS_OWN = f"calls.member NOT LIKE '{JUDGE}%'"
"""Whether a call is the test's own, and no judge's."""

_EARLIER = """
    experiments JOIN runs ON runs.id = experiments.run
    JOIN experiments AS now ON now.id = :experiment AND now.nodeid = experiments.nodeid AND experiments.id < now.id
"""
"""The experiments of earlier runs with the nodeid of :experiment."""


def _equal_arm(arms: str, number: str) -> str:
    """Return the SQL condition that an arm of `experiments` equals the arm of :experiment that has this number."""
    return f"""
        {arms}.experiment = experiments.id AND {arms}.fingerprint <> '' AND {arms}.fingerprint = (
            SELECT fingerprint FROM arms AS same WHERE same.experiment = :experiment AND same.number = {number}
        )
    """


def _query(is_sqlite: bool) -> str:
    """Return one row for each verdict on a comparison in a finished experiment with equal arms.

    Its values are :experiment and :baseline, the number of the arm.
    """
    return f"""
        SELECT experiments.id AS experiment, runs.id AS run, runs.started, runs.environment,
            {json_part("runs.manifest", "settings", "memory", is_sqlite=is_sqlite)} AS memory,
            candidates.id AS candidate, candidates.name AS candidate_name,
            baselines.id AS baseline, baselines.name AS baseline_name,
            verdicts.subject, verdicts.state, verdicts.proven
        FROM {_EARLIER}
        JOIN arms AS candidates ON {_equal_arm("candidates", "0")}
        JOIN arms AS baselines ON {_equal_arm("baselines", ":baseline")}
        JOIN verdicts ON verdicts.experiment = experiments.id AND verdicts.kind = 'comparison'
        WHERE experiments.finished AND candidates.number = 0 AND baselines.number > 0
        ORDER BY experiments.id
    """


def _is_about(row: Row, measure: Measure) -> bool:
    """Return whether a verdict is on this measure: the alternative and the margin follow in its subject, and may differ."""
    stem, subject = f"{measure.expression}: {row['candidate_name']} vs {row['baseline_name']}", row["subject"]
    return bool(subject == stem or subject.startswith(f"{stem} "))


def arms_with_new_replies(store: RunStore, arms: Iterable[int]) -> set[int]:
    """Return the arms with a call that this run paid for, or, without any calls, with replies of its own."""
    # EXISTS stops at the first call, while counting would read all calls of a long history.
    called = f"SELECT 1 FROM calls WHERE calls.arm = arms.id AND {_IS_OWN}"
    # A test function that calls no model makes new replies in every run, except in a run that copies them.
    query = f"""
        SELECT id FROM arms WHERE id IN (:arms) AND (
            EXISTS ({called} AND calls.paid_by IS NULL) OR (arms.reused_from IS NULL AND NOT EXISTS ({called}))
        )
    """
    return set(store.scalars(query, arms=list(arms)))


def _past_comparison(row: Row, new: set[int]) -> PastComparison:
    return PastComparison(
        run=row["run"],
        started=row["started"],
        arms=(row["candidate"], row["baseline"]),
        has_new_replies=(row["candidate"] in new, row["baseline"] in new),
        subject=claim_of(row["subject"], row["candidate_name"], row["baseline_name"]),
        is_pooled=row["memory"] == "pool",
        missed=row["state"] == "missed" and rules_of(from_json(row["environment"])) == RULES_VERSION,
        proven=bool(row["proven"]),
    )
