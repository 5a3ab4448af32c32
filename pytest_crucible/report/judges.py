"""What is known of the judges, as terminal lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_crucible.numerals import p_equals, with_interval
from pytest_crucible.records import JUDGE, HumanAgreement, PlaceBias, Run, Share, Usage


def judge_lines(run: Run) -> Iterator[str]:
    """A line for each judged metric and arm: a score is worth what its judge is."""
    for analysis in run.experiments:
        where = f"{analysis.plan.nodeid.partition('::')[2]}: " if len(run.experiments) > 1 else ""
        yield from (f"judge    {where}{one.metric}, {one.arm}: {_sentence(one)}" for one in analysis.judges)


def judge_document(one: PlaceBias | HumanAgreement) -> dict[str, Any]:
    """The keys of docs/reference/json.md."""
    about = {"arm": one.arm, "metric": one.metric, "n": one.n}
    if isinstance(one, HumanAgreement):
        return {**about, "kind": "human", "raw": _share(one.raw), "kappa": _share(one.kappa)}
    moved = {"towards_first": one.towards_first, "towards_second": one.towards_second, "p_value": one.p_value}
    return {**about, "kind": "place", "consistent": _share(one.consistent), **moved}


def judge_usage_document(usage: Usage) -> dict[str, Any]:
    """What it took to ask a judge."""
    return {
        "judge": usage.arm.removeprefix(JUDGE),
        "sent": usage.sent,
        "answered": usage.answered,
        "cached": usage.cached,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
    }


def _sentence(one: PlaceBias | HumanAgreement) -> str:
    if isinstance(one, HumanAgreement):
        kappa = "undefined" if one.kappa.value is None else with_interval(one.kappa.value, one.kappa.interval)
        return f"as people {with_interval(one.raw.value, one.raw.interval)}, kappa {kappa}, n={one.n:,}"
    moved = f"{one.towards_first:,} moved with the first place, {one.towards_second:,} with the second"
    same = with_interval(one.consistent.value, one.consistent.interval)
    return f"same verdict in both orders {same}, {moved} ({p_equals(one.p_value)}), n={one.n:,}"


def _share(share: Share) -> Mapping[str, float | None]:
    interval = share.interval
    return {
        "value": share.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }
