"""A verdict as one sentence with its numbers, for failure reports, short summaries and JUnit files."""

from __future__ import annotations

from pytest_crucible.records import Analysis, Claim, Comparison, Estimate, TargetResult, Verdict
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.stats.number_format import number, p_value, quantity, ratio_with_interval, with_interval


def sentence(verdict: Verdict, analysis: Analysis, family_size: int) -> str:
    """Return `missed: 0.347 [0.322, 0.373] n=1,319; one-sided bound 0.369 < target 0.80`.

    A p-value is called adjusted where the family has other members to adjust it for.
    """
    numbers = {"target": _target, "comparison": _comparison, "claim": _claim}[verdict.kind](
        verdict, analysis, "adjusted p" if family_size > 1 else "p"
    )
    simulated = " (simulated)" if any(arm.simulated for arm in analysis.plan.arms) else ""
    state = "error in the suite" if verdict.suite_error else verdict.state
    return f"{state}{simulated}: {'; '.join(part for part in (numbers, verdict.reason) if part)}"


def estimate_text(estimate: Estimate) -> str:
    """Return `0.563 [0.536, 0.589]`; of one training, whose number is known, `0.987 [one training]`."""
    if estimate.is_of_training and estimate.value is not None and estimate.interval is None:
        return f"{number(estimate.value)} [{estimate.method}]"
    return with_interval(estimate.value, estimate.interval)


def difference_text(comparison: Comparison) -> str:
    """Return `+0.128 [+0.078, +0.178]`, or of a ratio of candidate to baseline `1.17x [1.10, 1.25]`."""
    ratio, interval = comparison.ratio, comparison.interval
    # Two one-sided bounds at 5 % are an interval at 90 %, under a head that says 95 %.
    level = f" ({interval.level * 100:.4g} %)" if interval and comparison.contrast.decided_by_bounds else ""
    if ratio is None:
        return with_interval(comparison.difference, interval, sign=True) + level
    value, _, ends = ratio_with_interval(ratio.value, ratio.interval).partition(" ")
    return f"{value}x {ends}{level}"


def evidence(verdict: Verdict, analysis: Analysis) -> dict[str, float | int | None]:
    """Return estimate, low, high, n and lost of a verdict, and the p of a comparison; empty for an error in the suite."""
    if verdict.kind == "target":
        result = _target_result(verdict, analysis)
        if result is None:
            return {}
        estimate = result.estimate
        return {"estimate": estimate.value, **interval_ends(estimate.interval), "n": estimate.n, "lost": estimate.lost}
    if verdict.kind == "claim":
        claim = find_claim(verdict, analysis)
        return {} if claim is None else {"p_adjusted": claim.p_adjusted}
    pair = _find_comparison(verdict, analysis)
    if pair is None:
        return {}
    value, interval = (pair.ratio.value, pair.ratio.interval) if pair.ratio else (pair.difference, pair.interval)
    numbers = {"estimate": value, **interval_ends(interval), "n": pair.pairs, "lost": pair.lost}
    return {**numbers, "p_adjusted": pair.p_adjusted}


def _target(verdict: Verdict, analysis: Analysis, _: str) -> str:
    result = _target_result(verdict, analysis)
    # Of a training without a recorded number not even n is known.
    if result is None or (result.estimate.value is None and result.note):
        return ""
    replies = result.estimate.replies
    # n counts samples: without the replies a total of 6 would look like a share of them.
    beside = "" if replies is None else f" ({quantity(replies, 'reply')})"
    return f"{estimate_text(result.estimate)} n={result.estimate.n:,}{beside}"


def _comparison(verdict: Verdict, analysis: Analysis, p_name: str) -> str:
    comparison = _find_comparison(verdict, analysis)
    if comparison is None:
        return ""
    difference = difference_text(comparison)
    p = f", {p_name} {p_value(comparison.p_adjusted)}" if comparison.contrast.shares_alpha else ""
    # An interval at 95 % may exclude 0 where the adjusted p-value proves nothing.
    p += " (interval unadjusted)" if p and p_name != "p" and comparison.interval is not None else ""
    return f"{difference} n={comparison.pairs:,}{p}"


def _target_result(verdict: Verdict, analysis: Analysis) -> TargetResult | None:
    return next((result for result in analysis.targets if result.target.text == verdict.subject), None)


def _find_comparison(verdict: Verdict, analysis: Analysis) -> Comparison | None:
    subjects = {comparison.contrast.subject(comparison.candidate): comparison for comparison in analysis.comparisons}
    return subjects.get(verdict.subject)


def _claim(verdict: Verdict, analysis: Analysis, p_name: str) -> str:
    claim = find_claim(verdict, analysis)
    return "" if claim is None else f"{p_name} {p_value(claim.p_adjusted)}"


def find_claim(verdict: Verdict, analysis: Analysis) -> Claim | None:
    """Return the claim that a verdict is about; None if the section is unknown, or raised."""
    name, _, subject = verdict.subject.partition(": ")
    outcome = analysis.sections.get(name)
    return next((claim for claim in outcome.claims if claim.subject == subject), None) if outcome else None
