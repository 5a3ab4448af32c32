"""Scores stored replies by their stored calls: with metrics of calls that their run did not have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_crucible.metrics.definition import Metric
from pytest_crucible.metrics.models.scorers import ScoredReply, reset_scored_reply, set_scored_reply
from pytest_crucible.records import Observation, Outcome
from pytest_crucible.records.errors import NotStored
from pytest_crucible.score import check_score
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.store.reused_outcomes import NewScores
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.stored_units import StoredArm, load_stored_arm, load_units


def score_stored(store: RunStore, experiment: Experiment, key: int) -> NewScores | None:
    """Return the values of the metrics of calls that a stored arm was not scored with; None if it was with all.

    Raises NotStored where they do not follow from what is stored.
    """
    if not any(metric.facts.of_calls for metric in experiment.metrics):
        return None
    arm = load_stored_arm(store, key)
    before = {facts.name: facts.version for facts in arm.plan.metrics if facts.of_calls}
    of_calls = {metric.name: metric for metric in experiment.metrics if metric.facts.of_calls}
    new = [metric for name, metric in of_calls.items() if before.get(name) != metric.facts.version]
    old = {name for name, version in before.items() if name not in of_calls or of_calls[name].facts.version != version}
    if not new and not old:
        return None
    observations = list(_score_units(store, experiment, arm, new)) if new else []
    return NewScores(frozenset(old), observations)


def _score_units(
    store: RunStore, experiment: Experiment, arm: StoredArm, metrics: Sequence[Metric]
) -> Iterator[Observation]:
    tables = tuple(dict.fromkeys(name for metric in metrics for name in metric.tables))
    for outcome in load_units(store, arm, tables):
        if not outcome.skipped:
            yield from _score_unit(experiment, outcome, metrics)


def _score_unit(experiment: Experiment, outcome: Outcome, metrics: Sequence[Metric]) -> Iterator[Observation]:
    sample, reply = experiment.sample(outcome.unit), outcome.reply
    assert reply is not None
    scored = ScoredReply(
        experiment.plan.nodeid,
        sample.id,
        calls=outcome.calls,
        variant=experiment.plan.variant_name(experiment.twin(outcome.unit)),
        feature_rows=outcome.feature_rows,
        stored=reply,
    )
    token = set_scored_reply(scored)
    try:
        for metric in metrics:
            if outcome.failure and not metric.scores_failures:
                _check_worst(metric)
                continue
            try:
                value = check_score(metric.function(reply, sample), metric.facts)
            except NotStored:
                raise
            except Exception as error:
                raise NotStored(f"metric {metric.name!r} raised {type(error).__name__}: {error}") from error
            yield Observation(outcome.unit, metric.name, *value)
    finally:
        reset_scored_reply(token)


def _check_worst(metric: Metric) -> None:
    """Raise NotStored for an amount of a failed reply: it has no worst value, and what was spent is not stored."""
    worst = metric.facts.high if metric.facts.direction == "lower" else metric.facts.low
    if not math.isfinite(worst):
        raise NotStored(f"{metric.name} of failed replies is not stored")
