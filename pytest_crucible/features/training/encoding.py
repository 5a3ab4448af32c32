"""Encodes rows of text as the data that a trainer learns from.

Texts are encoded exactly as when the model is sampled. Of a conversation with several answers, each is learnt after the prompt
that it would be sampled with. If earlier answers are unchanged in a later prompt, the whole conversation is one row, as the
cookbook's `TrainOnWhat.ALL_ASSISTANT_MESSAGES` makes it. Some templates change earlier answers (they leave out what a model has
thought, for example): an answer whose prompt is not the beginning of a later one is a row of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.tokens import Tokenizer, split_conversation
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.row_files import read_rows


class EmbeddedEncoder:
    """The tokenizer of the embedded model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def prompt(self, text: str) -> list[int]:
        # A model has to read something: an empty prompt is the end token, as when it is sampled.
        return self.tokenizer.encode(text) or [self.tokenizer.eos]

    def completion(self, text: str) -> list[int]:
        return [*self.tokenizer.encode(text), self.tokenizer.eos]

    def conversation(self, messages: Any) -> tuple[list[int], list[int]]:
        """Return prompt and completion, which is the last message. Raises TypeError unless it is a conversation."""
        prompt, completion = split_conversation(messages)
        return self.prompt(prompt), self.completion(completion)


class TemplateEncoder:
    """A tokenizer with the interface of transformers; conversations are rendered by its chat template."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def prompt(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text)) or [self.tokenizer.eos_token_id]

    def completion(self, text: str) -> list[int]:
        return [*self._bare(text), self.tokenizer.eos_token_id]

    def conversation(self, messages: Any) -> tuple[list[int], list[int]]:
        if not isinstance(messages, list) or len(messages) < 2:
            raise TypeError("a conversation to learn from has at least two messages, the last of which is the answer")
        if getattr(self.tokenizer, "chat_template", None) is None:
            raise TypeError("this model has no chat template")
        render = self.tokenizer.apply_chat_template
        # The completion is the difference of two renderings, because templates write marks around the answer.
        prompt = render(messages[:-1], tokenize=False, add_generation_prompt=True)
        whole = render(messages, tokenize=False, add_generation_prompt=False)
        if not whole.startswith(prompt):
            raise TypeError("this model's chat template changes earlier messages when the answer is added")
        return self._bare(prompt), self._bare(self._to_its_end(whole[len(prompt) :]))

    def _bare(self, text: str) -> list[int]:
        # The template has written the special tokens already.
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _to_its_end(self, answer: str) -> str:
        """Cut the text that a template adds after the end token: a sampled reply would never contain it."""
        end, cut = getattr(self.tokenizer, "eos_token", None), answer.rstrip()
        return cut if end and cut.endswith(end) else answer


Encoder: TypeAlias = EmbeddedEncoder | TemplateEncoder
"""Prompts end where a reply begins; completions end as a reply should end."""


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


_EXPECTED = "write 'prompt' and 'completion', or 'messages' with the completion last"


def encode_rows(
    rows: Path | Iterable[Mapping[str, Any]],
    encoder: Encoder,
    context: int | None,
    *,
    train_on: str = LAST,
    weights: Iterable[float] | None = None,
) -> list[Datum]:
    """Return the rows as data: prompt, completion and end token, of which the prompt has no weight in the loss.

    `train_on` is "last_assistant", or "all_assistant" for every answer of a conversation, which may take several data.
    `weights` multiply the loss of each row. Raises DatasetError, with the row, for a row without text, for one longer than the
    context, and for another number of weights than rows; ValueError for another `train_on`.
    """
    if train_on not in TRAIN_ON:
        raise ValueError(f"train_on = {train_on!r}: write {' or '.join(map(repr, TRAIN_ON))}")
    numbered = list(number_rows(rows))
    factors = [1.0] * len(numbered) if weights is None else list(weights)
    if len(factors) != len(numbered):
        raise DatasetError(f"{len(factors)} weights for {len(numbered)} rows to train on: give one a row")
    encoded = [
        _weigh(where, (row.get("weight", 1.0), factor), datum)
        for (where, row), factor in zip(numbered, factors, strict=True)
        for datum in _make_data(where, _encode(where, row, encoder, train_on), context)
    ]
    if not encoded:
        raise DatasetError(f"the rows to train on are empty: {_EXPECTED}")
    return encoded


def _weigh(where: str, factors: Iterable[Any], datum: Datum) -> Datum:
    """Return the datum with its loss multiplied by the row's `weight` and the argument's. Raises DatasetError."""
    weights = datum.inputs["weights"]
    for factor in factors:
        # Numbers of numpy's, too.
        if isinstance(factor, bool) or not isinstance(factor, Real) or not 0 <= float(factor) < math.inf:
            raise DatasetError(f"{where} has weight = {factor!r}: write a number of at least 0, or leave it out")
        weights = weights * np.float32(float(factor))
    return Datum(datum.tokens, {**datum.inputs, "weights": weights})


def number_rows(rows: Path | Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row with its place, as an error names it."""
    if isinstance(rows, Path):
        yield from ((f"line {line} of {rows}", row) for line, row in read_rows(rows, what="training data"))
    else:
        yield from ((f"row {number} to train on", row) for number, row in enumerate(rows, start=1))


