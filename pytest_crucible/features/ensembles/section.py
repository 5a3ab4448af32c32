"""Values observed of an ensemble's reply besides its scores: consensus, cost, and each member's answer and scores.

`exact_match[v1]` is the metric `exact_match` of member `v1`'s reply.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.scores import Floats, scores_by_repeat
from pytest_crucible.metrics.definition import Metric, NotApplicable
from pytest_crucible.metrics.models.scorers import current_reply, reset_scored_reply, set_scored_reply
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Arm,
    ArmOutcomes,
    Claim,
    Lost,
    MetricFacts,
    Note,
    Observation,
    Outcome,
    Proportion,
    Reply,
    Row,
    Sample,
    Table,
    Value,
    View,
)
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.score import Scored, apply_metrics
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.number_format import with_interval

CONSENSUS = MetricFacts(
    name="consensus", kind="bounded", low=0.0, high=1.0, version="1", of_ensemble=True, applies="reply"
)
COST = MetricFacts(
    name="cost_usd", kind="positive", direction="lower", low=0.0, high=math.inf, version="1", of_ensemble=True
)
INCOMPLETE = {"length": "the reply was cut at its length limit", "content_filter": "the reply was withheld"}
# Reasons for a reply without an answer.
UNDECIDED = {
    "abstained": "no member gave an answer",
    "tied": "the best answers are equally good",
    "divided": "the members do not agree enough",
}


def member_metric(metric: str, member: str) -> str:
    """Return the name of a metric of a member's reply.

    >>> member_metric("exact_match", "v1")
    'exact_match[v1]'
    """
    return f"{metric}[{member}]"


def ensemble_facts(facts: Iterable[MetricFacts], members: Iterable[str]) -> tuple[MetricFacts, ...]:
    """Return the facts of everything observed of an ensemble's replies in an experiment with these metrics."""
    names, metrics = tuple(members), tuple(facts)
    if not names:
        return ()
    used = {metric_facts.name for metric_facts in metrics}
    own = [metric_facts for metric_facts in (CONSENSUS, COST) if metric_facts.name not in used]
    answers = [MetricFacts(name=member_metric("answer", name), kind="text", of_ensemble=True) for name in names]
    scores = [_facts(metric_facts, name) for metric_facts in metrics for name in names]
    return (*own, *answers, *scores)


def ensemble_values(reply: Reply) -> Iterator[tuple[str, Value | None, str]]:
    """Yield name, value and reason of an ensemble reply's own values."""
    if reply.consensus is not None:
        yield CONSENSUS.name, reply.consensus, UNDECIDED.get(reply.finish, "")
    if reply.cost_usd is not None:
        yield COST.name, reply.cost_usd, ""
    for name, member_reply in reply.members.items():
        yield (
            member_metric("answer", name),
            member_reply.value,
            "" if member_reply.value is not None else "the member abstained",
        )


def member_score(metric: Metric, reply: Reply, sample: Sample) -> Any:
    """Score a member's reply. A truncated or filtered reply gets the worst value, as an arm's would, if there is one."""
    incomplete = INCOMPLETE.get(reply.finish)
    if incomplete is None:
        return metric.function(reply, sample)
    facts = metric.facts
    worst = facts.low if facts.direction == "higher" else facts.high
    if not math.isfinite(worst):
        return NotApplicable(incomplete)
    return bool(worst) if facts.kind == "binary" else worst


async def score_members(
    metrics: Sequence[Metric], outcome: Outcome, reply: Reply, sample: Sample, scored: Scored
) -> None:
    """Add an ensemble's own values, unless the suite scores them itself, and the metrics of each member's reply."""
    if not reply.members:
        return
    observations, lost = scored
    lost.extend(_lost_scores(metrics, outcome, reply))
    names = {score.metric for score in observations} | {score.metric for score in lost}
    observations.extend(Observation(outcome.unit, *own) for own in ensemble_values(reply) if own[0] not in names)
    for member, answered in reply.members.items():
        own_metrics = [_of_member(metric, member) for metric in metrics]
        token = set_scored_reply(current_reply()._replace(member=member))
        try:
            await apply_metrics(own_metrics, outcome, answered, sample, scored)
        finally:
            reset_scored_reply(token)


