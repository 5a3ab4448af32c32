"""Normal approximations of how many answers change a verdict: the search for the number starts there."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pytest_crucible.analyse.scores import Floats
from pytest_crucible.analyse.statistics import row_of
from pytest_crucible.features.provenance.movable import Moves, Places, holding, is_one_sided, scores_of
from pytest_crucible.features.provenance.what_if import Question, single_scores
from pytest_crucible.gate.decide import Decision
from pytest_crucible.records import BoundedValue, Contrast, Target
from pytest_crucible.stats.distributions import normal_quantile
from pytest_crucible.stats.fragility import fewest_answers
from pytest_crucible.stats.proportions.paired import tango_lower


def guess_fewest(question: Question, arm: int, is_better: bool, differs: Callable[[Decision], bool]) -> int:
    """Return about how many answers of an arm change a decision on pairs; 1 without a guess."""
    measure = question.measure
    if isinstance(measure, Target):
        # An estimate equals a number at one number of answers only.
        values = _sample_values(question)[question.chosen]
        return round(abs(measure.value * values.size - float(values.sum())))
    if measure.unpaired:
        return 1
    gained, lost, n = count_pairs(question)[1:]
    is_up = is_better == (arm == 0)

    def changes(number: int) -> bool:
        # Where pairs that disagree become pairs that agree, and where the reverse.
        ways = (
            [(gained + number, lost), (gained + max(number - lost, 0), max(lost - number, 0))]
            if is_up
            else [(gained, lost + number), (max(gained - number, 0), lost + max(number - gained, 0))]
        )
        return any(
            differs(question.decide_as_if(_read(more, fewer, n, question.alpha)))
            for more, fewer in ways
            if more + fewer <= n
        )

    return fewest_answers(changes, n, is_one_sided=is_one_sided(question)) or n


def promising_splits(question: Question, arm: int, is_better: bool, number: int, rooms: tuple[int, int]) -> list[int]:
    """Return how many answers of the first of two kinds to turn, so that a bound of the difference is about as far as it can be.

    The first are those whose pair is right. Of few pairs all splits are returned.
    """
    splits = range(max(0, number - rooms[1]), min(number, rooms[0]) + 1)
    measure = question.measure
    if number < 1 or not isinstance(measure, Contrast) or measure.unpaired:
        return []
    gained, lost, n = count_pairs(question)[1:]
    if n <= FEW:
        return list(splits)
    if not measure.decided_by_bounds:
        return []
    step = 1 if is_better else -1
    tried = splits[:: max(1, len(splits) // FEW)]
    bounds = []
    for ours in tried:
        # Of pairs that are right in the other arm, and of those that are wrong.
        right, wrong = step * ours, step * (number - ours)
        after = (gained + wrong, lost - right) if arm == 0 else (gained - right, lost + wrong)
        reading = _read(*after, n, question.alpha)
        bounds.append((reading.lower or 0.0, reading.upper or 0.0))
    return sorted({tried[find([pair[side] for pair in bounds])] for find in (np.argmin, np.argmax) for side in (0, 1)})


FEW = 100
"""Up to so many pairs all splits are tried, and of more about so many are looked at by approximation."""


def _read(gained: int, lost: int, n: int, alpha: float) -> BoundedValue:
    """Return what decides about pairs, by McNemar's and Tango's statistics."""
    z = (gained - lost) / math.sqrt(gained + lost) if gained + lost else 0.0
    p_value = math.erfc(abs(z) / math.sqrt(2))
    quantile = normal_quantile(1 - alpha)
    return BoundedValue(
        value=(gained - lost) / n,
        lower=tango_lower(gained, lost, n, quantile),
        upper=-tango_lower(lost, gained, n, quantile),
        p_value=p_value,
        proof_p=p_value,
    )


def guess_fewest_scores(question: Question, moves: Moves, order: Places, differs: Callable[[Decision], bool]) -> int:
    """Return about how many answers of an order change a decision on means of independent samples; 1 without a guess."""
    measure = question.measure
    is_plain = measure.statistic in ("mean", "rate") and question.table.attributes.clusters is None
    if not is_plain or (isinstance(measure, Contrast) and measure.unpaired):
        return 1
    values = _sample_values(question)[question.chosen]
    before = _sample_values(question)[moves.answers.positions[order]]
    units = single_scores(question.table.scores[measure.metric][moves.arm]).shape[1]
    sign = 1.0 if moves.is_better == (moves.arm == 0 or isinstance(measure, Target)) else -1.0
    if isinstance(measure, Target) and not row_of(measure).higher_is_better(measure, question.facts):
        sign = -sign
    distances = np.ones(order.size) if measure.inner_relation is not None else moves.distances[order]
    after = before + sign * distances / units
    n, total, squares = values.size, float(values.sum()), float((values**2).sum())
    totals, all_squares = total + np.cumsum(after - before), squares + np.cumsum(after**2 - before**2)

    def changes(number: int) -> bool:
        mean = float(totals[number - 1]) / n
        variance = max(float(all_squares[number - 1]) / n - mean**2, 1e-12)
        return differs(question.decide_as_if(_read_mean(mean, math.sqrt(variance / n), question.alpha)))

    return fewest_answers(changes, order.size, is_one_sided=is_one_sided(question)) or order.size


def _sample_values(question: Question) -> Floats:
    """Return each sample's value, or its difference, positive where the candidate is better."""
    measure = question.measure
    values = [scores_of(question, number).scores.values for number in question.numbers]
    if measure.inner_relation is not None:
        values = [np.asarray(holding(measure, each), dtype=float) for each in values]
    if len(values) == 1:
        return values[0]
    sign = 1.0 if row_of(measure).higher_is_better(measure, question.facts) else -1.0
    return np.asarray(sign * (values[0] - values[1]))


def _read_mean(mean: float, error: float, alpha: float) -> BoundedValue:
    """Return what decides about a mean with its standard error, as if it were normal."""
    quantile = normal_quantile(1 - alpha)
    p_value = math.erfc(abs(mean) / error / math.sqrt(2))
    lower, upper = mean - quantile * error, mean + quantile * error
    return BoundedValue(value=mean, lower=lower, upper=upper, p_value=p_value, proof_p=p_value)


def count_pairs(question: Question) -> tuple[int, int, int, int]:
    """Return how many pairs both arms got right, only the candidate, and only the baseline, and how many pairs there are."""
    measure, facts = question.measure, question.facts
    chosen = question.chosen
    right = []
    for number in question.numbers:
        values = scores_of(question, number).scores.values[chosen]
        right.append(holding(measure, values) == row_of(measure).higher_is_better(measure, facts))
    ours, theirs = right
    counts = (int((ours & theirs).sum()), int((ours & ~theirs).sum()), int((~ours & theirs).sum()))
    return *counts, int(chosen.sum())
