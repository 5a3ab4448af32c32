"""SciFact's own scores of predicted evidence: abstracts and sentences, by label alone and with their rationales.

Wadden et al. 2020, "Fact or Fiction: Verifying Scientific Claims", section 4; https://github.com/allenai/scifact-evaluator
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_crucible.errors import DatasetError

Row = Mapping[str, Any]
MOST_SENTENCES = 3
"""Of an abstract, so many predicted sentences count as its rationale: the first ones."""


@dataclass(frozen=True, slots=True)
class Score:
    """How many of what was predicted, and of what was there to be found, are right."""

    right: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """0 where nothing was predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean; 0 where nothing is right."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Scores:
    """All four of SciFact's questions."""

    abstract_label_only: Score
    """The abstract is evidence, and its label is right."""
    abstract_rationalized: Score
    """And its first three sentences hold one whole gold rationale."""
    sentence_selection: Score
    """The sentence is in a gold rationale of which every sentence was predicted."""
    sentence_label: Score
    """And the abstract's label is right."""

    def as_mapping(self) -> dict[str, float]:
        """The twelve numbers under the names of the official evaluator."""
        return {
            f"{question}_{part}": getattr(getattr(self, question), part)
            for question in self.__slots__
            for part in ("precision", "recall", "f1")
        }


def evaluate(gold: Iterable[Row], predicted: Iterable[Row]) -> Scores:
    """Score predictions (`id`, `evidence`: document to `sentences` and `label`) against claims as SciFact releases them.

    Claims that nothing is predicted for count as empty predictions. Raises DatasetError for a prediction of an unknown claim,
    and for two of one claim.
    """
    claims = {row["id"]: row["evidence"] for row in gold}
    given: dict[Any, Row] = {}
    for row in predicted:
        if row["id"] not in claims or row["id"] in given:
            problem = "is predicted twice" if row["id"] in given else "is not among the claims"
            raise DatasetError(f"claim {row['id']} {problem}: give one prediction for each claim of the gold file")
        given[row["id"]] = row["evidence"]
    counts = [0] * 8
    for name, evidence in claims.items():
        for place, count in enumerate(_counts(evidence, given.get(name, {}))):
            counts[place] += count
    abstracts, sentences, gold_abstracts, gold_sentences, *right = counts
    return Scores(
        Score(right[0], abstracts, gold_abstracts),
        Score(right[1], abstracts, gold_abstracts),
        Score(right[2], sentences, gold_sentences),
        Score(right[3], sentences, gold_sentences),
    )


def _counts(gold: Row, predicted: Row) -> tuple[int, ...]:
    """Predicted abstracts and sentences, gold ones, and what is right by each of the four questions, for one claim."""
    rationales = {document: [set(one["sentences"]) for one in sets] for document, sets in gold.items()}
    labelled = rationalized = selected = selected_and_labelled = 0
    for document, one in predicted.items():
        sets, chosen = rationales.get(document, []), one["sentences"]
        right = bool(sets) and gold[document][0]["label"] == one["label"]
        whole = _whole(sets, chosen)
        labelled += right
        rationalized += right and any(each <= set(chosen[:MOST_SENTENCES]) for each in sets)
        selected += whole
        selected_and_labelled += whole if right else 0
    return (
        len(predicted),
        sum(len(one["sentences"]) for one in predicted.values()),
        len(gold),
        sum(len(set().union(*sets)) for sets in rationales.values()),
        labelled,
        rationalized,
        selected,
        selected_and_labelled,
    )


def _whole(rationales: Sequence[set[int]], chosen: Sequence[int]) -> int:
    """How many chosen sentences are in a rationale that was chosen whole."""
    complete = [each for each in rationales if each <= set(chosen)]
    return sum(any(sentence in each for each in complete) for sentence in chosen)