def _lost_scores(metrics: Sequence[Metric], outcome: Outcome, reply: Reply) -> Iterator[Lost]:
    """Yield a lost score for every metric of a member that gave no reply."""
    for member, why in reply.lost_members.items():
        for metric in metrics:
            # A missing score would look inapplicable; a lost one leaves the member's targets undecided.
            yield Lost(outcome.unit, member_metric(metric.name, member), "member", f"member {member!r}: {why}")


def _of_member(metric: Metric, member: str) -> Metric:
    return replace(metric, function=partial(member_score, metric), facts=_facts(metric.facts, member))


def _facts(facts: MetricFacts, member: str) -> MetricFacts:
    return replace(facts, name=member_metric(facts.name, member), of_ensemble=True)


decides = False  # no claim of it can fail the session

_UNKNOWN = Proportion(value=None, interval=None, note="no sample was answered by all")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPair:
    """Errors of two members of an ensemble, on the samples that both answered."""

    first: str
    second: str
    n: int
    disagreement: Proportion
    """One is right and the other wrong."""
    double_fault: Proportion
    """The share of samples on which both are wrong."""
    error_correlation: Proportion
    """Phi: 0 when they err independently, 1 when they err on the same samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """An ensemble compared with its members, by one binary metric, on the samples that all of them answered."""

    arm: str
    metric: str
    n: int
    accuracies: Mapping[str, Proportion]
    """Member's name -> its accuracy; empty if no sample has a reply of every member."""
    best: str | None
    """The most accurate member. It was chosen by these samples, which flatters it."""
    oracle: Proportion
    """The share of samples on which some member is right, which a perfect choice between them would reach."""
    ensemble: Proportion
    pairs: tuple[MemberPair, ...]
    note: str = ""


def compute(inputs: SectionInputs) -> tuple[Diversity, ...] | None:
    """Return one record for each ensemble and each binary metric that at least two of its members have."""
    arms = zip(inputs.plan.arms, inputs.answers, strict=True)
    return (
        tuple(diversity for arm, answers in arms if arm.members for diversity in _diversities(inputs, arm, answers))
        or None
    )


def claims(diversities: Sequence[Diversity]) -> Sequence[Claim]:
    """Return no claims."""
    return ()


def view(diversities: Sequence[Diversity], claims: Sequence[Claim]) -> View:
    """Return two tables: each ensemble with its best member, and each pair of members."""
    return View(
        title="Ensembles",
        tables=(_levels(diversities), _pairs(diversities)),
        notes=tuple(note for diversity in diversities for note in _notes(diversity)),
        document=[_document(diversity) for diversity in diversities],
    )


def _diversities(inputs: SectionInputs, arm: Arm, answers: ArmOutcomes) -> Iterator[Diversity]:
    repeats = inputs.plan.draws(inputs.plan.arms.index(arm)).size

    def correct(name: str) -> Floats:
        scores = scores_by_repeat(inputs.facts[name], answers, samples=inputs.samples, repeats=repeats)
        return scores if inputs.facts[name].direction == "higher" else 1 - scores

    for metric, facts in inputs.facts.items():
        names = [name for name in arm.members if member_metric(metric, name) in answers.scores]
        if facts.kind == "binary" and not facts.of_ensemble and len(names) > 1:
            members = np.stack([correct(member_metric(metric, name)) for name in names])
            diversity = stats.member_diversity(members, correct(metric), clusters=inputs.clusters, alpha=inputs.alpha)
            yield _with_names(diversity, arm.name, metric, names)


