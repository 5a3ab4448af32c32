"""Judges: whether equal inputs got equal verdicts, the verdicts that could not be read, and those from the cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding, share_text, text_of
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmOutcomes
from pytest_crucible.records.calls import TextKey
from pytest_crucible.records.reasoning import answer_text
from pytest_crucible.records.usage import JUDGE
from pytest_crucible.stats.proportions.exact import two_exact_p_value
from pytest_crucible.stats.proportions.one import clopper_pearson_bound

SURE = 0.005
"""The error rate of a bound, and of a test: together a false problem in at most 1 % of experiments."""
MOST_DIFFERENT = 0.01
"""The share of samples with other verdicts on equal inputs up to which a judge adds little noise."""


class Reading(NamedTuple):
    """One verdict of a judge."""

    position: int
    repeat: int
    request: int
    arm: int
    text: TextKey
    cached: bool | None

    @property
    def draw(self) -> tuple[int, int, int]:
        """The part of the reply cache's key by which requests with equal messages differ."""
        return self[:3]


Judged = Mapping[tuple[str, int | None], Sequence[Reading]]
"""The verdicts on each input: a judge, and the key of its messages."""


def group_verdicts(arms: Sequence[ArmColumns]) -> Judged:
    """Return the verdicts on each input that was judged more than once.

    Forms of judges' messages are equal only where their texts are: each tag has a hash of all texts.
    """
    inputs: dict[tuple[str, int | None], list[Reading]] = defaultdict(list)
    for number, columns in enumerate(arms):
        calls = columns.calls
        rows = zip(
            *(calls.members, calls.forms, calls.positions, calls.repeats, calls.requests, calls.texts, calls.cached),
            strict=True,
        )
        for member, form, position, repeat, request, text, cached in rows:
            if text is not None and member.startswith(JUDGE):
                inputs[member, form].append(Reading(position, repeat, request, number, text, cached))
    return {
        key: draws
        for key, readings in inputs.items()
        if len(readings) > 1 and len(draws := _separate_draws(readings)) > 1
    }


def _separate_draws(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings without copies: what the cache had is one draw with what was sent, or with another copy of it."""
    draws = [reading for reading in readings if reading.cached is False]
    counted = {reading.draw for reading in draws}
    for reading in readings:
        if reading.cached is not False and reading.draw not in counted:
            counted.add(reading.draw)
            draws.append(reading)
    return draws


def differing_inputs(judged: Judged, long_texts: Mapping[bytes, str]) -> set[tuple[str, int | None]]:
    """Return the inputs with several readable verdicts; `long_texts` has the texts that keys stand for."""
    # Imported here: most runs have no judge.
    from pytest_crucible.metrics.models.scorers import stated_verdict

    def verdict(text: TextKey) -> str | None:
        return stated_verdict(answer_text(text_of(text, long_texts)))

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
    """Counts of the verdicts on one arm's replies."""

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
    from pytest_crucible.metrics.models.scorers import NoVerdict

    calls, rows = columns.calls, list(columns.judge_calls())
    return JudgeCounts(
        samples=len(_positions(judged.values(), number)),
        differ=len(_positions((judged[key] for key in differing), number)),
        judged=len({calls.positions[row] for row in rows}),
        unreadable=len({lost.unit.position for lost in answers.lost if f" {NoVerdict.__name__}: " in lost.detail}),
        calls=len(rows),
        cached=sum(calls.cached[row] is True for row in rows),
    )


def _positions(inputs: Iterable[Sequence[Reading]], arm: int) -> set[int]:
    return {reading.position for readings in inputs for reading in readings if reading.arm == arm}


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
        "get different scores; votes=3 or temperature 0 makes that rarer"
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
