"""Split the noise of each comparison by source, and show the source that narrows the interval most with more levels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from pytest_crucible import stats
from pytest_crucible.analyse import crossed
from pytest_crucible.analyse.conditional import is_conditional
from pytest_crucible.analyse.repeats import reduce_repeats
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric, mean_of, row_of, scored_samples
from pytest_crucible.measures.row import Numbers
from pytest_crucible.measures.table import comparison_row
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import FACTORS, Claim, Measure, MetricFacts, Note, Plan, Row, Table, View
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import number, with_interval

decides = False  # no claim of it can fail the session


def compute(inputs: SectionInputs) -> tuple[Noise, ...] | None:
    """Return the noise of each measure with a verdict; None without a random factor."""
    if not inputs.plan.random_factors:
        return None
    attributes = SampleAttributes(inputs.clusters, random_factors=inputs.plan.random_factors)
    return tuple(tabulate_noise(inputs.plan, inputs.facts, inputs.scores, attributes, alpha=inputs.alpha)) or None


def claims(noises: Sequence[Noise]) -> Sequence[Claim]:
    """Return nothing: sources of noise are not claims."""
    return ()


def view(noises: Sequence[Noise], claims: Sequence[Claim]) -> View:
    """Return a table and a sentence for each measure."""
    return View(
        title="Sources of noise",
        tables=tuple(map(_table, noises)),
        notes=tuple(Note(text=f"{_subject(noise)}: {_advice(noise)}") for noise in noises),
        document=[_document(noise) for noise in noises],
    )


def _subject(noise: Noise) -> str:
    return f"{noise.measure}: {noise.candidate}" + ("" if noise.baseline is None else f" vs {noise.baseline}")


def _table(noise: Noise) -> Table:
    twice = {step.name: step.half_width for step in noise.twice}
    return Table(
        title=f"Sources of noise in {_subject(noise)}",
        heads=(f"noise in {_subject(noise)}", "levels", "standard deviation", "with twice as many"),
        rows=tuple(
            Row(cells=(_name(part, noise), f"{part.levels:,}", _deviation(part), _half_width(twice.get(part.name))))
            for part in noise.components
        ),
        numbers=("levels",),
        note="Standard deviations are of single replies. The last column is the interval with twice as many levels, if they "
        "differ like these.",
    )


def _name(part: stats.Component, noise: Noise) -> str:
    random = part.name in ("residual", *(step.name for step in noise.twice))
    return part.name if random else f"{part.name} (fixed)"


def _deviation(part: stats.Component) -> str:
    low, high = math.sqrt(part.low), math.sqrt(part.high)
    return with_interval(math.sqrt(part.variance), Interval(low=low, high=high, level=0.95, method="Williams"))


def _half_width(value: float | None) -> str:
    return "-" if value is None else f"±{number(value)}"


def _advice(noise: Noise) -> str:
    """Return a sentence on the replies that would narrow the interval most."""
    if noise.halving is None:
        best = min(noise.twice, key=lambda step: step.half_width)
        if best.half_width >= noise.half_width:
            return f"no source alone is expected to narrow ±{number(noise.half_width)}: these levels differ less than others would"
        return (
            f"no source alone can halve the interval; twice the {best.name} ({best.levels:,}) give "
            f"±{number(best.half_width)} instead of ±{number(noise.half_width)}"
        )
    more = _more(noise.halving, noise)
    halved = f"{more} halve the interval, from ±{number(noise.half_width)} to ±{number(noise.halving.half_width)}"
    if noise.instead is None:
        return halved
    return f"{halved}; as many replies to {_more(noise.instead, noise)} give ±{number(noise.instead.half_width)}"


def _more(step: MoreLevels, noise: Noise) -> str:
    """Return `20 more prompts`."""
    present = next(twice.levels // 2 for twice in noise.twice if twice.name == step.name)
    added = step.levels - present
    kind, of, arm = step.name.partition(" of ")
    return f"{added:,} more {kind if added > 1 else kind.removesuffix('s')}{of}{arm}"


def _document(noise: Noise) -> dict[str, Any]:
    twice = {step.name: step.half_width for step in noise.twice}
    document = asdict(noise)
    del document["twice"]
    return {
        **document,
        "components": [{**asdict(part), "half_width_with_twice": twice.get(part.name)} for part in noise.components],
    }


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
