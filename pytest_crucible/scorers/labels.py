"""Which output of an NLI model means what: by the names that it gives them, never by their order, and then by trying it.

Models disagree about the order, and reading P(neutral) as P(entailment) looks like a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_crucible.errors import SpecError
from pytest_crucible.scorers.protocol import Entailment

BEGINNINGS = {"entailment": "entail", "neutral": "neutral", "contradiction": "contradict"}
PLAIN = (
    ("A man is eating pizza.", "A man is eating food.", True),
    ("Two dogs are running on the beach.", "Animals are outside.", True),
    ("The vaccine lowered the risk of infection.", "The vaccine reduced the risk of infection.", True),
    ("A man is eating pizza.", "Nobody is eating.", False),
    ("Two dogs are running on the beach.", "The dogs are asleep.", False),
    ("The vaccine lowered the risk of infection.", "The vaccine raised the risk of infection.", False),
)
"""Premise, hypothesis, and whether the one entails or contradicts the other: no model that knows its labels takes one for
the other."""
MAY_FAIL = 1


class Positions(NamedTuple):
    """Which output is which."""

    entailment: int
    neutral: int
    contradiction: int


def positions(labels: Mapping[int, str], model: str) -> Positions:
    """Of a model with these labels, in any order and case. Raises SpecError for labels that do not say what they mean.

    >>> positions({0: "CONTRADICTION", 1: "entailment", 2: "Neutral"}, "m")
    Positions(entailment=1, neutral=2, contradiction=0)
    """
    found = {
        name: [place for place, label in labels.items() if str(label).strip().casefold().startswith(beginning)]
        for name, beginning in BEGINNINGS.items()
    }
    if len(labels) != len(found) or any(len(places) != 1 for places in found.values()):
        raise SpecError(
            f"model {model!r} has the labels {', '.join(map(repr, labels.values()))}: an entailment scorer needs a model whose "
            "config.json names entailment, neutral and contradiction in id2label"
        )
    return Positions(**{name: places[0] for name, places in found.items()})


def check_direction(scores: Sequence[Entailment], model: str) -> None:
    """Raise SpecError for a model that takes the plain pairs for the opposite of what they are."""
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
            "its labels are swapped, or it is no NLI model"
        )
