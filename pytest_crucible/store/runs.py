"""The run store: what is known of every run, experiment and arm. One instance a process; `close` it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Engine, Table, case, func, select, update

from pytest_crucible.errors import SpecError
from pytest_crucible.records import Plan, Sample, Verdict
from pytest_crucible.redaction import cleaned
from pytest_crucible.store import schema
from pytest_crucible.store.inserting import insert_many
from pytest_crucible.store.naming import find_run
from pytest_crucible.store.opening import explained, insert_once, open_engine, shown
from pytest_crucible.store.texts import storable
from pytest_crucible.store.unsaved import keep, take_in
from pytest_crucible.store.writer import Writer
from pytest_crucible.wire import from_plain, to_plain

_PART = 5_000
"""Samples that are entered at a time."""


class RunStore:
    """A database of runs. Every method raises StoreError when the database fails."""

    def __init__(self, location: str, hide: Callable[[str], str] = str) -> None:
        """`hide` takes out of each text what must not be stored."""
        self.location = shown(location)
        self.hide = hide
        self._where, self._run = location, ""
        self.engine: Engine = open_engine(location)
        try:
            take_in(self.engine, location)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.engine.dispose()

    def writer(self) -> Writer:
        """A background writer of outcomes; the caller closes it."""
        return Writer(self.engine, self.location, self.hide, lambda rows: keep(self._where, self._run, rows))

    # -- runs ---------------------------------------------------------------------------------------------------

    def begin_run(self, run: str, **facts: Any) -> None:
        """Enter a run, once: under xdist each worker says so, and the first one counts."""
        self._run = run
        self._insert_once(schema.runs, {"id": run, "status": "running", **cleaned(facts, self.hide)})

    def end_run(self, run: str, *, finished: str, status: str) -> None:
        self._execute(update(schema.runs).where(schema.runs.c.id == run).values(finished=finished, status=status))

    def set_exit_status(self, run: str, exit_status: int) -> None:
        self._execute(update(schema.runs).where(schema.runs.c.id == run).values(exit_status=exit_status))

    def run(self, run: str) -> Mapping[str, Any]:
        with explained(self.location), self.engine.connect() as connection:
            return dict(connection.execute(select(schema.runs).where(schema.runs.c.id == run)).mappings().one())

    def find_run(self, named: str = "") -> str:
        """The id of the run that is named so: by its id or the beginning of it, `latest` (or nothing) or `tag:NAME`.

        Raises SpecError, with the nearest names.
        """
        with explained(self.location), self.engine.connect() as connection:
            return find_run(connection, self.location, named)

    # -- experiments --------------------------------------------------------------------------------------------

    def enter_plan(self, run: str, plan: Plan) -> None:
        """Enter an experiment before it begins: what a session asks is known even if it is cut short."""
        row = {"run": run, "nodeid": plan.nodeid, "plan": cleaned(to_plain(plan), self.hide), "finished": False}
        self._insert_once(schema.experiments, row)

    def add_experiment(self, run: str, plan: Plan, samples: Sequence[Sample]) -> int:
        """Enter an experiment and its samples; its key. Safe to call again, from any process."""
        self.enter_plan(run, plan)
        self._add_samples(plan.dataset_sha256, samples)
        table = schema.experiments
        return int(self._scalar(select(table.c.id).where(table.c.run == run, table.c.nodeid == plan.nodeid)))

    def add_arm(self, experiment: int, number: int, name: str, fingerprint: str) -> int:
        """Enter an arm of an experiment; its key. Safe to call again."""
        row = {"experiment": experiment, "number": number, "name": name, "fingerprint": fingerprint}
        self._insert_once(schema.arms, row)
        table = schema.arms
        return int(self._scalar(select(table.c.id).where(table.c.experiment == experiment, table.c.number == number)))

    def add_requests(self, run: str, nodeid: str, arm: str, *, requests: int, hits: int, since: float | None) -> None:
        """Add to what an arm has asked for through the reply cache, and had from it: several workers may have a part."""
        table, of = schema.arms, schema.experiments
        experiment = select(of.c.id).where(of.c.run == run, of.c.nodeid == nodeid).scalar_subquery()
        told = {"requests": _sum(table.c.requests, requests), "cache_hits": _sum(table.c.cache_hits, hits)}
        if since is not None:
            told["cache_since"] = case((table.c.cache_since < since, table.c.cache_since), else_=since)
        self._execute(update(table).where(table.c.experiment == experiment, table.c.name == arm).values(**told))

    def has_arms(self, experiment: int) -> bool:
        """Did the experiment begin? One that was skipped or whose fixtures failed has a plan and no arms."""
        return bool(self._scalar(select(func.count()).where(schema.arms.c.experiment == experiment)))

    def finish_experiment(self, experiment: int) -> None:
        table = schema.experiments
        self._execute(update(table).where(table.c.id == experiment).values(finished=True))

    def experiments(self, run: str) -> list[tuple[int, Plan, bool]]:
        """(key, plan, whether all its samples were asked) of each experiment of a run, as they were entered."""
        table = schema.experiments
        query = select(table.c.id, table.c.plan, table.c.finished).where(table.c.run == run).order_by(table.c.id)
        with explained(self.location), self.engine.connect() as connection:
            rows = connection.execute(query).all()
        return [(key, from_plain(Plan, plan), finished) for key, plan, finished in rows]

    def set_kinds(self, experiment: int, kinds: Mapping[str, str]) -> None:
        """Remember what the metrics turned out to be."""
        table = schema.experiments
        self._execute(update(table).where(table.c.id == experiment).values(kinds=dict(kinds)))

    def known_kinds(self, plan: Plan, before: int) -> dict[str, str]:
        """What the metrics of this experiment turned out to be in its latest earlier run, if they are still the same."""
        table = schema.experiments
        query = (
            select(table.c.kinds, table.c.plan)
            .where(table.c.nodeid == plan.nodeid, table.c.id < before, table.c.kinds.is_not(None))
            .order_by(table.c.id.desc())
            .limit(1)
        )
        with explained(self.location), self.engine.connect() as connection:
            row = connection.execute(query).first()
        if row is None:
            return {}
        then, now = from_plain(Plan, row.plan).fingerprint, plan.fingerprint
        same = (then.metrics, then.function) == (now.metrics, now.function)
        return dict(row.kinds) if same else {}

    def add_verdicts(self, experiment: int, verdicts: Sequence[Verdict]) -> None:
        for one in verdicts:
            row = {"experiment": experiment, "subject": one.subject, "kind": one.kind, "state": one.state}
            self._insert_once(schema.verdicts, {**row, "proven": one.proven, "reason": storable(self.hide(one.reason))})

    def verdicts(self, experiment: int) -> dict[str, dict[str, Any]]:
        """What was ruled in an experiment: state, proven and reason, by subject."""
        table = schema.verdicts
        query = select(table.c.subject, table.c.state, table.c.proven, table.c.reason)
        with explained(self.location), self.engine.connect() as connection:
            rows = connection.execute(query.where(table.c.experiment == experiment)).mappings()
            return {row["subject"]: {name: row[name] for name in ("state", "proven", "reason")} for row in rows}

    def stored_candidate(self, run: str, nodeid: str) -> tuple[int, str, Plan]:
        """Arm key, full run id and plan of what a run, named as `find_run` has it, judged. Raises SpecError."""
        table, arms, full = schema.experiments, schema.arms, self.find_run(run)
        query = (
            select(arms.c.id, table.c.plan)
            .select_from(table.join(arms, arms.c.experiment == table.c.id))
            .where(table.c.run == full, table.c.nodeid == nodeid, arms.c.number == 0)
        )
        with explained(self.location), self.engine.connect() as connection:
            found = connection.execute(query).first()
        if found is None:
            raise SpecError(
                f"run {full} has no answers to {nodeid} in {self.location!r}: compare with a run that has them"
            )
        return found[0], full, from_plain(Plan, found[1])

    # -- private ------------------------------------------------------------------------------------------------

    def _add_samples(self, dataset: str, samples: Sequence[Sample]) -> None:
        table = schema.samples
        if self._scalar(select(func.count()).where(table.c.dataset == dataset)) == len(samples):
            return
        with explained(self.location), self.engine.begin() as connection:
            for start in range(0, len(samples), _PART):  # rows take much more room than samples
                part = enumerate(samples[start : start + _PART], start=start)
                rows = cleaned([_sample_row(dataset, position, sample) for position, sample in part], self.hide)
                insert_many(connection, table, rows, over=False)

    def _insert_once(self, table: Table, rows: Any) -> None:
        """Insert, unless somebody else did."""
        self._execute(insert_once(self.engine.dialect, table), rows)

    def _execute(self, statement: Any, rows: Any = None) -> None:
        with explained(self.location), self.engine.begin() as connection:
            connection.execute(statement, rows)

    def _scalar(self, query: Any) -> Any:
        with explained(self.location), self.engine.connect() as connection:
            return connection.execute(query).scalar()


def _sum(column: Column[Any], more: int) -> ColumnElement[Any]:
    return func.coalesce(column, 0) + more


def _sample_row(dataset: str, position: int, sample: Sample) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "position": position,
        "sample_id": storable(sample.id),
        "sample_group": sample.group and storable(sample.group),
        "input": _plain_or_repr(sample.input),
        "expected": _plain_or_repr(sample.expected),
    }


def _plain_or_repr(value: Any) -> Any:
    try:
        return to_plain(value)
    except TypeError:
        return repr(value)
