"""Abstracts: documents that report findings, each with a direction, and hypotheses about them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from base_model.words import COUNTS, FIELDS, MANNERS, SHARES, WEEKS, capital, identifiers

Direction = Literal["up", "down", "same"]

REPORTS: dict[Direction, tuple[str, ...]] = {
    "up": (
        "{Outcome} rose by {share} with {name}.",
        "{Outcome} was higher with {name} than with placebo.",
        "{Outcome} increased in {group} on {name}.",
        "{Outcome} climbed {manner} with {name}.",
        "{Name} raised {outcome} by {share}.",
    ),
    "down": (
        "{Outcome} fell by {share} with {name}.",
        "{Outcome} was lower with {name} than with placebo.",
        "{Outcome} decreased in {group} on {name}.",
        "{Outcome} dropped {manner} with {name}.",
        "{Name} lowered {outcome} by {share}.",
    ),
    "same": (
        "{Outcome} did not change with {name}.",
        "{Outcome} stayed level with {name}.",
        "{Name} had no effect on {outcome}.",
    ),
}
"""How a finding is told. Rise and fall have the same forms: only the word for the direction differs."""

ASSERTED: dict[Direction, tuple[str, ...]] = {"up": ("raises", "increases"), "down": ("lowers", "reduces")}
OPPOSITE: dict[Direction, Direction] = {"up": "down", "down": "up"}

_OPENINGS = (
    "Little is known about {outcome} in {group}.",
    "{Outcome} is a concern in {group}.",
    "We tested {name} in {count} {group}.",
    "{Count} {group} were given {name} for {weeks} weeks.",
    "{Name} was compared with placebo over {weeks} weeks.",
    "We followed {count} {group} for {weeks} weeks.",
)
_CLOSINGS = (
    "The study was small.",
    "Longer studies are needed.",
    "No harm was seen.",
    "Follow-up was short.",
    "Results were similar in {group}.",
)
_TITLES = ("{Name} and {outcome}", "{Name} in {group}", "{Name} for {group}", "{Name}: a trial in {group}")


@dataclass(frozen=True, slots=True)
class Finding:
    """One result: what the treatment did to the outcome, in a sentence."""

    name: str
    outcome: str
    direction: Direction
    sentence: str


@dataclass(frozen=True, slots=True)
class Document:
    """A numbered abstract."""

    number: str
    title: str
    sentences: tuple[str, ...]
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        return f"Document {self.number}: {self.title}\n{' '.join(self.sentences)}"


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A claim about one treatment and one outcome: it goes up, or down."""

    name: str
    outcome: str
    direction: Direction
    sentence: str

    def agrees(self, finding: Finding) -> bool:
        """Whether the finding goes the way that is claimed."""
        return self.direction == finding.direction


@dataclass(frozen=True, slots=True)
class Passage:
    """What is read at once: one document, or two."""

    documents: tuple[Document, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.documents))

    def findings(self) -> Iterator[tuple[Document, Finding]]:
        """Every finding with the document that reports it, in the order of the text."""
        for document in self.documents:
            yield from ((document, finding) for finding in document.findings)

    def evidence(self, hypothesis: Hypothesis) -> list[tuple[Document, Finding]]:
        """What the passage says about the hypothesis' treatment and outcome, for or against."""
        about = (hypothesis.name, hypothesis.outcome)
        return [found for found in self.findings() if (found[1].name, found[1].outcome) == about]


def report(draw: random.Random, name: str, outcome: str, direction: Direction, group: str) -> Finding:
    """A finding in one of its forms."""
    sentence = _fill(draw, draw.choice(REPORTS[direction]), name, outcome, group)
    return Finding(name, outcome, direction, sentence)


def suppose(draw: random.Random, finding: Finding, direction: Direction) -> Hypothesis:
    """A hypothesis about what the finding is about."""
    sentence = f"{capital(finding.name)} {draw.choice(ASSERTED[direction])} {finding.outcome}."
    return Hypothesis(finding.name, finding.outcome, direction, sentence)


def either_way(draw: random.Random, finding: Finding) -> Hypothesis:
    """A hypothesis that the finding bears out a little more often than not."""
    if finding.direction == "same":
        return suppose(draw, finding, draw.choice(("up", "down")))
    agreed = draw.random() < 0.6
    return suppose(draw, finding, finding.direction if agreed else OPPOSITE[finding.direction])


def write_document(draw: random.Random, number: str, name: str, outcomes: Sequence[str], group: str) -> Document:
    """An abstract on one treatment: an opening, a finding per outcome, and now and then a closing sentence."""
    findings = tuple(report(draw, name, outcome, _direction(draw), group) for outcome in outcomes)
    texts = [_fill(draw, draw.choice(_OPENINGS), name, outcomes[0], group), *(each.sentence for each in findings)]
    if draw.random() < 0.4:
        texts.append(_fill(draw, draw.choice(_CLOSINGS), name, outcomes[0], group))
    title = _fill(draw, draw.choice(_TITLES), name, draw.choice(outcomes), group)
    return Document(number, title, tuple(texts), findings)


def write_passage(draw: random.Random, names: Sequence[str]) -> Passage:
    """One document, two on different treatments, or two on the same one that share an outcome."""
    kind = draw.choices(("one", "two", "shared"), (60, 26, 14))[0]
    groups, measured = draw.choices(FIELDS, (2, 1, 1))[0]
    name, other = draw.sample(names, 2)
    group, elsewhere = draw.sample(groups, 2)
    outcomes = draw.sample(measured, 3)
    number, next_number = identifiers(draw, 2)
    if kind == "one":
        return Passage((write_document(draw, number, name, outcomes[: draw.choice((2, 3, 3))], group),))
    first = write_document(draw, number, name, outcomes[:2], group)
    if kind == "two":
        return Passage((first, write_document(draw, next_number, other, draw.sample(outcomes, 2), elsewhere)))
    again = draw.sample((outcomes[0], outcomes[2]), 2)
    return Passage((first, write_document(draw, next_number, name, again, elsewhere)))


def _direction(draw: random.Random) -> Direction:
    return draw.choices(("up", "down", "same"), (42, 42, 16))[0]


def _fill(draw: random.Random, form: str, name: str, outcome: str, group: str) -> str:
    count = draw.choice(COUNTS)
    words = {"count": count, "weeks": draw.choice(WEEKS), "share": draw.choice(SHARES), "manner": draw.choice(MANNERS)}
    nouns = {"name": name, "outcome": outcome, "group": group, "Name": capital(name), "Outcome": capital(outcome)}
    return form.format(**words, **nouns, Count=capital(count))
