"""The same question put to other methods: to see whether an answer hangs on its method, never to choose among answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Estimand, Significance
from pytest_crucible.stats.counts.ratios import as_ratio
from pytest_crucible.stats.declared import Arms
from pytest_crucible.stats.means.trimmed import one_sample_trimmed_t, yuen_welch
from pytest_crucible.stats.methods.pairs import differences
from pytest_crucible.stats.methods.ratios import logarithms
from pytest_crucible.stats.observations import Alternative, Array, Side
from pytest_crucible.stats.proportions.paired import mcnemar_mid_p
from pytest_crucible.stats.ranks.brunner import brunner_munzel
from pytest_crucible.stats.ranks.signed import wilcoxon_signed_rank
from pytest_crucible.stats.resampling.permutation import PermutationTest, permute_two_samples, sign_flip
from pytest_crucible.stats.sequential.betting import betting_bound

FEW = 2000
"""Random permutations of two arms, each of which costs a shuffle of all samples."""
MOST_PERMUTED = 5000
"""Above this many samples random permutations agree with the t, and cost seconds."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to put again: two-sided or not, at which alpha, with which random numbers."""

    arms: Arms
    alternative: Alternative
    alpha: float
    rng: int | np.random.Generator
    estimand: Estimand = "difference"


def second_opinions(asked: Asked) -> tuple[Significance, ...]:
    """What other methods say of the same arms; those that these data do not carry are left out.

    Each has an estimand of its own: sign flips and betting ask about the mean, ranks and trimmed means about the middle.
    About a ratio all are asked on logarithms, and answer with ratios; Brunner and Munzel's share is the same on both.
    """
    if asked.estimand == "ratio":
        asked = replace(asked, arms=logarithms(asked.arms))
    found = []
    for opinion in _opinions(asked.arms):
        try:
            answer = opinion(asked)
        except NotEnoughData:
            continue
        turned = asked.estimand == "ratio" and opinion is not _brunner_munzel
        found.append(as_ratio(answer, f"{answer.method} of logarithms") if turned else answer)
    return tuple(found)


def _opinions(arms: Arms) -> Sequence[Callable[[Asked], Significance]]:
    bounded, small = arms.scale != "unbounded", arms.treatment.values.size <= MOST_PERMUTED
    if arms.differences is None:
        if arms.clustered:
            return []
        return [_permuted] * small + [_trimmed_arms, _brunner_munzel] * (arms.scale != "binary")
    if arms.clustered:
        return [_flipped]
    if arms.scale == "binary":
        return [_mid_p, _betting]
    return [_flipped] * small + [_signed_rank, _trimmed] + [_betting] * bounded


def _flipped(asked: Asked) -> Significance:
    seen = differences(asked.arms)
    found = sign_flip(seen.values, alternative=asked.alternative, clusters=seen.clusters, rng=asked.rng)
    return _without_interval(found)


def _permuted(asked: Asked) -> Significance:
    return _without_interval(
        permute_two_samples(*_values(asked), alternative=asked.alternative, rng=asked.rng, permutations=FEW)
    )


def _mid_p(asked: Asked) -> Significance:
    values = differences(asked.arms).values
    gained, lost = int((values > 0).sum()), int((values < 0).sum())
    p_value = mcnemar_mid_p(gained, lost) if asked.alternative == "two-sided" else None
    return Significance(
        method="mcnemar mid-p", statistic=None, p_value=p_value, estimate=float(values.mean()), n=(values.size,)
    )


def _signed_rank(asked: Asked) -> Significance:
    return wilcoxon_signed_rank(differences(asked.arms).values, **_how(asked))


def _trimmed(asked: Asked) -> Significance:
    return one_sample_trimmed_t(differences(asked.arms).values, **_how(asked))


def _trimmed_arms(asked: Asked) -> Significance:
    return yuen_welch(*_values(asked), **_how(asked))


def _brunner_munzel(asked: Asked) -> Significance:
    return brunner_munzel(*_values(asked), **_how(asked))


def _betting(asked: Asked) -> Significance:
    """A guaranteed interval; of p is only known whether it is below alpha, which the interval says."""
    seen = differences(asked.arms)
    tail = asked.alpha / 2 if asked.alternative == "two-sided" else asked.alpha
    sides: tuple[Side, Side] = ("lower", "upper")
    low, high = (betting_bound(seen.values, bounds=seen.bounds, alpha=tail, side=side) for side in sides)
    low, high = (seen.bounds[0] if asked.alternative == "less" else low), high
    high = seen.bounds[1] if asked.alternative == "greater" else high
    interval = Interval(low=low, high=high, level=1 - asked.alpha, method="betting")
    return Significance(
        method="betting", statistic=None, p_value=None, estimate=seen.mean, interval=interval, n=(seen.values.size,)
    )


def _how(asked: Asked) -> dict[str, Any]:
    return {"alternative": asked.alternative, "level": 1 - asked.alpha}


def _values(asked: Asked) -> tuple[Array, Array]:
    return asked.arms.treatment.values, asked.arms.control.values


def _without_interval(found: PermutationTest) -> Significance:
    return Significance(
        method=found.method,
        statistic=found.statistic,
        p_value=found.p_value,
        estimate=found.statistic,
        n=found.n,
        status=found.status,
        note=found.note,
    )
