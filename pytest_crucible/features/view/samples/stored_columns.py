"""Reads the outcomes of an experiment metric by metric, so that those of a large one are never in memory together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pytest_crucible.analyse.scores import Floats
from pytest_crucible.records import HUMAN, ORDERS, VOTES, ArmOutcomes, Draws, Lost, ScoreColumns, Unit
from pytest_crucible.store.outcomes import of_arm, place_of, read_columns
from pytest_crucible.store.runs import RunStore


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
