"""Judges: whether equal inputs got equal verdicts, the verdicts that could not be read, and those from the cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding, share_text
from pytest_crucible.metrics.models.scorers import NoVerdict, stated_verdict
from pytest_crucible.records import ArmOutcomes
from pytest_crucible.records.calls import TextKey
from pytest_crucible.records.outcomes import answer_text
from pytest_crucible.stats.proportions.exact import two_exact_p_value
from pytest_crucible.stats.proportions.one import clopper_pearson_bound

SURE = 0.01
"""The error rate of a problem: of a bound, and of a test."""
MOST_DIFFERENT = 0.01
"""The share of samples with other verdicts on equal inputs up to which a judge adds little noise."""


class Reading(NamedTuple):
    """One verdict of a judge, a draw of its own."""

    arm: int
    position: int
    request: int
    text: TextKey


Judged = Mapping[tuple[str, int | None], Sequence[Reading]]
"""The verdicts on each input: a judge, and the key of its messages."""


def group_verdicts(arms: Sequence[ArmColumns]) -> Judged:
    """Return the verdicts on each input that was judged more than once.

    Forms of judges' messages are equal only where their texts are: each tag has a hash of all texts. A reply from the cache is a
    copy of that to the same request of the same sample and repeat, which is counted once.
    """
    draws: dict[tuple[str, int | None, int, int, int], list[tuple[bool, Reading]]] = defaultdict(list)
    for number, columns in enumerate(arms):
        calls = columns.calls
        for row in columns.judge_calls():
            if calls.texts[row] is not None:
                position, request = calls.positions[row], calls.requests[row]
                draw = (calls.members[row], calls.forms[row], position, calls.repeats[row], request)
                draws[draw].append((calls.cached[row] is False, Reading(number, position, request, calls.texts[row])))
    inputs: dict[tuple[str, int | None], list[Reading]] = defaultdict(list)
    for (judge, form, *_), readings in draws.items():
        sent = [reading for was_sent, reading in readings if was_sent]
        inputs[judge, form] += sent or [readings[0][1]]
    return {key: readings for key, readings in inputs.items() if len(readings) > 1}


def differing_inputs(judged: Judged, long_texts: Mapping[bytes, str]) -> set[tuple[str, int | None]]:
    """Return the inputs with several readable verdicts; `long_texts` has the texts that keys stand for."""

    def verdict(text: TextKey) -> str | None:
        return stated_verdict(answer_text(long_texts.get(text, "") if isinstance(text, bytes) else text or ""))

    return {
        key
        for key, readings in judged.items()
        if len(texts := {reading.text for reading in readings}) > 1 and len({*map(verdict, texts)} - {None}) > 1
    }


def long_keys(judged: Judged) -> set[bytes]:
    """Return the keys of the texts that have to be read: those of inputs whose replies differ."""
    of_inputs = ({reading.text for reading in readings} for readings in judged.values())
    return {text for texts in of_inputs if len(texts) > 1 for text in texts if isinstance(text, bytes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCounts:
    """What is known of the verdicts on one arm's replies."""

    samples: int
    """Samples of which some input was judged more than once."""
    differ: int
    """Those with different verdicts on one input."""
    judged: int
    """Samples with a request to a judge."""
    unreadable: int
    """Samples of which a score is lost, because the judge gave no readable verdict."""
    calls: int
    cached: int
    """Calls whose reply was read from the reply cache."""

    @property
    def cell(self) -> str:
        """The counts in words."""
        parts = (
            f"{self.differ:,} of {self.samples:,} samples differ" if self.samples else "",
            f"{self.unreadable:,} unreadable" if self.unreadable else "",
            f"{self.cached:,} of {self.calls:,} from the cache" if self.cached else "",
        )
        return ", ".join(filter(None, parts)) or ("read once each" if self.calls else "")


def check_judges(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on the judges, if any was called."""
    if not any(True for columns in inputs.arms for _ in columns.judge_calls()):
        return
    judged = group_verdicts(inputs.arms)
    differing = differing_inputs(judged, inputs.section.stored.long_texts(long_keys(judged)))
    counts = [
        count_verdicts(number, columns, answers, judged, differing)
        for number, (columns, answers) in enumerate(zip(inputs.arms, inputs.section.answers, strict=True))
    ]
    names = [columns.arm.name for columns in inputs.arms]
    problems = (contradiction(judged, differing), unreadable_difference(names, counts))
    yield Finding(
        check="judges",
        cells=tuple(count.cell for count in counts),
        differs="verdicts differ" if differing else "",
        problem="; ".join(filter(None, problems)),
        document=counts,
    )


def count_verdicts(
    number: int,
    columns: ArmColumns,
    answers: ArmOutcomes,
    judged: Judged,
    differing: Iterable[tuple[str, int | None]],
) -> JudgeCounts:
    """Return the counts of the arm with this number."""
    calls, rows = columns.calls, list(columns.judge_calls())
    inputs = {key: _positions(readings, number) for key, readings in judged.items()}
    return JudgeCounts(
        samples=len(set().union(*inputs.values())),
        differ=len(set().union(*(inputs[key] for key in differing))),
        judged=len({calls.positions[row] for row in rows}),
        unreadable=len({lost.unit.position for lost in answers.lost if f" {NoVerdict.__name__}: " in lost.detail}),
        calls=len(rows),
        cached=sum(calls.cached[row] is True for row in rows),
    )


def _positions(readings: Iterable[Reading], arm: int) -> set[int]:
    return {reading.position for reading in readings if reading.arm == arm}


def contradiction(judged: Judged, differing: Iterable[tuple[str, int | None]]) -> str:
    """Return a sentence if different verdicts on equal inputs are proven to be frequent; empty if they are not.

    The unit is the sample. Votes on a question are there to differ.
    """
    if any(reading.request > 1 for readings in judged.values() for reading in readings):
        return ""
    samples, differ = ({reading.position for key in keys for reading in judged[key]} for keys in (judged, differing))
    n, k = len(samples), len(differ)
    if not k or clopper_pearson_bound(k, n, alpha=SURE, side="lower") <= MOST_DIFFERENT:
        return ""
    judges = " and ".join(sorted({judge.partition(":")[2] for judge, _ in differing}))
    return (
        f"judge {judges} gave equal inputs different verdicts on {k:,} of {n:,} samples ({share_text(k, n)}): equal replies "
        "get different scores; votes=3 or temperature 0 makes them alike"
    )


def unreadable_difference(names: Sequence[str], counts: Sequence[JudgeCounts]) -> str:
    """Return a sentence for each baseline on whose replies another share of verdicts is proven to be unreadable."""
    ours, *others = zip(names, counts, strict=True)
    sentences = []
    for name, theirs in others:
        pair = (ours[1].unreadable, ours[1].judged, theirs.unreadable, theirs.judged)
        p_value = two_exact_p_value(*pair) if all(pair[1::2]) else None
        if p_value is not None and p_value <= SURE / len(others):
            sentences.append(
                f"verdicts were unreadable on {pair[0]:,} of {pair[1]:,} samples of {ours[0]} and {pair[2]:,} of {pair[3]:,} of "
                f"{name}: their scores are lost, and what is left are other samples"
            )
    return "; ".join(sentences)
