"""One experiment's stored answers to everything that is computed from them. Pure: nothing is decided and nothing printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible.analyse.comparisons import compare
from pytest_crucible.analyse.diversity import diversity
from pytest_crucible.analyse.judges import judges
from pytest_crucible.analyse.questions import Clusters, mean_of
from pytest_crucible.analyse.scores import Scores, resolve, scores
from pytest_crucible.analyse.targets import estimate, failures, judge_target
from pytest_crucible.analyse.trainings import judge_training
from pytest_crucible.analyse.worst import worst_samples
from pytest_crucible.records import (
    TRAINING_NUMBERS,
    Analysis,
    Answers,
    Comparison,
    Diversity,
    Estimate,
    MetricFacts,
    Plan,
    Target,
    TargetResult,
    Worst,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What an analysis starts from: the plan, each arm's answers, and each sample's group."""

    plan: Plan
    answers: tuple[Answers, ...]
    groups: Sequence[str | None]
    finished: bool
    known_kinds: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Scores of every metric in every arm."""

    facts: Mapping[str, MetricFacts]
    scores: Mapping[str, tuple[Scores, ...]]
    clusters: Clusters | None


def analyse(given: Given, *, alpha: float, questions: int) -> tuple[Analysis, dict[int, Worst]]:
    """Estimates, target results and comparisons, and the samples most worth reading by their positions.

    `questions` is the number of comparisons that the whole session asks: they share alpha.
    """
    table = score_table(given)
    plan = given.plan
    analysis = Analysis(
        plan=plan,
        estimates=_estimates(given, table, alpha),
        targets=_targets(plan, table, alpha),
        comparisons=_comparisons(plan, table, alpha, questions),
        kinds={name: str(facts.kind) for name, facts in table.facts.items()},
        lost=_lost(plan, given.answers, len(given.groups)),
        first_lost={arm.name: _first_lost(one) for arm, one in zip(plan.arms, given.answers, strict=True)},
        failures={arm.name: failures(answers) for arm, answers in zip(plan.arms, given.answers, strict=True)},
        finished=given.finished,
        diversity=_diversity(given, table, alpha),
        judges=tuple(
            one
            for arm, answers in zip(plan.arms, given.answers, strict=True)
            for one in judges(arm, answers, alpha=alpha)
        ),
    )
    return analysis, worst_samples(plan, table.facts, table.scores)


def metric_facts(given: Given) -> dict[str, MetricFacts]:
    """What is known of each metric that was declared or seen, after all arms were looked at."""
    seen = {name for arm in given.answers for name in (*arm.scores, *arm.labels)}
    declared = {facts.name: facts for facts in given.plan.metrics if facts.name in seen or not facts.of_ensemble}
    for name in sorted(seen - set(declared)):
        declared[name] = MetricFacts(name=name)
    return {name: resolve(one, given.answers, given.known_kinds) for name, one in declared.items()}


def score_table(given: Given) -> ScoreTable:
    """The scores that everything is computed from."""
    plan, arms = given.plan, given.answers
    facts = metric_facts(given)
    seen = {name for arm in arms for name in (*arm.scores, *arm.labels)}
    numeric = {name: one for name, one in facts.items() if one.kind != "text" and (name in seen or one in plan.metrics)}
    size = {"samples": len(given.groups), "epochs": plan.epochs}
    return ScoreTable(
        facts=facts,
        scores={name: tuple(scores(one, arm, **size) for arm in arms) for name, one in numeric.items()},
        clusters=clusters_of(given.groups),
    )


def clusters_of(groups: Sequence[str | None]) -> Clusters | None:
    """Codes of the groups; None when there are none, or every sample is its own."""
    if None in groups or len(set(groups)) == len(groups):
        return None
    return np.unique(np.array(groups, dtype=object).astype(str), return_inverse=True)[1].astype(np.int64)


def _estimates(given: Given, table: ScoreTable, alpha: float) -> tuple[Estimate, ...]:
    return tuple(
        estimate(mean_of(table.facts[name]), table.facts[name], arm.name, of_arm, table.clusters, level=1 - alpha)
        for name, of_arms in table.scores.items()
        for arm, of_arm, answers in zip(given.plan.arms, of_arms, given.answers, strict=True)
        if name in answers.scores or not table.facts[name].of_ensemble
    )


def _targets(plan: Plan, table: ScoreTable, alpha: float) -> tuple[TargetResult, ...]:
    found = (_target(target, plan, table, alpha) for target in plan.targets)
    return tuple(one for one in found if one is not None)


def _target(target: Target, plan: Plan, table: ScoreTable, alpha: float) -> TargetResult | None:
    """A metric goes before a training's number of the same name. None for what is neither."""
    name = target.metric
    if name in table.scores:
        return judge_target(
            target, table.facts[name], plan.candidate.name, table.scores[name][0], table.clusters, alpha=alpha
        )
    return judge_training(target, plan.candidate) if name in TRAINING_NUMBERS and name not in table.facts else None


def _comparisons(plan: Plan, table: ScoreTable, alpha: float, questions: int) -> tuple[Comparison, ...]:
    number = {arm.name: k for k, arm in enumerate(plan.arms)}
    return tuple(
        compare(
            contrast,
            table.facts[contrast.metric],
            plan.candidate.name,
            (table.scores[contrast.metric][0], table.scores[contrast.metric][number[contrast.baseline]]),
            table.clusters,
            alpha=alpha,
            questions=max(questions, 1),
        )
        for contrast in plan.contrasts
        if contrast.metric in table.scores
    )


def _diversity(given: Given, table: ScoreTable, alpha: float) -> tuple[Diversity, ...]:
    samples, epochs = len(given.groups), given.plan.epochs
    return tuple(
        found
        for arm, answers in zip(given.plan.arms, given.answers, strict=True)
        for found in diversity(arm, answers, table.facts, table.clusters, alpha=alpha, samples=samples, epochs=epochs)
    )


def _lost(plan: Plan, answers: Sequence[Answers], samples: int) -> dict[str, dict[str, int]]:
    """Arm -> reason -> lost units, those that were never asked among them."""
    found = {}
    for arm, one in zip(plan.arms, answers, strict=True):
        counts = Counter(str(lost.reason) for lost in one.lost)
        whole = sum(lost.metric is None for lost in one.lost)
        missing = samples * plan.epochs - len(one.positions) - whole
        if missing:
            counts["deselected" if plan.selected < plan.planned else "unasked"] += missing
        found[arm.name] = dict(counts)
    return found


def _first_lost(answers: Answers) -> dict[str, str]:
    """Reason -> the first line of what was said of the first one lost for it."""
    found: dict[str, str] = {}
    for one in answers.lost:
        if one.detail:
            found.setdefault(one.reason, one.detail.splitlines()[0])
    return found
