"""The versions of an explained sample: what was left out, the scores, and the replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.features.explanation.records import Explanation
from pytest_crucible.features.explanation.results import MetricResult, plain_number
from pytest_crucible.features.explanation.tables import score_text, verdict_text
from pytest_crucible.records import Row, Table
from pytest_crucible.report.printable import AN_ID, printable_cell
from pytest_crucible.stats.attribution.deletion import DeletionCurve
from pytest_crucible.stats.attribution.values import Attribution

Replies = Mapping[tuple[int, int], str]
A_REPLY = 280
"""Characters of a reply in a table."""
A_TEXT = 20_000
"""Characters of a reply in JSON; the run store has all."""


def shorten(text: str, most: int) -> str:
    """Return a text without its middle, if it is longer than so many characters.

    >>> shorten("a" * 30 + "b" * 30, 10)
    'aaaaa ... (50 characters more) ... bbbbb'
    """
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... ({len(text) - 2 * half:,} characters more) ... {text[len(text) - half :]}"


def versions_table(
    explanation: Explanation, arms: Sequence[str], results: Sequence[MetricResult], replies: Sequence[Replies]
) -> Table:
    """Return a row for each version and draw, with the scores and the reply of each arm."""
    sets, many = explanation.sets, explanation.sets.repeats > 1
    metrics = [
        f"{result.facts.name}, {name}" if len(arms) > 1 else result.facts.name for result in results for name in arms
    ]
    heads = ("left out", *(["draw"] if many else []), *metrics, *(f"reply of {name}" for name in arms))
    rows = []
    for number in range(len(sets.masks)):
        segments = ", ".join(map(str, explanation.left_out(number))) or "nothing"
        for draw in range(sets.repeats):
            scores = [score_text(table[number, draw]) for result in results for table in result.tables]
            texts = [shorten(of_arm.get((number, draw), "(no reply)"), A_REPLY) for of_arm in replies]
            rows.append(Row(cells=(segments, *([str(draw + 1)] if many else []), *scores, *texts)))
    title = f"{printable_cell(explanation.sample, AN_ID)}: the reply to each version"
    return Table(title=title, heads=heads, rows=tuple(rows), numbers=tuple(metrics), verbosity=3)


def document_of(
    explanation: Explanation, arms: Sequence[str], results: Sequence[MetricResult], replies: Sequence[Replies]
) -> dict[str, Any]:
    """Return all values of a sample as plain data."""
    sets = explanation.sets
    return {
        "sample": explanation.sample,
        "segments_by": explanation.kind,
        "segments": [
            {"number": number, **segment._asdict()} for number, segment in enumerate(explanation.segments[0], start=1)
        ],
        "is_random": sets.is_random,
        "draws": sets.repeats,
        "metrics": {result.facts.name: _metric(arms, result) for result in results},
        "versions": [_version(explanation, number, arms, results, replies) for number in range(len(sets.masks))],
    }


def _metric(arms: Sequence[str], result: MetricResult) -> dict[str, Any]:
    columns = zip(arms, result.arms, result.lost, result.inapplicable, result.curves, strict=True)
    return {
        "arms": {
            name: {
                **_attribution(attribution),
                "lost": lost,
                "not_applicable": inapplicable,
                "deletion": _curve(curve),
            }
            for name, attribution, lost, inapplicable, curve in columns
        },
        "differences": {
            name: _attribution(attribution) for name, attribution in zip(arms[1:], result.differences, strict=True)
        },
    }


def _version(
    explanation: Explanation,
    number: int,
    arms: Sequence[str],
    results: Sequence[MetricResult],
    replies: Sequence[Replies],
) -> dict[str, Any]:
    return {
        "left_out": explanation.left_out(number),
        "scores": {
            result.facts.name: {
                name: [plain_number(score) for score in table[number]]
                for name, table in zip(arms, result.tables, strict=True)
            }
            for result in results
        },
        "replies": {
            name: [_reply(of_arm.get((number, draw))) for draw in range(explanation.sets.repeats)]
            for name, of_arm in zip(arms, replies, strict=True)
        },
    }


def _reply(text: str | None) -> str | None:
    return None if text is None else shorten(text, A_TEXT)


def _attribution(attribution: Attribution) -> dict[str, Any]:
    return {
        "whole": plain_number(attribution.whole),
        "empty": plain_number(attribution.empty),
        "is_exact": attribution.is_exact,
        "requests": attribution.requested,
        "missing": attribution.missing,
        **{
            name: [plain_number(value) for value in getattr(attribution, name)]
            for name in ("shapley", "low", "high", "left_out")
        },
        "interactions": [
            {"segments": [i + 1, j + 1], "value": plain_number(value)} for i, j, value in attribution.interactions
        ],
    }


def _curve(curve: DeletionCurve) -> dict[str, Any]:
    return {
        "order": [segment + 1 for segment in curve.order],
        "removed": list(curve.removed),
        **{
            name: [plain_number(value) for value in getattr(curve, name)]
            for name in ("curve", "random_mean", "random_low", "random_high")
        },
        "random_orders": curve.random_orders,
        "p": curve.p,
        "verdict": verdict_text(curve),
    }