def _with_names(result: stats.DiversityResult, arm: str, metric: str, names: list[str]) -> Diversity:
    return Diversity(
        arm=arm,
        metric=metric,
        n=result.n,
        accuracies={name: _proportion(share) for name, share in zip(names, result.members, strict=False)},
        best=None if result.best is None else names[result.best],
        oracle=_proportion(result.oracle),
        ensemble=_proportion(result.combined),
        pairs=tuple(
            MemberPair(
                first=names[pair.first],
                second=names[pair.second],
                n=pair.n,
                disagreement=_proportion(pair.disagreement),
                double_fault=_proportion(pair.double_fault),
                error_correlation=Proportion(
                    value=pair.correlation.value, interval=pair.correlation.interval, note=pair.correlation.note
                ),
            )
            for pair in result.pairs
        ),
        note=result.note,
    )


def _proportion(result: stats.EstimateResult | None) -> Proportion:
    return _UNKNOWN if result is None else Proportion(value=result.estimate, interval=result.interval, note=result.note)


def _levels(diversities: Sequence[Diversity]) -> Table:
    rows = tuple(Row(cells=_level_cells(diversity)) for diversity in diversities)
    heads = ("ensemble", "metric", "accuracy", "best member", "accuracy of the best", "some member right", "n")
    return Table(title="Ensembles and their best members", heads=heads, rows=rows, numbers=("n",), verbosity=1)


def _level_cells(diversity: Diversity) -> tuple[str, ...]:
    best = "-" if diversity.best is None else _cell(diversity.accuracies[diversity.best])
    accuracy, oracle = _cell(diversity.ensemble), _cell(diversity.oracle)
    return diversity.arm, diversity.metric, accuracy, diversity.best or "-", best, oracle, f"{diversity.n:,}"


def _pairs(diversities: Sequence[Diversity]) -> Table:
    rows = tuple(Row(cells=_pair_cells(diversity, pair)) for diversity in diversities for pair in diversity.pairs)
    heads = ("members", "ensemble", "metric", "disagreement", "both wrong", "error correlation", "n")
    return Table(title="Members of the ensembles, pair by pair", heads=heads, rows=rows, numbers=("n",), verbosity=1)


def _pair_cells(diversity: Diversity, pair: MemberPair) -> tuple[str, ...]:
    shares = (pair.disagreement, pair.double_fault, pair.error_correlation)
    return f"{pair.first}, {pair.second}", diversity.arm, diversity.metric, *map(_cell, shares), f"{pair.n:,}"


def _cell(share: Proportion) -> str:
    return "-" if share.value is None else with_interval(share.value, share.interval)


def _notes(diversity: Diversity) -> Iterator[Note]:
    about = f"members of {diversity.arm} by {diversity.metric}"
    if diversity.best is None:
        yield Note(text=f"{about}: {diversity.oracle.note}", verbosity=1)
    if diversity.note:
        yield Note(text=f"{about}: {diversity.note}", verbosity=1)
    for pair in diversity.pairs:
        if pair.error_correlation.note:
            yield Note(text=f"{about}: {pair.first}, {pair.second}: {pair.error_correlation.note}", verbosity=1)


def _document(diversity: Diversity) -> dict[str, Any]:
    return {
        "arm": diversity.arm,
        "metric": diversity.metric,
        "n": diversity.n,
        "members": [{"name": name, **_share(share)} for name, share in diversity.accuracies.items()],
        "best": diversity.best,
        "oracle": _share(diversity.oracle),
        "ensemble": _share(diversity.ensemble),
        "pairs": [_pair_document(pair) for pair in diversity.pairs],
        "note": diversity.note,
    }


def _pair_document(pair: MemberPair) -> dict[str, Any]:
    return {
        "first": pair.first,
        "second": pair.second,
        "n": pair.n,
        "disagreement": _share(pair.disagreement),
        "double_fault": _share(pair.double_fault),
        "error_correlation": _share(pair.error_correlation),
    }


def _share(share: Proportion) -> dict[str, Any]:
    return {"value": share.value, **interval_ends(share.interval), "note": share.note}
