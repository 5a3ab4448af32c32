"""The index of an experiment: numbers of all its samples, in the order of the dataset, read metric by metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.analysis import main_metric
from pytest_crucible.analyse.scores import Flags, Floats, mark_inapplicable, resolve, scores
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    HUMAN,
    ORDERS,
    VOTES,
    ArmOutcomes,
    Draws,
    Lost,
    MetricFacts,
    Plan,
    ScoreColumns,
    Unit,
)
from pytest_crucible.runs.reporters import hide_instant
from pytest_crucible.store.outcomes import of_arm, place_of, read_columns
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import expected_values, group_names


class MetricNames(NamedTuple):
    """The metrics that some reply to an original sample has."""

    numeric: frozenset[str]
    text: frozenset[str]


def metric_names(store: RunStore, experiment: int) -> MetricNames:
    """Return the metrics of all arms, without the texts that judges record beside their scores."""
    query = """
        SELECT DISTINCT observations.metric, observations.label IS NOT NULL
        FROM observations JOIN arms ON arms.id = observations.arm WHERE arms.experiment = :experiment
    """
    rows = [row for row in store.rows(query, experiment=experiment) if not row[0].endswith((HUMAN, ORDERS, VOTES))]
    text = frozenset(name for name, is_text in rows if is_text)
    return MetricNames(frozenset(name for name, _ in rows) - text, text)


class ArmUnits(NamedTuple):
    """The outcomes of an arm on the original samples, without its scores, and the latency of each in seconds."""

    outcomes: ArmOutcomes
    latency_s: Sequence[float | None]


def load_units(store: RunStore, experiment: int, number: int, draws: Draws) -> ArmUnits:
    """Return the outcomes of an arm, read in one pass."""
    replies = f"""
        SELECT replies.position, {place_of("replies", draws)}, replies.failure, replies.skipped, replies.latency_s
        FROM replies JOIN arms ON arms.id = replies.arm WHERE {of_arm()}
    """
    lost = f"""
        SELECT lost.position, {place_of("lost", draws)}, lost.metric, lost.reason
        FROM lost JOIN arms ON arms.id = lost.arm WHERE {of_arm()}
    """
    of = {"experiment": experiment, "number": number}
    with store.connect() as connection:
        positions, places, failures, skipped, latency_s = read_columns(connection.execute(replies, **of), 5)
        outcomes = ArmOutcomes(
            positions=positions,
            repeats=places,
            failures=failures,
            skipped=list(map(bool, skipped)),
            scores={},
            lost=[
                Lost(Unit(position, 0, number, place), metric or None, reason)
                for position, place, metric, reason in connection.execute(lost, **of)
            ],
        )
    return ArmUnits(outcomes, latency_s)


def load_scores(store: RunStore, experiment: int, number: int, draws: Draws, metric: str) -> ScoreColumns | None:
    """Return the numbers of one metric in an arm; None if it has none there."""
    query = f"""
        SELECT observations.position, {place_of("observations", draws)}, observations.value, observations.is_bool
        FROM observations JOIN arms ON arms.id = observations.arm
        WHERE {of_arm()} AND observations.metric = :metric AND observations.label IS NULL
    """
    with store.connect() as connection:
        rows = connection.execute(query, experiment=experiment, number=number, metric=metric)
        positions, places, values, is_bool = read_columns(rows, 4)
    if not positions:
        return None
    return ScoreColumns(positions=positions, repeats=places, values=values, is_bool=list(map(bool, is_bool)))


def load_label_ranks(store: RunStore, experiment: int, metric: str, shape: tuple[int, int]) -> Floats:
    """Return the place of each first reply's text among all texts of a metric: arms x samples; NaN without a text.

    The database sorts them: texts of a judge can be long, and equal ones have one rank.
    """
    query = """
        SELECT arms.number, observations.position, DENSE_RANK() OVER (ORDER BY observations.label)
        FROM observations JOIN arms ON arms.id = observations.arm
        WHERE arms.experiment = :experiment AND arms.original IS NULL AND observations.epoch = 0
            AND observations.metric = :metric AND observations.label IS NOT NULL
    """
    ranks: Floats = np.full(shape, np.nan)
    for number, position, rank in store.rows(query, experiment=experiment, metric=metric):
        ranks[number, position] = rank
    return ranks


STATES = ("answered", "skipped", "failed", "lost", "pending", "not run")
"""The worst state of a sample's repeats in an arm; without any result it is pending, or not run where its run has ended."""
Codes = npt.NDArray[np.integer[Any]]


