"""Reads the progress of an unfinished run: counts, usage and means, and nothing that decides."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from pytest_crucible.features.view.live.unit_counts import ScoreSums, UnitCounts, UnitTally
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import BUDGET, HELPERS, ArmEvents, MetricFacts, Plan, Table, Usage
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.report.sections import without_empty_columns
from pytest_crucible.sections import usage
from pytest_crucible.store.database import Connection, from_json
from pytest_crucible.store.written_rows import COLUMNS, EventTally, Place

_AT = COLUMNS.index("at")
_PART = 500
"""Rows that are fetched at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSoFar:
    """The mean of one metric over the replies so far."""

    metric: str
    mean: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmProgress:
    """Progress of one arm. Replies to variants of the samples are included."""

    name: str
    planned: int
    counts: UnitCounts
    copied: int
    """Replies of an earlier run, which are among the counts."""
    source: str
    """The run that they are from; empty without any."""
    cached: int
    """Replies from the reply cache."""
    means: tuple[MeanSoFar, ...]
    """Over the replies to the original samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentProgress:
    """Progress of one experiment."""

    number: int
    """From 1, in the order in which they were entered."""
    nodeid: str
    withheld: str
    """The reason why nothing is sent; empty if it is."""
    metrics: tuple[str, ...]
    """Those that are planned."""
    arms: tuple[ArmProgress, ...]
    usage: Table | None
    """Requests, tokens and cost; None where no model was called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Progress of a run."""

    experiments: tuple[ExperimentProgress, ...]
    budgets: tuple[str, ...]
    """What was spent of each budget that has ended."""
    last: float
    """The time of the last thing that it did, in seconds since 1970, by the clock of its machine."""

    @property
    def planned(self) -> int:
        return sum(arm.planned for experiment in self.experiments for arm in experiment.arms)

    @property
    def done(self) -> int:
        return sum(arm.counts.done for experiment in self.experiments for arm in experiment.arms)

    @property
    def lost(self) -> int:
        return sum(arm.counts.lost.total() for experiment in self.experiments for arm in experiment.arms)


class _Arm(NamedTuple):
    """A row of `arms`: an arm on the original samples, or on a variant of them."""

    experiment: int
    number: int
    variant: int | None
    source: str | None
    copied: int


@dataclass(slots=True)
class ProgressReader:
    """Reads the progress of one run again and again. Rows that were counted once are not read again."""

    run: str
    _units: UnitTally = field(default_factory=UnitTally)
    _events: EventTally = field(default_factory=EventTally)
    _last_event: int = 0
    _last: float = 0.0
    """When the last event was over."""
    _budgets: dict[str, str] = field(default_factory=dict)
    """What was spent of each budget that has ended, by experiment; empty for the run's."""
    _plans: dict[int, tuple[str, Plan]] = field(default_factory=dict)
    """By experiment, its plan with the text that it was read from: a sweep replaces it."""

    def read(self, connection: Connection) -> RunProgress:
        """Return the progress of the run as it is now."""
        with connection.snapshot():
            entered = self._read_plans(connection)
            arms = self._read_arms(connection)
            sizes = {key: (_units_of_sample(entered[arm.experiment], arm), arm.copied) for key, arm in arms.items()}
            counts = self._units.count(connection, sizes)
            self._read_events(connection)
            started = connection.scalar("SELECT started FROM runs WHERE id = :run", run=self.run)
        usages = _usages(list(entered.values()), self._events.by_arm())
        return RunProgress(
            experiments=tuple(
                ExperimentProgress(
                    number=number,
                    nodeid=plan.nodeid,
                    withheld=plan.withheld,
                    metrics=tuple(facts.name for facts in plan.metrics if not facts.is_part),
                    arms=tuple(_arm_progress(key, plan, arms, counts, usages[plan.nodeid])),
                    usage=_usage_table(plan, usages[plan.nodeid]),
                )
                for number, (key, plan) in enumerate(entered.items(), start=1)
            ),
            budgets=tuple(f"{experiment}: {spent}".removeprefix(": ") for experiment, spent in self._budgets.items()),
            last=max([_seconds(started), self._last, *(count.last for count in counts.values())]),
        )

    def _read_plans(self, connection: Connection) -> dict[int, Plan]:
        """Return each experiment's plan by its key, as they were entered."""
        query = "SELECT id, plan FROM experiments WHERE run = :run ORDER BY id"
        entered = {}
        for key, text in connection.execute(query, run=self.run):
            if key not in self._plans or self._plans[key][0] != text:
                self._plans[key] = (text, from_plain(Plan, from_json(text)))
            entered[key] = self._plans[key][1]
        return entered

    def _read_arms(self, connection: Connection) -> dict[int, _Arm]:
        query = """
            SELECT arms.id, experiment, number, variant, reused_from, COALESCE(reused_answers, 0)
            FROM arms JOIN experiments ON experiments.id = arms.experiment WHERE run = :run
        """
        return {key: _Arm(*row) for key, *row in connection.execute(query, run=self.run)}

    def _read_events(self, connection: Connection) -> None:
        self._add_events(connection)
        # PostgreSQL numbers rows before they are committed: one with a lower number may come later.
        count = "SELECT COUNT(*) FROM events WHERE run = :run"
        if not connection.is_sqlite and connection.scalar(count, run=self.run) != self._events.rows:
            self._events, self._last_event = EventTally(), 0
            self._add_events(connection)

    def _add_events(self, connection: Connection) -> None:
        query = f"""
            SELECT id, CASE WHEN name = :budget THEN facts END, {", ".join(COLUMNS)}
            FROM events WHERE run = :run AND id > :last ORDER BY id
        """
        cursor = connection.execute(query, run=self.run, last=self._last_event, budget=BUDGET)
        while part := cursor.fetchmany(_PART):
            for number, budget, *row in part:
                self._events.add(row)
                self._last_event, self._last = number, max(self._last, row[_AT])
                if budget is not None:
                    self._budgets[row[0]] = from_json(budget)["said"]


