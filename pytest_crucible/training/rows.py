"""Encodes rows of text as the data that a trainer learns from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.datasets.formats import read_rows
from pytest_crucible.local_model.batches import Datum
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.training.conversations import ALL, LAST, TRAIN_ON, Answer, encode_answers, join_answers
from pytest_crucible.training.encoding import Encoder

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
