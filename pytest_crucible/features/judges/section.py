"""LLM judges: whether they prefer the answer shown first or second, and how far people, and their own votes, agree with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible import stats
from pytest_crucible.metrics.models.votes import is_tied
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    HUMAN,
    ORDERS,
    VOTES,
    Arm,
    ArmOutcomes,
    Claim,
    Note,
    Proportion,
    View,
)
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.agreement.kappa import weighted_share
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import p_equals, with_interval

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceBias:
    """Verdicts on one arm's replies that changed when the order of the two answers was swapped."""

    arm: str
    metric: str
    n: int
    """Replies that were judged in both orders."""
    consistent: Proportion
    """The share of these replies that got one verdict in both orders."""
    towards_first: int
    """Replies whose verdict moved, on swapping, with the place that is shown first."""
    towards_second: int
    p_value: float
    """Exact sign test of "neither place is preferred"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanAgreement:
    """Agreement of a judge's levels with those that people gave the same replies."""

    arm: str
    metric: str
    n: int
    """Replies with a person's label."""
    raw: Proportion
    """The share of these replies that got the person's level."""
    kappa: Proportion
    """Cohen's, without weights of categories."""
    is_weighted: bool = False
    """The replies were labelled with unequal probabilities, for which weights correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAgreement:
    """Agreement of a judge's votes on one question with each other."""

    arm: str
    metric: str
    n: int
    """Replies that were put to votes."""
    votes: int
    """Votes on a question."""
    unanimous: Proportion
    """The share of these replies on which all votes were readable and equal."""
    tied: int
    """Replies on which votes tied."""
    unreadable: int
    """Votes without a readable verdict."""


JudgeQuality = PlaceBias | HumanAgreement | VoteAgreement


def compute(inputs: SectionInputs) -> tuple[JudgeQuality, ...] | None:
    """Return one record for each judged metric of each arm; None if no judge left evidence about itself."""
    return (
        tuple(
            quality
            for arm, answers in zip(inputs.plan.arms, inputs.answers, strict=True)
            for quality in _qualities(arm, answers, level=1 - inputs.alpha)
        )
        or None
    )


def claims(qualities: Sequence[JudgeQuality]) -> Sequence[Claim]:
    """Return no claims: a p-value of a place bias is shown, and decides nothing."""
    return ()


def view(qualities: Sequence[JudgeQuality], claims: Sequence[Claim]) -> View:
    """Return a note for each judged metric and arm: a score is only as good as its judge."""
    return View(
        title="Judges",
        notes=tuple(
            Note(text=f"judge of {quality.metric}, {quality.arm}: {_sentence(quality)}") for quality in qualities
        ),
        document=[_document(quality) for quality in qualities],
    )


def _qualities(arm: Arm, answers: ArmOutcomes, *, level: float) -> Iterator[JudgeQuality]:
    """Yield the judges' side values, in the first repeat of each sample."""
    for name, rows in answers.judge_texts.items():
        values = [json.loads(text) for _, repeat, text in rows if repeat == 0]
        try:
            if not values:
                continue
            if name.endswith(ORDERS):
                yield _place_bias(arm.name, name.removesuffix(ORDERS), values, level)
            elif name.endswith(VOTES):
                yield _vote_agreement(arm.name, name.removesuffix(VOTES), values, level)
            else:
                yield measure_agreement(arm.name, name.removesuffix(HUMAN), values, level)
        # One judged pair shows nothing about the judge; the scores themselves are reported elsewhere.
        except NotEnoughData:
            continue


def _place_bias(arm: str, metric: str, values: Sequence[Sequence[float]], level: float) -> PlaceBias:
    bias = stats.position_bias([pair[0] for pair in values], [pair[1] for pair in values], level=level)
    return PlaceBias(
        arm=arm,
        metric=metric,
        n=bias.pairs,
        consistent=Proportion(value=bias.consistency, interval=bias.consistency_interval),
        towards_first=bias.towards_first,
        towards_second=bias.towards_second,
        p_value=bias.p_value,
    )


