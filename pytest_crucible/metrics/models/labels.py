"""Labels of an NLI model: read from their names, never from their order, then tested.

Models disagree about the order, and P(neutral) read as P(entailment) looks like a valid number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_crucible.metrics.models.protocol import Entailment
from pytest_crucible.records.errors import SpecError

# Models write "entailment", "ENTAILMENT" or "entails"; the beginnings are common to them.
BEGINNINGS = {"entailment": "entail", "neutral": "neutral", "contradiction": "contradict"}
# Premise, hypothesis, and whether the first entails or contradicts the second: no model with correct labels confuses
# them.
PLAIN = (
    ("A man is eating pizza.", "A man is eating food.", True),
    ("Two dogs are running on the beach.", "Animals are outside.", True),
    ("The vaccine lowered the risk of infection.", "The vaccine reduced the risk of infection.", True),
    ("A man is eating pizza.", "Nobody is eating.", False),
    ("Two dogs are running on the beach.", "The dogs are asleep.", False),
    ("The vaccine lowered the risk of infection.", "The vaccine raised the risk of infection.", False),
)
# Small models get one of these pairs wrong; with swapped labels, nearly all are wrong.
MAY_FAIL = 1


class Positions(NamedTuple):
    """The output of each label."""

    entailment: int
    neutral: int
    contradiction: int


def find_labels(labels: Mapping[int, str], model: str) -> Positions:
    """Return the outputs by label, in any order and case. Raises SpecError for labels without these names.

    >>> find_labels({0: "CONTRADICTION", 1: "entailment", 2: "Neutral"}, "m")
    Positions(entailment=1, neutral=2, contradiction=0)
    """
    places_by_name = {
        name: [place for place, label in labels.items() if str(label).strip().casefold().startswith(beginning)]
        for name, beginning in BEGINNINGS.items()
    }
    if len(labels) != len(places_by_name) or any(len(places) != 1 for places in places_by_name.values()):
        raise SpecError(
            f"model {model!r} has the labels {', '.join(map(repr, labels.values()))}: use a model whose config.json "
            "names entailment, neutral and contradiction in id2label"
        )
    return Positions(**{name: places[0] for name, places in places_by_name.items()})


def check_direction(scores: Sequence[Entailment], model: str) -> None:
    """Raise SpecError for a model that judges plain pairs the wrong way round."""
    wrong = [
        (premise, hypothesis, score)
        for (premise, hypothesis, entails), score in zip(PLAIN, scores, strict=True)
        if (score.entailment > score.contradiction) is not entails
    ]
    if len(wrong) > MAY_FAIL:
        premise, hypothesis, score = wrong[0]
        raise SpecError(
            f"model {model!r} takes {len(wrong)} of {len(PLAIN)} plain pairs for their opposite (first: {premise!r} and "
            f"{hypothesis!r} have entailment {score.entailment:.2f} and contradiction {score.contradiction:.2f}): "
            "its labels are swapped, or it is not an NLI model; use another one"
        )
