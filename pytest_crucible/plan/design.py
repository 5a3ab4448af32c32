"""From what a marked test asks for to a Plan, refusing what cannot be meant before anything is spent."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence

from pytest_crucible.errors import SpecError
from pytest_crucible.plan.trainings import TRAINING, check_comparison, check_form
from pytest_crucible.records import Arm, Contrast, Dataset, MetricFacts, Target

PASSED = MetricFacts(name="passed", kind="binary", low=0.0, high=1.0, version="1")
"""True unless the test function failed on the sample: available to every experiment by its name."""


def group_count(dataset: Dataset) -> int | None:
    """Number of clusters. None when samples carry no group, or each its own: then the sample is the unit."""
    groups = {sample.group for sample in dataset.samples}
    return None if None in groups or len(groups) == len(dataset.samples) else len(groups)


def contrasts(asked: Iterable[Contrast], arms: Sequence[Arm]) -> tuple[Contrast, ...]:
    """Each comparison that was asked for, against each baseline of this session."""
    wanted = list(asked)
    return tuple(
        Contrast(metric=one.metric, baseline=arm.name, alternative=one.alternative, margin=one.margin)
        for arm in arms
        if arm.role == "baseline"
        for one in wanted
    )


def judged_facts(
    facts: Sequence[MetricFacts],
    targets: Sequence[Target],
    asked: Sequence[Contrast],
    *,
    open_metrics: bool,
    further: Sequence[MetricFacts] = (),
) -> tuple[MetricFacts, ...]:
    """The declared metrics, with `passed` where it is named or nothing else is there to judge by, and what is observed besides.

    Raises SpecError for a target or comparison on a metric that does not exist or is text.
    """
    named = {*(one.metric for one in targets), *(one.metric for one in asked)}
    wants_passed = "passed" in named or not (facts or open_metrics)
    has_passed = any(one.name == "passed" for one in facts)  # a suite may have a metric of that name: its own counts
    known = (*facts, PASSED) if wants_passed and not has_passed else tuple(facts)
    known = (*known, *further)
    by_name = {one.name: one for one in known}
    # A metric goes before a training's number of the same name; what a function scores by itself may have any name.
    of_training = {} if open_metrics else {name: one for name, one in TRAINING.items() if name not in by_name}
    for target in targets:
        if target.metric in of_training:
            check_form(target)
        else:
            _check_judged(f"target {target.text!r}", target.metric, known, open_metrics, near=of_training)
        _check_reachable(target, by_name.get(target.metric) or of_training.get(target.metric))
    for one in asked:
        check_comparison(one.metric, of_training)
        _check_judged(f"ab_compare({one.metric!r})", one.metric, known, open_metrics)
        _check_margin(one, by_name.get(one.metric))
    return known


def _check_reachable(target: Target, facts: MetricFacts | None) -> None:
    """A value that the statistic can never have is a slip of the pen, most often a percentage."""
    low, high = (0.0, 1.0) if target.statistic == "rate" else (-math.inf, math.inf)
    if facts is not None and target.statistic in ("mean", "quantile"):
        low, high = facts.low, facts.high
    if not low <= target.value <= high:
        raise SpecError(
            f"target {target.text!r} asks for {target.value:g}, but {target.metric!r} lies between {low:g} and {high:g}: "
            "write a value in that range, a percentage as a fraction"
        )


def _check_margin(asked: Contrast, facts: MetricFacts | None) -> None:
    span = math.inf if facts is None else facts.high - facts.low
    if asked.margin is not None and asked.margin >= span:
        raise SpecError(
            f"ab_compare({asked.metric!r}) has margin={asked.margin:g}, and no two values are further apart than {span:g}: "
            "write how much worse is still good enough, such as 0.05"
        )


def _check_judged(
    what: str, metric: str, known: Sequence[MetricFacts], open_metrics: bool, near: Iterable[str] = ()
) -> None:
    """`near` are further names that a misspelt one may mean."""
    facts = {one.name: one for one in known}
    if metric not in facts:
        if open_metrics:
            return  # the test function scores by itself: what it scores is known only after the run
        meant = difflib.get_close_matches(metric, [*facts, *near], n=1)
        hint = f"did you mean {meant[0]!r}? " if meant else ""
        raise SpecError(f"{what} names metric {metric!r}: {hint}this experiment has {', '.join(facts)}")
    if facts[metric].kind == "text":
        raise SpecError(f"{what} judges {metric!r}, which is text: judge a metric of bool or numbers")
