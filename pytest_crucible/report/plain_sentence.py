"""The result of a run as one sentence in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible.records import Analysis, Comparison, Run
from pytest_crucible.records.views import experiment_names
from pytest_crucible.report.printable import printable_cell
from pytest_crucible.report.verdicts import difference_text, estimate_text
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import quantity, with_interval

Pair = tuple[Analysis, Comparison]
# More numbers are a table, which follows.
MOST_AMOUNTS = 3


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
    every = [(analysis, comparison) for analysis in run.experiments for comparison in analysis.comparisons]
    # Without a known direction nothing is decided; a difference is stated all the same.
    pairs = [pair for pair in every if pair[1].contrast.decides] or [pair for pair in every if not _is_directed(*pair)]
    if len(pairs) == 1:
        return _one_comparison(run, *pairs[0])
    if pairs:
        return _many_comparisons(run, pairs)
    targets = [result for analysis in run.experiments for result in analysis.targets]
    if len(targets) == 1 and targets[0].estimate.value is not None:
        estimate = targets[0].estimate
        return f"{estimate.arm} has {targets[0].target.expression} {estimate_text(estimate)} on {quantity(estimate.n, 'sample')}"
    return ""


def _one_comparison(run: Run, analysis: Analysis, pair: Comparison) -> str:
    candidate, baseline, measure = pair.candidate, pair.contrast.baseline, pair.contrast.expression
    if pair.difference is None:
        return f"{candidate} and {baseline} are not compared: no sample has a score of both ({measure})"
    amount = _amount(analysis, pair)
    on = f" ({measure})"
    if not _is_directed(analysis, pair):
        return f"{candidate} minus {baseline} is {amount} on {quantity(pair.pairs, 'sample')}{on}"
    if pair.difference == 0:
        return f"{candidate} and {baseline} are equal on average on {quantity(pair.pairs, 'sample')}{on}"
    word = "better" if pair.difference > 0 else "worse"
    if _is_proven(run, analysis, pair, among=1):
        return f"{candidate} is {word} than {baseline} by {amount}{on}"
    unproven = f"that {candidate} is {word} is not proven"
    return (
        f"{candidate} did {word} than {baseline} on {quantity(pair.pairs, 'sample')}, by {amount}{on}, but {unproven}"
    )


def _many_comparisons(run: Run, pairs: Sequence[Pair]) -> str:
    names = {(pair.candidate, pair.contrast.baseline) for _, pair in pairs}
    candidate, baseline = names.pop() if len(names) == 1 else ("the candidate", "its baseline")
    if not any(_is_directed(*pair) for pair in pairs):
        amounts = f"{candidate} minus {baseline}: {_listed_amounts(pairs)}"
        return f"the better direction is known for none of {len(pairs):,} metrics ({amounts})"
    proven = [
        (analysis, pair)
        for analysis, pair in pairs
        if _is_directed(analysis, pair) and _is_proven(run, analysis, pair, among=len(pairs))
    ]
    better = sum((pair.difference or 0.0) > 0 for _, pair in proven)
    counts = ((better, "better"), (len(proven) - better, "worse"))
    parts = [f"{word} than {baseline} in {count:,} of {len(pairs):,} comparisons" for count, word in counts if count]
    if not parts:
        none = f"in none of {len(pairs):,} comparisons is {candidate} proven better or worse than {baseline}"
        return f"{none} ({_listed_amounts(pairs)})"
    return f"{candidate} is proven {' and '.join(parts)} ({_listed_amounts(proven)})"


def _listed_amounts(pairs: Sequence[Pair]) -> str:
    """Return `match better by 45 points [6, 78], steps worse by 3.1 [0.2, 6.0] and 2 more`."""
    names = experiment_names({analysis.plan.nodeid for analysis, _ in pairs})
    texts = []
    for analysis, pair in pairs[:MOST_AMOUNTS]:
        word = "better" if (pair.difference or 0.0) > 0 else "worse"
        is_ordered = pair.difference and _is_directed(analysis, pair)
        amount = "no difference" if not pair.difference else _amount(analysis, pair)
        task = f"{names[analysis.plan.nodeid]}: " if len(names) > 1 else ""
        texts.append(f"{task}{pair.contrast.expression} {f'{word} by ' if is_ordered else ''}{amount}")
    more = len(pairs) - len(texts)
    return ", ".join(texts) + (f" and {more:,} more" if more else "")


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
    is_rate = pair.contrast.statistic == "rate" or pair.contrast.draws is not None
    return is_rate or (pair.contrast.statistic == "mean" and (is_unit or kind == "binary"))


def _gates(run: Run) -> str:
    """Return `all 4 gates hold`, or how many hold, are missed, undecided, and errors in the suite."""
    states = ["in error" if verdict.suite_error else verdict.state for verdict in run.verdicts]
    if not states:
        return "no gate was decided"
    met, total = states.count("met"), len(states)
    if met == total:
        return {1: "the gate holds", 2: "both gates hold"}.get(met, f"all {met:,} gates hold")
    if total == 1:
        return f"the gate is {states[0]}"
    rest = ", ".join(
        f"{count:,} {'is' if count == 1 else 'are'} {state}"
        for state in ("missed", "undecided", "in error")
        if (count := states.count(state))
    )
    if not met:
        return f"none of {total:,} gates holds: {rest}"
    return f"{met:,} of {total:,} gates {'holds' if met == 1 else 'hold'}, {rest}"