def measure_agreement(arm: str, metric: str, values: Sequence[Sequence[Any]], level: float) -> HumanAgreement:
    """Return how often a judge gives a person's level. Of each reply: both levels, the value of the person's, and its weight."""
    # Labels in the metadata have no weight.
    weights = [value[3] if len(value) > 3 else 1.0 for value in values]
    is_weighted = len(set(weights)) > 1
    judged, human = [value[0] for value in values], [value[1] for value in values]
    kappa = stats.cohen_kappa(judged, human, level=level, sample_weights=weights if is_weighted else None)
    same = [value[0] == value[1] for value in values]
    if is_weighted:
        share, raw = weighted_share(same, weights, level=level)
    else:
        share, raw = sum(same) / len(same), stats.wilson_interval(sum(same), len(same), level=level)
    return HumanAgreement(
        arm=arm,
        metric=metric,
        n=len(values),
        raw=Proportion(value=share, interval=raw),
        kappa=Proportion(value=kappa.value, interval=kappa.interval),
        is_weighted=is_weighted,
    )


def _vote_agreement(
    arm: str, metric: str, values: Sequence[Sequence[Sequence[str | None]]], level: float
) -> VoteAgreement:
    unanimous = sum(all(len(set(votes)) == 1 and None not in votes for votes in reply) for reply in values)
    return VoteAgreement(
        arm=arm,
        metric=metric,
        n=len(values),
        votes=len(values[0][0]),
        unanimous=Proportion(
            value=unanimous / len(values), interval=stats.wilson_interval(unanimous, len(values), level=level)
        ),
        tied=sum(any(map(is_tied, reply)) for reply in values),
        unreadable=sum(list(votes).count(None) for reply in values for votes in reply),
    )


def _sentence(quality: JudgeQuality) -> str:
    if isinstance(quality, VoteAgreement):
        counts = (f"{quality.tied:,} tied", f"{quality.unreadable:,} unreadable" if quality.unreadable else "")
        same = with_interval(quality.unanimous.value, quality.unanimous.interval)
        return f"all {quality.votes} votes equal {same}, {', '.join(filter(None, counts))}, n={quality.n:,}"
    if isinstance(quality, HumanAgreement):
        kappa = (
            "undefined" if quality.kappa.value is None else with_interval(quality.kappa.value, quality.kappa.interval)
        )
        by = ", weighted by how replies were chosen" if quality.is_weighted else ""
        return f"as people {with_interval(quality.raw.value, quality.raw.interval)}, kappa {kappa}, n={quality.n:,}{by}"
    moved = f"{quality.towards_first:,} moved with the first place, {quality.towards_second:,} with the second"
    same = with_interval(quality.consistent.value, quality.consistent.interval)
    return f"same verdict in both orders {same}, {moved} ({p_equals(quality.p_value)}), n={quality.n:,}"


def _document(quality: JudgeQuality) -> dict[str, Any]:
    about = {"arm": quality.arm, "metric": quality.metric, "n": quality.n}
    if isinstance(quality, VoteAgreement):
        counts = {"votes": quality.votes, "tied": quality.tied, "unreadable": quality.unreadable}
        return {**about, "kind": "votes", "unanimous": _proportion(quality.unanimous), **counts}
    if isinstance(quality, HumanAgreement):
        shares = {"raw": _proportion(quality.raw), "kappa": _proportion(quality.kappa)}
        return {**about, "kind": "human, weighted" if quality.is_weighted else "human", **shares}
    moved = {
        "towards_first": quality.towards_first,
        "towards_second": quality.towards_second,
        "p_value": quality.p_value,
    }
    return {**about, "kind": "place", "consistent": _proportion(quality.consistent), **moved}


def _proportion(share: Proportion) -> Mapping[str, float | None]:
    return {"value": share.value, **interval_ends(share.interval)}
