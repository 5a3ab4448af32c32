"""The table of one metric of an explained sample: what each segment adds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_crucible.features.explanation.records import Explanation
from pytest_crucible.features.explanation.results import MetricResult
from pytest_crucible.records import Row, Table
from pytest_crucible.report.printable import AN_ID, printable_cell
from pytest_crucible.stats.attribution.deletion import DeletionCurve
from pytest_crucible.stats.attribution.values import Attribution
from pytest_crucible.stats.number_format import quantity

SEGMENT, ALONE = "segment", "left out alone"


def metric_tables(explanation: Explanation, arms: Sequence[str], result: MetricResult) -> list[Table]:
    """Return the table of each arm, and that of the difference to each baseline."""
    tables = [_arm_table(explanation, name, result, number) for number, name in enumerate(arms)]
    tables += [
        _difference_table(explanation, (arms[0], name), result, number) for number, name in enumerate(arms[1:], start=1)
    ]
    return tables


def _arm_table(explanation: Explanation, arm: str, result: MetricResult, number: int) -> Table:
    attribution, metric = result.arms[number], result.facts.name
    whole, empty = score_text(attribution.whole), score_text(attribution.empty)
    heads, rows = _rows(explanation, attribution)
    return Table(
        title=f"{_name(explanation)}, {arm}, {metric}: {whole} with the whole prompt, {empty} with an empty one; "
        f"{_requests_text(explanation, attribution, result, (number,))}",
        heads=heads,
        rows=(*rows, *_interaction_rows(attribution, len(heads))),
        numbers=("Shapley", ALONE),
        note=curve_text(result.curves[number]),
        is_titled=True,
    )


def _difference_table(explanation: Explanation, arms: tuple[str, str], result: MetricResult, number: int) -> Table:
    attribution, of_arms = result.differences[number - 1], (result.arms[0], result.arms[number])
    has_interval = _has_interval(attribution)
    rows = [
        Row(
            cells=(
                f"{k + 1} {label}",
                *(value_text(each.shapley[k]) for each in of_arms),
                value_text(attribution.shapley[k]),
                *([_interval(attribution, k)] if has_interval else []),
            )
        )
        for k, label in enumerate(_labels(explanation))
    ]
    heads = (SEGMENT, f"{arms[0]}", f"{arms[1]}", "difference", *(["95 % together"] if has_interval else []))
    difference = value_text(attribution.whole - attribution.empty)
    return Table(
        title=f"{_name(explanation)}, {arms[0]} minus {arms[1]}, {result.facts.name}: the segments add {difference}; "
        f"{_requests_text(explanation, attribution, result, (0, number))}",
        heads=heads,
        rows=tuple(rows),
        numbers=heads[1:4],
        is_titled=True,
    )


def _rows(explanation: Explanation, attribution: Attribution) -> tuple[tuple[str, ...], list[Row]]:
    has_interval = _has_interval(attribution)
    heads = (SEGMENT, "Shapley", *(["95 % together"] if has_interval else []), ALONE)
    rows = [
        Row(
            cells=(
                f"{k + 1} {label}",
                value_text(attribution.shapley[k]),
                *([_interval(attribution, k)] if has_interval else []),
                value_text(attribution.left_out[k]),
            )
        )
        for k, label in enumerate(_labels(explanation))
    ]
    return heads, rows


def _interaction_rows(attribution: Attribution, columns: int) -> list[Row]:
    """Return a row for each interaction that is not 0, the largest first."""
    pairs = sorted(attribution.interactions, key=lambda pair: -abs(pair[2]))
    visible = [pair for pair in pairs if value_text(pair[2]).strip("+-0.")]
    return [
        Row(cells=(f"interaction of {i + 1} and {j + 1}", value_text(value), *[" "] * (columns - 2)))
        for i, j, value in visible[:MOST_PAIRS]
    ]


MOST_PAIRS = 5
"""Interactions in a table; JSON has all."""


def _labels(explanation: Explanation) -> list[str]:
    return [printable_cell(segment.label, AN_ID) for segment in explanation.segments[0]]


def _name(explanation: Explanation) -> str:
    return printable_cell(explanation.sample, AN_ID)


def _requests_text(
    explanation: Explanation, attribution: Attribution, result: MetricResult, arms: Sequence[int]
) -> str:
    """Return `16 requests, exact`, or how many of the requests to these arms have no score, and why."""
    requests = quantity(attribution.requested, "request")
    if attribution.missing:
        lost = min(sum(result.lost[arm] for arm in arms), attribution.missing)
        inapplicable = min(sum(result.inapplicable[arm] for arm in arms), attribution.missing - lost)
        numbers = {"lost": lost, "not applicable": inapplicable, "missing": attribution.missing - lost - inapplicable}
        parts = [f"{number:,} {word}" for word, number in numbers.items() if number]
        requests = f"{attribution.requested - attribution.missing:,} of {requests}, {', '.join(parts)}"
    if attribution.is_exact and not explanation.sets.is_random:
        return f"{requests}, exact"
    if explanation.sets.is_exact and not attribution.is_exact:
        return requests
    pairs = len(explanation.sets.permutations) // 2
    how = "all sets" if explanation.sets.is_exact else f"{quantity(pairs, 'antithetic pair')} of orders"
    draws = f" x {explanation.sets.repeats} draws" if explanation.sets.repeats > 1 else ""
    return f"{requests}, {how}{draws}"


def _has_interval(attribution: Attribution) -> bool:
    return any(low < high for low, high in zip(attribution.low, attribution.high, strict=True))


def _interval(attribution: Attribution, k: int) -> str:
    low, high = attribution.low[k], attribution.high[k]
    return "-" if math.isnan(low) else f"[{value_text(low)}, {value_text(high)}]"


def score_text(value: float) -> str:
    """Return a score with two decimals, three digits of a large one; `unknown` for NaN.

    >>> score_text(0.8), score_text(float("nan"))
    ('0.80', 'unknown')
    """
    return "unknown" if math.isnan(value) else f"{value:,.{_decimals(value)}f}"


def value_text(value: float) -> str:
    """Return a part of a score with its sign; `-` for NaN.

    >>> value_text(0.25), value_text(-0.004), value_text(float("nan"))
    ('+0.25', '0.00', '-')
    """
    if math.isnan(value):
        return "-"
    text = f"{value:+,.{_decimals(value)}f}"
    return text if text.strip("+-0.,") else text.lstrip("+-")


def _decimals(value: float) -> int:
    return 2 if abs(value) < 100 else 0


def curve_text(curve: DeletionCurve) -> str:
    """Return what the deletion curve shows, in a sentence."""
    if all(map(math.isnan, curve.curve)):
        return f"deletion curve {verdict_text(curve)}"
    scores = ", ".join(map(score_text, curve.curve))
    removed = ", ".join(map(str, curve.removed))
    return f"deletion curve, largest first: {scores} with {removed} removed; {verdict_text(curve)}"


def verdict_text(curve: DeletionCurve) -> str:
    """Return `better than random orders (p = .01)`, or why that is not known."""
    if curve.p is None:
        return f"undefined: {curve.reason}"
    return f"{curve.verdict} than random orders (p = {short_p(curve.p)})"


def short_p(value: float) -> str:
    """Return a p-value without its leading zero.

    >>> short_p(0.0123), short_p(0.4), short_p(0.0002), short_p(1.0)
    ('.01', '.40', '.0002', '1.00')
    """
    text = f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"
    return text.removeprefix("0")
