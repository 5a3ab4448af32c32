"""About how many yes-or-no answers change a comparison, by normal approximations: where the search for the number starts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pytest_crucible.analyse.statistics import row_of
from pytest_crucible.features.provenance.what_if import Question
from pytest_crucible.gate.decide import Decision
from pytest_crucible.measures.means import RELATIONS
from pytest_crucible.records import BoundedValue, Contrast
from pytest_crucible.stats.distributions import normal_quantile
from pytest_crucible.stats.fragility import fewest_answers
from pytest_crucible.stats.proportions.paired import tango_lower


def guess_fewest(question: Question, arm: int, is_better: bool, differs: Callable[[Decision], bool]) -> int:
    """Return about how many answers of an arm change a decision on pairs; 1 without a guess."""
    measure = question.measure
    if not isinstance(measure, Contrast) or measure.unpaired:
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

    return fewest_answers(changes, n) or n


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


def count_pairs(question: Question) -> tuple[int, int, int, int]:
    """Return how many pairs both arms got right, only the candidate, and only the baseline, and how many pairs there are."""
    measure, facts = question.measure, question.facts
    chosen = question.chosen
    right = []
    for number in question.numbers:
        values = question.table.arm(measure, number)[0].scores.values[chosen]
        holds = RELATIONS[measure.inner_relation or ">"](values, measure.inner_value or 0.0)
        right.append(np.asarray(holds) == row_of(measure).higher_is_better(measure, facts))
    ours, theirs = right
    counts = (int((ours & theirs).sum()), int((ours & ~theirs).sum()), int((~ours & theirs).sum()))
    return *counts, int(chosen.sum())
