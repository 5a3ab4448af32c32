"""Split the noise of a mean or a difference by source, and predict the interval with more levels of each source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pytest_crucible import stats
from pytest_crucible.analyse import crossed
from pytest_crucible.analyse.conditional import is_conditional
from pytest_crucible.analyse.repeats import reduce_repeats
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric, mean_of, row_of, scored_samples
from pytest_crucible.measures.row import Numbers
from pytest_crucible.measures.table import comparison_row
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import FACTORS, Measure, MetricFacts, Plan
from pytest_crucible.stats.interval import NotEnoughData


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreLevels:
    """The expected interval if one source has more levels, and nothing else changes."""

    name: str
    levels: int
    """Its number of levels, the present ones included."""
    replies: float
    """The factor by which the number of replies grows."""
    half_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The sources of noise of one measure: of the candidate's mean, or of its difference to a baseline."""

    measure: str
    candidate: str
    baseline: str | None
    components: tuple[stats.Component, ...]
    """The variance components: samples, factors, residual."""
    half_width: float
    """Half the width of the interval that is shown."""
    twice: tuple[MoreLevels, ...]
    """The expected interval with twice the levels, for each random source."""
    halving: MoreLevels | None
    """The source that halves the interval with the fewest replies; None if no source does."""
    instead: MoreLevels | None
    """The expected interval if as many replies go to samples; None if `halving` is None or about samples."""


def tabulate_noise(
    plan: Plan, facts: Mapping[str, MetricFacts], scores: Mapping[str, tuple[Scores, ...]], attributes: SampleAttributes, *,
    alpha: float,
) -> Iterator[Noise]:  # fmt: skip
    """Yield the noise of each compared mean and of each mean with a target; without those, of the first metric."""
    arms = [arm.name for arm in plan.arms]
    subjects: dict[tuple[str, str | None], Measure] = {
        **{(contrast.expression, contrast.baseline): contrast for contrast in plan.contrasts},
        **{(target.expression, None): target for target in plan.targets},
    }
    if not subjects and scores:
        subjects = {(name, None): mean_of(facts[name]) for name in list(scores)[:1]}
    for (expression, baseline), measure in subjects.items():
        numbers = [0] if baseline is None else [0, arms.index(baseline)]
        if not all(name in scores for name in measure.metrics):
            continue
        metrics = [
            [ScoredMetric(facts[name], reduce_repeats(measure, scores[name][number])) for name in measure.metrics]
            for number in numbers
        ]
        mean = _mean(measure, metrics, attributes)
        if mean is not None and len(mean[0].sources) > 1 and mean[0].sources[0].variance:
            of_interval = crossed.shown_alpha(measure, mean[0], attributes, mean[1], alpha)
            yield _noise(*mean, expression, arms[0], baseline, alpha, of_interval)


def _mean(
    measure: Measure, arms: Sequence[Sequence[ScoredMetric]], attributes: SampleAttributes
) -> tuple[stats.CrossedMean, Numbers, Sequence[str]] | None:
    """Return a mean or a difference of two, its bounds, and the names of its axes; None for a measure without such an interval."""
    row = row_of(measure) if len(arms) == 1 else comparison_row(measure, arms[0][0].facts)
    chosen = scored_samples([metric for metrics in arms for metric in metrics])
    # The noise of all samples is not that of a slice, and more replies make a total larger.
    if not row.is_mean or row.is_total or measure.slice or not chosen.any():
        return None
    # Nothing counts the random factors of two conditional means.
    if len(arms) > 1 and is_conditional(measure, *arms):
        return None
    try:
        if len(arms) == 1:
            return *crossed.arm_mean(measure, arms[0], attributes, chosen), FACTORS
        return *crossed.mean_difference(measure, (arms[0], arms[1]), attributes, chosen), crossed.SHARED
    except NotEnoughData:
        return None


def _noise(
    mean: stats.CrossedMean,
    bounds: Numbers,
    factors: Sequence[str],
    measure: str,
    candidate: str,
    baseline: str | None,
    alpha: float,
    shown_alpha: float,
) -> Noise:
    sources, following = mean.sources, stats.NextInterval(mean, shown_alpha, bounds)
    interval = stats.crossed_interval(mean, level=1 - shown_alpha, bounds=bounds)
    assert interval is not None, "the samples vary"
    half_width = (interval.high - interval.low) / 2
    halving = _cheapest_halving(following, half_width / 2)
    samples = sources[0]
    return Noise(
        measure=measure,
        candidate=candidate,
        baseline=baseline,
        components=stats.variances_of_mean(mean, factors, level=1 - alpha),
        half_width=half_width,
        twice=tuple(_with_levels(following, source, 2 * source.levels) for source in sources),
        halving=halving,
        instead=None
        if halving is None or halving.name == samples.name
        else _with_levels(following, samples, round(samples.levels * halving.replies)),
    )


def _cheapest_halving(following: stats.NextInterval, goal: float) -> MoreLevels | None:
    steps = [
        _with_levels(following, source, levels)
        for source in following.mean.sources
        for levels in [stats.fewest_levels_for(partial(following.half_width, source.name), source.levels, goal)]
        if levels is not None
    ]
    return min(steps, key=lambda step: step.replies, default=None)


def _with_levels(following: stats.NextInterval, source: stats.Source, levels: int) -> MoreLevels:
    times = levels / source.levels
    # Trainings of one arm need replies of that arm alone.
    replies = times if " of " not in source.name else (1 + times) / 2
    return MoreLevels(
        name=source.name,
        levels=levels,
        replies=replies,
        half_width=following.half_width(source.name, levels),
    )