def _units_of_sample(plan: Plan, arm: _Arm) -> int:
    """Return how many replies a row of `arms` has to each of its samples: those of one form of the prompt."""
    draws = plan.draws(arm.number % len(plan.arms))
    return draws.size // draws.prompts


def _seconds(moment: str) -> float:
    return datetime.datetime.fromisoformat(moment).timestamp()


def _usages(plans: Sequence[Plan], events: Mapping[Place, ArmEvents]) -> dict[str, dict[str, Usage]]:
    """Return the usage of the arms of each experiment, in the order of its plan, and then of judges."""
    usages: dict[str, dict[str, Usage]] = {}
    for plan in plans:
        others = sorted(arm for nodeid, arm in events if nodeid == plan.nodeid and arm.startswith(HELPERS))
        usages[plan.nodeid] = {
            arm: usage.summarize_usage(arm, events[plan.nodeid, arm], level=0.95)
            for arm in (*(arm.name for arm in plan.arms), *others)
            if (plan.nodeid, arm) in events
        }
    return usages


def _usage_table(plan: Plan, usages: Mapping[str, Usage]) -> Table | None:
    """Return the table that reports have of requests, tokens and cost; None where no model was called."""
    simulated = frozenset(arm.name for arm in plan.arms if arm.simulated)
    tables = usage.view(usage.Usages(usages=tuple(usages.values()), simulated=simulated, level=0.95), ()).tables
    return without_empty_columns(tables[0]) if tables else None


def _arm_progress(
    experiment: int, plan: Plan, arms: Mapping[int, _Arm], counts: Mapping[int, UnitCounts], usages: Mapping[str, Usage]
) -> Iterator[ArmProgress]:
    for number, arm in enumerate(plan.arms):
        # Variants of an arm are numbered after all arms.
        rows = {
            key: row
            for key, row in arms.items()
            if row.experiment == experiment and row.number % len(plan.arms) == number
        }
        yield ArmProgress(
            name=arm.name,
            planned=plan.count_replies(number),
            counts=_sum_counts(counts[key] for key in rows),
            copied=sum(row.copied for row in rows.values()),
            source=next((row.source for row in rows.values() if row.source), ""),
            cached=usages[arm.name].cached if arm.name in usages else 0,
            means=tuple(
                _means(
                    plan,
                    _sum_counts(
                        counts[key] for key, row in rows.items() if not plan.draws(number).twin(row.variant or 0)
                    ),
                )
            ),
        )


def _sum_counts(parts: Iterable[UnitCounts]) -> UnitCounts:
    total = UnitCounts()
    for counts in parts:
        total.add(counts)
    return total


def _means(plan: Plan, counts: UnitCounts) -> Iterator[MeanSoFar]:
    """Yield the mean of each metric. As in the analysis, a failed reply without a score has the worst one, where there is one."""
    for name, sums in counts.scores.items():
        facts = plan.facts.get(name, MetricFacts(name=name))
        fails = 0 if facts.of_ensemble else counts.failed.total() - sums.failed
        worst = _worst_score(facts, sums)
        n, total = (sums.n, sums.total) if worst is None else (sums.n + fails, sums.total + fails * worst)
        if n and not facts.is_part:
            yield MeanSoFar(metric=name, mean=total / n, n=n)


def _worst_score(facts: MetricFacts, sums: ScoreSums) -> float | None:
    """Return the worst score of a metric; None if it has no bound, or an undeclared one that numbers may pass."""
    if facts.kind is None and not sums.numbers:
        return 0.0 if facts.direction == "higher" else 1.0
    worst = facts.low if facts.direction == "higher" else facts.high
    return worst if math.isfinite(worst) else None
