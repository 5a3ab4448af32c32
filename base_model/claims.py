"""Claim extraction: what is asked about a passage, and the lines that answer it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from base_model.passages import Hypothesis, Passage, either_way, write_passage


@dataclass(frozen=True, slots=True)
class LineFormat:
    """The words of an answer in lines. The suite's own are CLAIM, RELATION, c, supports and refutes."""

    item: str
    link: str
    letter: str
    agrees: str
    disagrees: str

    def lines(self, passage: Passage, hypothesis: Hypothesis) -> str:
        """The hypothesis, and for every finding on it a line that cites its document and a line that relates it."""
        first = f"{self.letter}1"
        lines = [f"{self.item}[{first}]: {hypothesis.sentence}"]
        for place, (document, finding) in enumerate(passage.evidence(hypothesis), start=2):
            verb = self.agrees if hypothesis.agrees(finding) else self.disagrees
            lines.append(f"{self.item}[{self.letter}{place}] (Document {document.number}): {finding.sentence}")
            lines.append(f"{self.link}: {self.letter}{place} {verb} {first}")
        return "\n".join(lines)


CLAIMS = LineFormat("CLAIM", "RELATION", "c", "supports", "refutes")


@dataclass(frozen=True, slots=True)
class ClaimSample:
    """One question about a passage, with its answer."""

    passage: Passage
    hypothesis: Hypothesis

    @property
    def prompt(self) -> str:
        """The passage, the hypothesis and the task."""
        return f"{self.passage}\n\nHypothesis: {self.hypothesis.sentence}\nExtract the claims.\n"

    @property
    def completion(self) -> str:
        """The claims and their relations, a line each."""
        return CLAIMS.lines(self.passage, self.hypothesis)


def write_samples(draw: random.Random, names: Sequence[str], questions: int) -> Iterator[list[ClaimSample]]:
    """Passages without end, each with as many different hypotheses as asked for (fewer where it says less)."""
    while True:
        passage = write_passage(draw, names)
        asked: dict[str, Hypothesis] = {}
        for _ in range(4 * questions):
            hypothesis = either_way(draw, draw.choice(list(passage.findings()))[1])
            asked.setdefault(f"{hypothesis.outcome} {hypothesis.name} {hypothesis.direction}", hypothesis)
        yield [ClaimSample(passage, hypothesis) for hypothesis in list(asked.values())[:questions]]