class MetricColumn(NamedTuple):
    """One metric in one arm, an entry for each sample."""

    values: Floats
    """The mean over the repeats that were scored, or the rank of a text; NaN if there is none."""
    lost: Flags
    """The value of some repeat is lost."""
    inapplicable: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A text for each sample, such as its group, as a number of a name."""

    codes: Codes
    """-1 where a sample has none."""
    names: tuple[str, ...]

    def flag(self, name: str) -> Flags:
        """Return which samples have the text with this name."""
        code = self.names.index(name) if name in self.names else len(self.names)
        return np.asarray(self.codes == code)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SampleIndex:
    """The columns by which samples are filtered and sorted."""

    facts: Mapping[str, MetricFacts]
    """Of each metric, resolved; in the order of the plan."""
    metrics: Mapping[str, tuple[MetricColumn, ...]]
    """By arm."""
    main: str | None
    """The metric that the experiment is mostly about."""
    states: tuple[Codes, ...]
    """By arm, numbers of STATES."""
    latency_s: tuple[Floats, ...]
    groups: Labels
    is_final: bool
    """Nothing is written to the run any more."""

    @property
    def size(self) -> int:
        """Return how many samples there are."""
        return len(self.groups.codes)

    @property
    def bytes(self) -> int:
        """Return the size of its columns in memory."""
        columns = (column for arms in self.metrics.values() for arm in arms for column in arm)
        arrays = [*columns, *self.states, *self.latency_s, self.groups.codes]
        # A name of a group takes about 100 bytes.
        return sum(array.nbytes for array in arrays) + 100 * len(self.groups.names)


def load_index(store: RunStore, run: str, key: int, plan: Plan) -> SampleIndex:
    """Return the index of an experiment by its key in the store. Raises StoreError."""
    # Read first: what is written later belongs to a run that is not final here.
    is_final = store.run(run)["status"] != "running"
    groups = code_texts(group_names(store, plan.dataset_sha256))
    size, numbers = len(groups.codes), range(len(plan.arms))
    arms = [load_units(store, key, number, plan.draws(number)) for number in numbers]
    # A run that was cut off lost the rest; one that ended early, or dropped an arm, did not need it.
    needs_all = is_final and (plan.selected < plan.planned or not _is_finished(store, key))
    loader = _Loader(store, key, plan, size, [arm.outcomes for arm in arms], needs_all)
    columns = dict(loader.columns(metric_names(store, key)))
    metrics = {name: column for name, (_, column) in columns.items()}
    numeric = {name: column for name, column in metrics.items() if columns[name][0].kind != "text"}
    return SampleIndex(
        facts={name: facts for name, (facts, _) in columns.items()},
        metrics=metrics,
        main=main_metric(plan, numeric or metrics),
        states=tuple(_states(arm.outcomes, size, is_final=is_final) for arm in arms),
        latency_s=tuple(_mean_latencies(arm, size) for arm in arms),
        groups=groups,
        is_final=is_final,
    )


def _is_finished(store: RunStore, key: int) -> bool:
    return bool(store.scalar("SELECT finished FROM experiments WHERE id = :key", key=key))


def code_texts(texts: Iterable[str | None]) -> Labels:
    """Return texts as labels, whose names are sorted."""
    codes: dict[str, int] = {}
    coded = np.fromiter((-1 if text is None else codes.setdefault(text, len(codes)) for text in texts), dtype=np.int32)
    names = sorted(codes)
    # The last place is that of -1, a sample without a text.
    places = np.full(len(names) + 1, -1, dtype=np.int32)
    places[[codes[name] for name in names]] = np.arange(len(names), dtype=np.int32)
    return Labels(places[coded], tuple(names))


def _states(outcomes: ArmOutcomes, size: int, *, is_final: bool) -> npt.NDArray[np.uint8]:
    answered, skipped, failed, lost, pending, not_run = range(len(STATES))
    states = np.full(size, not_run if is_final else pending, dtype=np.uint8)
    positions = np.asarray(outcomes.positions, dtype=np.intp)
    of_units = np.where(outcomes.skipped, skipped, answered)
    of_units[[failure is not None for failure in outcomes.failures]] = failed
    # The worst of a sample's repeats is written last.
    for state in (answered, skipped, failed):
        states[positions[of_units == state]] = state
    states[[each.unit.position for each in outcomes.lost if each.metric is None]] = lost
    return states


def _mean_latencies(units: ArmUnits, size: int) -> Floats:
    """Return the mean over the repeats; NaN without any."""
    seconds = np.array(units.latency_s, dtype=np.float64)
    is_timed = ~np.isnan(seconds)
    positions, seconds = np.asarray(units.outcomes.positions, dtype=np.intp)[is_timed], seconds[is_timed]
    with np.errstate(invalid="ignore"):
        # 0 / 0 is NaN.
        means = np.bincount(positions, seconds, size) / np.bincount(positions, minlength=size)
    return np.asarray(hide_instant(means.tolist()), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Loader:
    """Loads the metrics of an experiment, one after the other."""

    store: RunStore
    key: int
    plan: Plan
    size: int
    arms: Sequence[ArmOutcomes]
    needs_all: bool
    """What has no result is lost to an analysis."""

    def columns(self, names: MetricNames) -> Iterator[tuple[str, tuple[MetricFacts, tuple[MetricColumn, ...]]]]:
        """Yield each metric with its facts and its columns by arm. Parts of other metrics are left out, as in reports."""
        kinds = self.store.known_kinds(self.plan, self.key)
        declared = [
            facts for facts in self.plan.metrics if facts.name in names.numeric | names.text or not facts.of_ensemble
        ]
        others = sorted((names.numeric | names.text) - {facts.name for facts in declared})
        for facts in (*declared, *(MetricFacts(name=name) for name in others)):
            if facts.name in names.text:
                yield facts.name, (replace(facts, kind="text", is_directed=False), self._texts(facts.name))
            elif not facts.is_part:
                yield facts.name, self._numbers(facts, kinds)

    def _numbers(self, facts: MetricFacts, kinds: Mapping[str, str]) -> tuple[MetricFacts, tuple[MetricColumn, ...]]:
        arms = [self._with_scores(number, facts.name) for number in range(len(self.arms))]
        if facts.applies_to is not None:
            expected = expected_values(self.store, self.plan.dataset_sha256)
            arms = list(mark_inapplicable(replace(self.plan, metrics=(facts,)), arms, expected))
        resolved = resolve(facts, arms, kinds)
        return resolved, tuple(self._column(resolved, number, arm) for number, arm in enumerate(arms))

    def _with_scores(self, number: int, metric: str) -> ArmOutcomes:
        column = load_scores(self.store, self.key, number, self.plan.draws(number), metric)
        return replace(self.arms[number], scores={} if column is None else {metric: column})

    def _column(self, facts: MetricFacts, number: int, arm: ArmOutcomes) -> MetricColumn:
        of_arm = scores(facts, arm, samples=self.size, repeats=self.plan.draws(number).size)
        if self.needs_all:
            return MetricColumn(of_arm.values, of_arm.lost, of_arm.inapplicable)
        recorded = np.zeros(self.size, dtype=bool)
        recorded[[lost.unit.position for lost in arm.lost if lost.metric in (None, facts.name)]] = True
        return MetricColumn(of_arm.values, of_arm.lost & recorded, of_arm.inapplicable)

    def _texts(self, metric: str) -> tuple[MetricColumn, ...]:
        ranks = load_label_ranks(self.store, self.key, metric, (len(self.arms), self.size))
        absent = np.zeros(self.size, dtype=bool)
        return tuple(MetricColumn(of_arm, absent, np.isnan(of_arm)) for of_arm in ranks)