def encode_reply(
    where: str, prompt: Any, reply: Any, encoder: Encoder, expected: str = _EXPECTED
) -> tuple[list[int], list[int]]:
    """Return the tokens of a prompt and its reply, each a text or messages. Raises DatasetError."""
    if isinstance(prompt, str) and isinstance(reply, str):
        return encoder.prompt(prompt), encoder.completion(reply)
    if not all(isinstance(value, str | list | Mapping) and value for value in (prompt, reply)):
        raise DatasetError(f"{where} has no text to train on: {expected}")
    try:
        return encoder.conversation([*_as_messages(prompt, "user"), *_as_messages(reply, "assistant")])
    except TypeError as error:
        raise DatasetError(f"{where} has no text to train on: {error}; {expected}") from None


def make_datum(where: str, prompt: list[int], completion: list[int], context: int | None) -> Datum:
    """Return prompt and completion as a datum in which the completion counts. Raises DatasetError beyond the context."""
    (datum,) = _make_data(where, [Answer(prompt, completion)], context)
    return datum


def _make_data(where: str, answers: Sequence[Answer], context: int | None) -> list[Datum]:
    data = join_answers(answers)
    longest = max(len(datum.tokens) for datum in data)
    if context is not None and longest > context:
        raise DatasetError(f"{where} has {longest} tokens, the model's context is {context}: shorten it")
    return data


def _encode(where: str, row: Any, encoder: Encoder, train_on: str) -> list[Answer]:
    """Return the answers of a row. Raises DatasetError."""
    fields = row if isinstance(row, Mapping) else {}
    _check_supervised(where, fields)
    messages = fields.get("messages")
    if messages is None and train_on == ALL and isinstance(fields.get("prompt"), list):
        messages = [*fields["prompt"], *_as_messages(fields.get("completion") or "", "assistant")]
    if messages is None and "messages" not in fields:
        return [Answer(*encode_reply(where, fields.get("prompt"), fields.get("completion"), encoder))]
    try:
        return encode_answers(messages, encoder, train_on)
    except TypeError as error:
        raise DatasetError(f"{where} has no text to train on: {error}; {_EXPECTED}") from None
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from None


def _check_supervised(where: str, fields: Mapping[str, Any]) -> None:
    """Raise DatasetError for rows of another training: a reply that failed must not be learnt."""
    if isinstance(fields.get("label"), bool) and "completion" in fields:
        raise DatasetError(
            f"{where} is a kto row with a label, and datums trains on every completion: export with --what sft"
        )
    if {"rejected", "non_preferred_output", "comparison"} & fields.keys():
        raise DatasetError(f"{where} is a preference: read it with trainer.preferences")


def _as_messages(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return [value] if isinstance(value, Mapping) else list(value)
