"""SciFact's official scores of predicted evidence: abstracts and sentences, by label alone and with rationales.

Wadden et al. 2020, "Fact or Fiction: Verifying Scientific Claims", section 4; https://github.com/allenai/scifact-evaluator
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_crucible.records.errors import DatasetError

Row = Mapping[str, Any]
# Number of predicted sentences per abstract that count as its rationale: the first ones.
MAX_SENTENCES = 3
# The labels of evidence. An abstract without evidence is not predicted, so the third label of claims is not among them.
LABELS = ("SUPPORT", "CONTRADICT")


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of right, predicted and gold items."""

    right: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """0 if nothing was predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if nothing is right."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Scores:
    """SciFact's four scores."""

    abstract_label_only: Score
    """The abstract is evidence, and its label is right."""
    abstract_rationalized: Score
    """The abstract is evidence with the right label, and its first three predicted sentences contain a whole gold rationale."""
    sentence_selection: Score
    """The sentence belongs to a gold rationale all of whose sentences were predicted."""
    sentence_label: Score
    """The sentence is right as in `sentence_selection`, and the abstract's label is right."""

    def as_mapping(self) -> dict[str, float]:
        """Return the twelve numbers under the official evaluator's names."""
        return {
            f"{question}_{part}": getattr(getattr(self, question), part)
            for question in self.__slots__
            for part in ("precision", "recall", "f1")
        }


def evaluate(gold: Iterable[Row], predicted: Iterable[Row]) -> Scores:
    """Score predictions (`id`, `evidence`: document to `sentences` and `label`) against claims in SciFact's form.

    Claims without a prediction count as empty predictions. A sentence that is predicted twice counts once. Raises DatasetError
    for a prediction of an unknown claim, for two predictions of one claim, and for a label other than LABELS.
    """
    claims = {row["id"]: row["evidence"] for row in gold}
    predictions: dict[Any, Row] = {}
    for row in predicted:
        if row["id"] not in claims or row["id"] in predictions:
            problem = "is predicted twice" if row["id"] in predictions else "is not among the claims"
            raise DatasetError(f"claim {row['id']} {problem}: give one prediction for each claim of the gold file")
        _check_labels(row)
        predictions[row["id"]] = row["evidence"]
    counts = [0] * 8
    for name, evidence in claims.items():
        for place, count in enumerate(_counts(evidence, predictions.get(name, {}))):
            counts[place] += count
    abstracts, sentences, gold_abstracts, gold_sentences, *right = counts
    return Scores(
        Score(right[0], abstracts, gold_abstracts),
        Score(right[1], abstracts, gold_abstracts),
        Score(right[2], sentences, gold_sentences),
        Score(right[3], sentences, gold_sentences),
    )


def _check_labels(row: Row) -> None:
    for document, prediction in row["evidence"].items():
        if prediction["label"] not in LABELS:
            raise DatasetError(
                f"claim {row['id']} has the label {prediction['label']!r} for document {document}: write one of "
                f"{', '.join(LABELS)}, and leave out documents that are not evidence"
            )


def _counts(gold: Row, predicted: Row) -> tuple[int, ...]:
    """Count, for one claim: predicted abstracts and sentences, gold ones, and right ones by each of the four scores."""
    rationales = {document: [set(prediction["sentences"]) for prediction in sets] for document, sets in gold.items()}
    labelled = rationalized = selected = selected_and_labelled = 0
    for document, prediction in predicted.items():
        sets, chosen = rationales.get(document, []), prediction["sentences"]
        right = bool(sets) and gold[document][0]["label"] == prediction["label"]
        whole = _whole(sets, chosen)
        labelled += right
        rationalized += right and any(each <= set(chosen[:MAX_SENTENCES]) for each in sets)
        selected += whole
        selected_and_labelled += whole if right else 0
    return (
        len(predicted),
        sum(len(set(prediction["sentences"])) for prediction in predicted.values()),
        len(gold),
        sum(len(set().union(*sets)) for sets in rationales.values()),
        labelled,
        rationalized,
        selected,
        selected_and_labelled,
    )


def _whole(rationales: Sequence[set[int]], chosen: Sequence[int]) -> int:
    """Return how many chosen sentences, each counted once, belong to a rationale that was chosen as a whole."""
    complete = [each for each in rationales if each <= set(chosen)]
    return len(set().union(*complete))
