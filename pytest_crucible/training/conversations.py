"""Conversations of several answers as data: each answer is learnt after the prompt that it would be sampled with.

If earlier answers are unchanged in a later prompt, the whole conversation is one row, as the cookbook's
`TrainOnWhat.ALL_ASSISTANT_MESSAGES` makes it. Some templates change earlier answers (they leave out what a model has thought, for
example): an answer whose prompt is not the beginning of a later one is a row of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_crucible.local_model.batches import Datum
from pytest_crucible.training.encoding import Encoder

LAST, ALL = "last_assistant", "all_assistant"
TRAIN_ON = (LAST, ALL)


@dataclass(frozen=True)
class Answer:
    """An answer of a conversation, with the prompt that it follows and the factor of its loss."""

    prompt: list[int]
    completion: list[int]
    weight: float = 1.0


def encode_answers(messages: Any, encoder: Encoder, train_on: str) -> list[Answer]:
    """Return the last message of a conversation as an answer, or with `ALL` every message of the assistant.

    A conversation that the assistant opens has no prompt for its first message, which is only read. Raises TypeError for
    anything but a conversation, and ValueError for an invalid weight of a message.
    """
    if train_on == LAST or not isinstance(messages, Sequence) or isinstance(messages, str):
        return [Answer(*encoder.conversation(messages), weight=_read_weight(messages))]
    ends = [
        number
        for number, message in enumerate(messages, start=1)
        if number > 1 and isinstance(message, Mapping) and message.get("role") == "assistant"
    ]
    if not ends:
        raise TypeError("no message of the assistant follows another message, as an answer to it")
    return [Answer(*encoder.conversation(list(messages[:end])), weight=_read_weight(messages[:end])) for end in ends]


def join_answers(answers: Sequence[Answer]) -> list[Datum]:
    """Return the answers as rows in which they count, as few as can be.

    An end of an answer that later prompts do not have is nevertheless a target, because a target need not be the next token.
    """
    rows: list[list[Answer]] = []
    for answer in reversed(answers):
        row = next((row for row in rows if _is_beginning(answer, row[-1])), None)
        if row is None:
            rows.append([answer])
        else:
            row.append(answer)
    return [_make_datum(row) for row in reversed(rows)]


def _read_weight(messages: Any) -> float:
    """Return the `weight` of the last message, which OpenAI's files of conversations have, too."""
    last = messages[-1] if isinstance(messages, Sequence) and messages else None
    weight = last.get("weight", 1.0) if isinstance(last, Mapping) else 1.0
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < np.inf:
        raise ValueError(f"a message has weight = {weight!r}: write a number of at least 0, or leave it out")
    return float(weight)


def _is_beginning(answer: Answer, later: Answer) -> bool:
    """Return whether a later prompt begins with this prompt and its answer, whose end token it need not have."""
    beginning = answer.prompt + answer.completion[:-1]
    # Longer, because the end of this answer and the beginning of the later one are targets of two places.
    return len(later.prompt) > len(beginning) and later.prompt[: len(beginning)] == beginning


def _make_datum(answers: Sequence[Answer]) -> Datum:
    """Return the longest of the answers, which comes first, as a row in which the others count, too."""
    tokens = answers[0].prompt + answers[0].completion
    targets, weights = np.asarray(tokens[1:]), np.zeros(len(tokens) - 1, np.float32)
    for answer in answers:
        # The first target is the second token.
        place = slice(len(answer.prompt) - 1, len(answer.prompt) - 1 + len(answer.completion))
        targets[place], weights[place] = answer.completion, answer.weight
    return Datum(tokens[:-1], {"target_tokens": targets, "weights": weights})
