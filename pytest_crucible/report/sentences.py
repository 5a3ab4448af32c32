"""A verdict as one sentence, with the numbers that it rests on: for failure reports, short summaries and JUnit files."""

from __future__ import annotations

from pytest_crucible.numerals import number, p_value, with_interval
from pytest_crucible.records import Analysis, Comparison, Estimate, Interval, TargetResult, Verdict


def sentence(verdict: Verdict, analysis: Analysis) -> str:
    """`missed: 0.347 [0.322, 0.373] n=1,319; the one-sided bound 0.369 rules it out`."""
    told = _target(verdict, analysis) if verdict.kind == "target" else _comparison(verdict, analysis)
    simulated = " (simulated)" if any(arm.simulated for arm in analysis.plan.arms) else ""
    state = "mistake in the suite" if verdict.mistake else verdict.state
    return f"{state}{simulated}: {'; '.join(part for part in (told, verdict.reason) if part)}"


def estimated(one: Estimate) -> str:
    """`0.563 [0.536, 0.589]`; a training's number is known rather than estimated: `0.987 [one training]`."""
    if one.statistic == "training" and one.value is not None:
        return f"{number(one.value)} [{one.method}]"
    return with_interval(one.value, one.interval)


def evidence(verdict: Verdict, analysis: Analysis) -> dict[str, float | int | None]:
    """The numbers that a verdict rests on: estimate, low, high, n, lost, and the p of a comparison. Empty for a mistake."""
    if verdict.kind == "target":
        found = _target_result(verdict, analysis)
        if found is None:
            return {}
        one = found.estimate
        return {"estimate": one.value, **_ends(one.interval), "n": one.n, "lost": one.lost}
    pair = _compared(verdict, analysis)
    if pair is None:
        return {}
    numbers = {"estimate": pair.difference, **_ends(pair.interval), "n": pair.pairs, "lost": pair.lost}
    return {**numbers, "p_adjusted": pair.p_adjusted}


def _ends(interval: Interval | None) -> dict[str, float | None]:
    return {"low": interval.low if interval else None, "high": interval.high if interval else None}


def _target(verdict: Verdict, analysis: Analysis) -> str:
    one = _target_result(verdict, analysis)
    if one is None or (one.estimate.value is None and one.note):  # of a training that nothing is known of, not even n
        return ""
    return f"{estimated(one.estimate)} n={one.estimate.n:,}"


def _comparison(verdict: Verdict, analysis: Analysis) -> str:
    one = _compared(verdict, analysis)
    if one is None:
        return ""
    shown = with_interval(one.difference, one.interval, sign=True)
    p = "" if one.contrast.margin is not None else f", adjusted p {p_value(one.p_adjusted)}"
    return f"{shown} n={one.pairs:,}{p}"


def _target_result(verdict: Verdict, analysis: Analysis) -> TargetResult | None:
    return next((one for one in analysis.targets if one.target.text == verdict.subject), None)


def _compared(verdict: Verdict, analysis: Analysis) -> Comparison | None:
    subjects = {one.contrast.subject(one.candidate): one for one in analysis.comparisons}
    return subjects.get(verdict.subject)
