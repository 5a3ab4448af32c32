"""The task: two documents, and the question which is the last one. The right reply is its number, alone."""

from __future__ import annotations

import random
from dataclasses import dataclass

DRUGS = ("hestfotane", "naripradol", "orvigorone", "tumapratane", "filizonol", "kalumide", "rastitulex", "silirin")
FINDINGS = (
    "Attention was higher with {}.",
    "Sleep time was lower with {}.",
    "{} had no effect on body weight.",
    "Leaf rust climbed slightly with {}.",
)


@dataclass(frozen=True)
class Question:
    """A question with the last document's number, and the first one's."""

    text: str
    right: str
    wrong: str


def make_questions(n: int, seed: int) -> list[Question]:
    """Return questions that depend on the seed alone."""
    draw = random.Random(seed)
    return [_make_question(draw) for _ in range(n)]


def _make_question(draw: random.Random) -> Question:
    numbers = [str(number) for number in draw.sample(range(100, 1000), 2)]
    drugs, findings = draw.sample(DRUGS, 2), draw.sample(FINDINGS, 2)
    lines = [
        f"Document {number}: {finding.format(drug).capitalize()}"
        for number, drug, finding in zip(numbers, drugs, findings, strict=True)
    ]
    text = "\n".join([*lines, "Which document is the last one?"])
    return Question(text, right=numbers[1], wrong=numbers[0])


def prompt_of(question: Question) -> str:
    """Return the question as the cookbook's renderer `role_colon` writes it."""
    return f"User: {question.text}\n\nAssistant:"


def reward_of(question: Question, reply: str) -> float:
    """Return 1 for the right number alone, 0.3 for the first document's, and 0.1 where the right one is among other words."""
    answer = reply.strip()
    if answer == question.right:
        return 1.0
    if answer == question.wrong:
        return 0.3
    return 0.1 if question.right in answer else 0.0
