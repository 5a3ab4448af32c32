"""A verdict as one sentence, with the numbers that it rests on: for failure reports, short summaries and JUnit files."""

from __future__ import annotations

from pytest_crucible.numerals import number, p_value, with_interval
from pytest_crucible.records import Analysis, Estimate, Verdict


def sentence(verdict: Verdict, analysis: Analysis) -> str:
    """`missed: 0.347 [0.322, 0.373] n=1,319; the one-sided bound 0.369 rules it out`."""
    evidence = _target(verdict, analysis) if verdict.kind == "target" else _comparison(verdict, analysis)
    simulated = " (simulated)" if any(arm.simulated for arm in analysis.plan.arms) else ""
    state = "mistake in the suite" if verdict.mistake else verdict.state
    return f"{state}{simulated}: {'; '.join(part for part in (evidence, verdict.reason) if part)}"


def estimated(one: Estimate) -> str:
    """`0.563 [0.536, 0.589]`; a training's number is known rather than estimated: `0.987 [one training]`."""
    if one.statistic == "training" and one.value is not None:
        return f"{number(one.value)} [{one.method}]"
    return with_interval(one.value, one.interval)


def _target(verdict: Verdict, analysis: Analysis) -> str:
    for one in analysis.targets:
        if one.target.text == verdict.subject:
            estimate = one.estimate
            if estimate.value is None and one.note:  # of a training that nothing is known of, not even n matters
                return ""
            return f"{estimated(estimate)} n={estimate.n:,}"
    return ""


def _comparison(verdict: Verdict, analysis: Analysis) -> str:
    for one in analysis.comparisons:
        if one.contrast.subject(one.candidate) == verdict.subject:
            shown = with_interval(one.difference, one.interval, sign=True)
            p = "" if one.contrast.margin is not None else f", adjusted p {p_value(one.p_adjusted)}"
            return f"{shown} n={one.pairs:,}{p}"
    return ""
