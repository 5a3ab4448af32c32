"""Sensitivity analysis: other methods on the same data, to see whether the result depends on the method.

It is for reading. No verdict is chosen among its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import Alternative, Array, Side
from pytest_crucible.stats.counts.ratios import as_ratio
from pytest_crucible.stats.inputs import Arms
from pytest_crucible.stats.means.trimmed import one_sample_trimmed_t, yuen_welch
from pytest_crucible.stats.methods.pairs import differences
from pytest_crucible.stats.methods.ratios import logarithms
from pytest_crucible.stats.proportions.paired import mcnemar_mid_p
from pytest_crucible.stats.ranks.brunner import brunner_munzel
from pytest_crucible.stats.ranks.signed import wilcoxon_signed_rank
from pytest_crucible.stats.resampling.permutation import PermutationTest, permute_two_samples, sign_flip
from pytest_crucible.stats.results import Estimand, Significance
from pytest_crucible.stats.sequential.paced_bets import betting_bound, betting_p_value

FEW = 2000
"""Random permutations of two arms: each costs a shuffle of all samples."""
MOST_PERMUTED = 5000
"""Above this many samples random permutations agree with the t, and cost seconds."""


@dataclass(frozen=True, slots=True)
class OpinionRequest:
    """The comparison that other methods repeat: arms, alternative, alpha and random numbers."""

    arms: Arms
    alternative: Alternative
    alpha: float
    rng: int | np.random.Generator
    estimand: Estimand = "difference"


def second_opinions(request: OpinionRequest) -> tuple[Significance, ...]:
    """Return the results of other methods on the same arms, without those that need more data.

    Each has its own estimand: sign flips and betting test the mean, ranks and trimmed means the middle. For a ratio all
    run on logarithms and return ratios; Brunner and Munzel's share is the same on both scales.
    """
    if request.estimand == "ratio":
        request = replace(request, arms=logarithms(request.arms))
    opinions = []
    for opinion in _opinions(request.arms):
        try:
            answer = opinion(request)
        except NotEnoughData:
            continue
        as_a_ratio = request.estimand == "ratio" and opinion is not _brunner_munzel
        opinions.append(as_ratio(answer, f"{answer.method} of logarithms") if as_a_ratio else answer)
    return tuple(opinions)


def _opinions(arms: Arms) -> Sequence[Callable[[OpinionRequest], Significance]]:
    bounded, small = arms.scale != "unbounded", arms.candidate.values.size <= MOST_PERMUTED
    # Independent arms with clusters have no other method here: permuting samples would break the clusters.
    if arms.differences is None:
        if arms.clustered:
            return []
        return [_permutation] * small + [_yuen_welch, _brunner_munzel] * (arms.scale != "binary")
    if arms.clustered:
        return [_sign_flip]
    if arms.scale == "binary":
        # Ranks of differences of 0/1 values are all tied, and trimming would remove every discordant pair.
        return [_mid_p, _betting]
    # Betting needs both ends: without them no guarantee exists.
    return [_sign_flip] * small + [_signed_rank, _trimmed_t] + [_betting] * bounded


def _sign_flip(request: OpinionRequest) -> Significance:
    observed = differences(request.arms)
    test = sign_flip(observed.values, alternative=request.alternative, clusters=observed.clusters, rng=request.rng)
    return _without_interval(test)


def _permutation(request: OpinionRequest) -> Significance:
    return _without_interval(
        permute_two_samples(*_values(request), alternative=request.alternative, rng=request.rng, permutations=FEW)
    )


def _mid_p(request: OpinionRequest) -> Significance:
    values = differences(request.arms).values
    gained, lost = int((values > 0).sum()), int((values < 0).sum())
    # The mid-p value is defined for the two-sided test only.
    p_value = mcnemar_mid_p(gained, lost) if request.alternative == "two-sided" else None
    return Significance(
        method="mcnemar mid-p", statistic=None, p_value=p_value, estimate=float(values.mean()), n=(values.size,)
    )


def _signed_rank(request: OpinionRequest) -> Significance:
    return wilcoxon_signed_rank(differences(request.arms).values, **_options(request))


def _trimmed_t(request: OpinionRequest) -> Significance:
    return one_sample_trimmed_t(differences(request.arms).values, **_options(request))


def _yuen_welch(request: OpinionRequest) -> Significance:
    return yuen_welch(*_values(request), **_options(request))


def _brunner_munzel(request: OpinionRequest) -> Significance:
    return brunner_munzel(*_values(request), **_options(request))


def _betting(request: OpinionRequest) -> Significance:
    """Return a guaranteed interval with its p-value."""
    observed, keys = differences(request.arms), request.arms.keys
    tail = request.alpha / 2 if request.alternative == "two-sided" else request.alpha
    sides: tuple[Side, Side] = ("lower", "upper")
    low, high = (
        betting_bound(observed.values, bounds=observed.bounds, alpha=tail, side=side, keys=keys) for side in sides
    )
    above, below = (
        betting_p_value(observed.values, null=0.0, bounds=observed.bounds, side=side, keys=keys) for side in sides
    )
    p_values = {"greater": above, "less": below, "two-sided": min(1.0, 2 * above, 2 * below)}
    # A one-sided interval extends to the end of what is possible.
    low, high = (observed.bounds[0] if request.alternative == "less" else low), high
    high = observed.bounds[1] if request.alternative == "greater" else high
    interval = Interval(low=low, high=high, level=1 - request.alpha, method="betting")
    return Significance(
        method="betting",
        statistic=None,
        p_value=p_values[request.alternative],
        estimate=observed.mean,
        interval=interval,
        n=(observed.values.size,),
    )


def _options(request: OpinionRequest) -> dict[str, Any]:
    return {"alternative": request.alternative, "level": 1 - request.alpha}


def _values(request: OpinionRequest) -> tuple[Array, Array]:
    return request.arms.candidate.values, request.arms.baseline.values


def _without_interval(test: PermutationTest) -> Significance:
    return Significance(
        method=test.method,
        statistic=test.statistic,
        p_value=test.p_value,
        estimate=test.statistic,
        n=test.n,
        status=test.status,
        note=test.note,
    )
