"""Verdicts in words: a sentence with the numbers of each, one sentence on all, and GitHub's annotations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_crucible.records import Analysis, Claim, Comparison, Estimate, Run, TargetResult, Verdict
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.report.printable import printable, printable_cell
from pytest_crucible.stats.interval import Interval
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
    if estimate.is_known and estimate.value is not None and estimate.interval is None:
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


Pair = tuple[Analysis, Comparison]


def plain_sentence(run: Run) -> str:
    """Return `v2 is better than v1 by 12 points [8, 16] (exact_match); all 4 gates hold.`

    "Is better" and "is worse" are said only of what is proven, whatever the lost and the excluded samples are.
    """
    finding, gates = _finding(run), _gates(run)
    text = "; ".join(part for part in (finding, gates) if part)
    arms = [arm for analysis in run.experiments for arm in analysis.plan.arms]
    if any(arm.simulated for arm in arms):
        text = f"With scripted replies, {text}"
    elif not text.startswith(tuple(arm.name for arm in arms)):
        text = text[0].upper() + text[1:]
    return printable_cell(f"{text}.")


def _finding(run: Run) -> str:
    pairs = [
        (analysis, comparison)
        for analysis in run.experiments
        for comparison in analysis.comparisons
        if comparison.contrast.decides
    ]
    if len(pairs) == 1:
        return _one_comparison(run, *pairs[0])
    if pairs:
        return _many_comparisons(run, pairs)
    targets = [result for analysis in run.experiments for result in analysis.targets]
    if len(targets) == 1 and targets[0].estimate.value is not None:
        estimate = targets[0].estimate
        return f"{estimate.arm} has {targets[0].target.expression} {estimate_text(estimate)} on {_samples(estimate.n)}"
    return ""


def _one_comparison(run: Run, analysis: Analysis, pair: Comparison) -> str:
    candidate, baseline, measure = pair.candidate, pair.contrast.baseline, pair.contrast.expression
    if pair.difference is None:
        return f"{candidate} and {baseline} are not compared: no sample has a score of both ({measure})"
    amount = _amount(analysis, pair)
    on = f" ({measure})"
    if not _is_directed(analysis, pair):
        return f"{candidate} minus {baseline} is {amount} on {_samples(pair.pairs)}{on}"
    if pair.difference == 0:
        return f"{candidate} and {baseline} are equal on average on {_samples(pair.pairs)}{on}"
    word = "better" if pair.difference > 0 else "worse"
    if _is_proven(run, analysis, pair, among=1):
        return f"{candidate} is {word} than {baseline} by {amount}{on}"
    unproven = f"that {candidate} is {word} is not proven"
    return f"{candidate} did {word} than {baseline} on {_samples(pair.pairs)}, by {amount}{on}, but {unproven}"


def _many_comparisons(run: Run, pairs: Sequence[Pair]) -> str:
    """Count comparisons by what is proven; with the names of the arms if they are the same two in all."""
    names = {(pair.candidate, pair.contrast.baseline) for _, pair in pairs}
    candidate, baseline = names.pop() if len(names) == 1 else ("the candidate", "its baseline")
    proven = [
        pair
        for analysis, pair in pairs
        if _is_directed(analysis, pair) and _is_proven(run, analysis, pair, among=len(pairs))
    ]
    better = sum((pair.difference or 0.0) > 0 for pair in proven)
    counts = ((better, "better"), (len(proven) - better, "worse"))
    parts = [f"{word} than {baseline} in {count:,} of {len(pairs):,} comparisons" for count, word in counts if count]
    if not parts:
        return f"in none of {len(pairs):,} comparisons is {candidate} proven better or worse than {baseline}"
    return f"{candidate} is proven {' and '.join(parts)}"


def _is_proven(run: Run, analysis: Analysis, pair: Comparison, *, among: int) -> bool:
    """Return whether the sign of the difference is proven, on all samples that count and whatever the lost ones are."""
    if not analysis.finished or pair.suite_error or pair.beyond_reach is not None or pair.interval is None:
        return False
    readings = [pair.evidence, *([pair.reduced.evidence] if pair.reduced else [])]
    # Margins share no error rate, so that their p-values are not adjusted; that one of several arms is better must be.
    p_values = [pair.proof_adjusted if pair.contrast.shares_alpha else pair.proof_p]
    p_values += [evidence.weakest_proof_p for evidence in readings]
    most = run.alpha if pair.contrast.shares_alpha else run.alpha / among
    excludes_0 = pair.interval.low > 0 or pair.interval.high < 0
    return excludes_0 and all(p_value is not None and p_value <= most for p_value in p_values)


def _is_directed(analysis: Analysis, pair: Comparison) -> bool:
    facts = analysis.plan.facts.get(pair.contrast.metric)
    return facts is None or facts.is_directed


def _amount(analysis: Analysis, pair: Comparison) -> str:
    """Return the size of a difference with its interval: shares in points; a directed one without its sign."""
    if pair.ratio is not None or pair.difference is None:
        return difference_text(pair)
    sign = -1.0 if pair.difference < 0 and _is_directed(analysis, pair) else 1.0
    value, interval = sign * pair.difference, pair.interval
    if interval is not None and sign < 0:
        interval = replace(interval, low=-interval.high, high=-interval.low)
    text = _in_points(value, interval) if _is_share(analysis, pair) else with_interval(value, interval)
    return text if interval is None or interval.level == 0.95 else f"{text} ({interval.level * 100:.4g} %)"


def _in_points(value: float, interval: Interval | None) -> str:
    """Return `12 points [8, 16]`; no number that is not 0 is shown as 0, because it would seem to be on neither side."""
    ends = () if interval is None else (interval.low, interval.high)
    numbers = [100 * number for number in (value, *ends)]
    decimals = max((max(1, math.ceil(-math.log10(abs(number)))) for number in numbers if number), default=1)
    texts = [f"{number + 0.0:.{min(decimals, 6)}f}" for number in numbers]
    if all(text.endswith(".0") for text in texts):
        texts = [text.removesuffix(".0") for text in texts]
    return f"{texts[0]} points [{', '.join(texts[1:])}]" if ends else f"{texts[0]} points [no interval]"


def _is_share(analysis: Analysis, pair: Comparison) -> bool:
    facts = analysis.plan.facts.get(pair.contrast.metric)
    is_unit = facts is not None and (facts.low, facts.high) == (0.0, 1.0)
    kind = analysis.kinds.get(pair.contrast.metric)
    return pair.contrast.statistic == "rate" or (pair.contrast.statistic == "mean" and (is_unit or kind == "binary"))


def _gates(run: Run) -> str:
    """Return `all 4 gates hold`, or how many hold, are missed, undecided, and errors in the suite."""
    verdicts = run.verdicts
    if not verdicts:
        return "no gate was decided"
    states = ["in error" if verdict.suite_error else verdict.state for verdict in verdicts]
    met = states.count("met")
    if met == len(states):
        return {1: "the gate holds", 2: "both gates hold"}.get(met, f"all {met:,} gates hold")
    if len(states) == 1:
        return f"the gate is {states[0]}"
    rest = [
        f"{count:,} {'is' if count == 1 else 'are'} {state}"
        for state in ("missed", "undecided", "in error")
        if (count := states.count(state))
    ]
    hold = (
        f"{met:,} of {len(states):,} gates {'holds' if met == 1 else 'hold'}"
        if met
        else f"none of {len(states):,} gates holds"
    )
    return f"{hold}: {', '.join(rest)}" if not met else f"{hold}, {', '.join(rest)}"


def _samples(n: int) -> str:
    return quantity(n, "sample")


def annotation_lines(run: Run, environment: Mapping[str, str], *, undecided_fails: bool) -> Iterator[str]:
    """Yield `::error file=...,line=...::...` for each verdict that fails the job.

    A verdict that is not met but does not fail it gives `::warning`. Outside GitHub Actions there are no lines.
    """
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
    for verdict in run.verdicts:
        if verdict.state != "met" or verdict.suite_error:
            plan = analyses[verdict.nodeid].plan
            fails = verdict.state == "missed" or verdict.suite_error or undecided_fails
            text = sentence(verdict, analyses[verdict.nodeid], run.family_size)
            message = _escape_message(f"{verdict.subject}: {printable(text)}")
            where = f"file={_property(plan.path)},line={plan.line + 1},title={_property(plan.nodeid)}"
            yield f"::{'error' if fails else 'warning'} {where}::{message}"


def _escape_message(text: str) -> str:
    """Return the text as the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    # A colon would end the properties of a workflow command, and a comma would start the next one.
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")
