"""Metrics that apply to some replies only: which samples a comparison of them is about.

The estimand is declared before the run (`MetricFacts.applies`). Scores decide only whether the declaration was right. Without a
declaration the estimand is that of replies, each arm's mean over those that the metric applies to. Where it applies to the same
samples in both arms, that is the difference over pairs too, which has the stronger methods.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_crucible.analyse.scores import Flags, Scores
from pytest_crucible.analyse.statistics import (
    ScoredMetric,
    row_of,
)
from pytest_crucible.records import Measure, MetricFacts
from pytest_crucible.stats.number_format import quantity

Arm = Sequence[ScoredMetric]
LOOKS = "the metric applies to some replies only, and --crucible-stop has no bounds for that: leave it out"
ZEROS = "some values are 0, which have no geometric mean: compare a rate, or write a margin in the metric's units"


def applies_differently(*arms: Arm) -> int:
    """Return to how many samples a metric applies in one arm, and not, or not as often, in another where it is known, too."""
    differs = np.zeros(len(arms[0][0].scores.values), dtype=bool)
    for number in range(len(arms[0])):
        if all(arm[number].scores.applies_to_all for arm in arms):
            continue
        shares = [arm[number].scores.shares.observed for arm in arms]
        for other in shares[1:]:
            # NaN, a lost sample, differs from nothing.
            differs |= np.abs(shares[0] - other) > 0
    return int(differs.sum())


def declaration_problem(*arms: Arm) -> str:
    """Explain a metric that is declared to apply to samples, and was found to depend on the reply; empty if none was."""
    problems = (
        wrong_declaration(facts, applies_differently(*([arm[number]] for arm in arms)), int(scores.mixed.sum()))
        for number, (facts, scores) in enumerate(arms[0])
    )
    return next(filter(None, problems), "")


def wrong_declaration(facts: MetricFacts, different: int, mixed: int) -> str:
    """Explain a metric that is declared to apply to samples; empty if it does.

    It applied to so many samples in one arm only, and to some replies only of so many samples.
    """
    if facts.applies != "sample" or not (different or mixed):
        return ""
    in_one = f"to {quantity(different, 'sample')} in one arm only"
    where = in_one if different else f"to some replies only of {quantity(mixed, 'sample')}"
    return (
        f'{facts.name!r} is declared to apply to samples, and applied {where}: declare @metric(applies="reply"), which measures '
        "each arm on the replies that it applies to"
    )


def have_other_samples(facts: MetricFacts, scores: Sequence[Scores]) -> bool:
    """Return whether the means of some arms are of other samples than those of others, so that no pairs compare them."""
    if facts.applies == "sample":
        return False
    return facts.applies == "reply" or applies_differently(*([ScoredMetric(facts, each)] for each in scores)) > 0


def has_unlike_sides(metric: ScoredMetric) -> bool:
    """Return whether it is a drop whose two means are of other samples."""
    pair = metric.scores.pair
    return pair is not None and have_other_samples(pair.facts, (pair.originals, pair.twins))


def is_conditional(measure: Measure, *arms: Arm) -> bool:
    """Return whether the arms are compared by the means of their own replies; not whether such a comparison is needed."""
    row = row_of(measure)
    return (
        row.is_mean
        and not row.is_total
        and have_other_samples(arms[0][0].facts, [metrics[0].scores for metrics in arms])
    )


def pairs_problem(measure: Measure, *arms: Arm) -> str:
    """Explain why a statistic that needs pairs cannot compare the arms; empty if the metrics apply to the same samples in both."""
    if row_of(measure).of_slices or declaration_problem(*arms):
        return ""
    if any(has_unlike_sides(metric) for arm in arms for metric in arm):
        return unlike_sides_text(measure)
    count = applies_differently(*arms)
    return unpaired_text(measure, count) if count and not is_conditional(measure, *arms) else ""


def unlike_sides_text(measure: Measure) -> str:
    """Explain why a drop whose two means are of other samples is not compared."""
    return f"{measure.expression} applies to a reply and not to its twin, or the reverse: set a target for each arm"


def unpaired_text(measure: Measure, count: int) -> str:
    """Explain why a statistic of samples cannot compare arms of which one metric applies to so many samples in one arm only."""
    names = " and ".join(map(repr, measure.metrics))
    title = row_of(measure).title
    return (
        f"{names} applied to {quantity(count, 'sample')} in one arm only, and a {title} is compared on samples of both arms: "
        "set a target for each arm, or score those replies"
    )


def paired_samples(ours: Arm, theirs: Arm) -> tuple[Flags, Flags]:
    """Return the samples whose replies are known in both arms, and with the lost ones, where the metric may apply in either."""
    first, second = ours[0].scores.shares, theirs[0].scores.shares
    has_reply = ours[0].scores.known & theirs[0].scores.known
    of_candidate, of_baseline = (has_reply & (shares.observed > 0) for shares in (first, second))
    # A candidate without a value has no mean, and nothing is compared.
    pairs = of_candidate | of_baseline if of_candidate.any() else of_candidate
    return pairs, (first.with_lost > 0) | (second.with_lost > 0)
