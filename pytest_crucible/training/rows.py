"""Encodes rows of text as the data that a trainer learns from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.datasets.jsonl import read_rows
from pytest_crucible.local_model.batches import Datum
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.training.encoding import Encoder

_EXPECTED = "write 'prompt' and 'completion', or 'messages' with the completion last"


def encode_rows(rows: Path | Iterable[Mapping[str, Any]], encoder: Encoder, context: int | None) -> list[Datum]:
    """Return one datum a row: prompt, completion and end token, of which the prompt has no weight in the loss.

    Raises DatasetError, with the row, for a row without text and for one longer than the context.
    """
    encoded = [
        _weigh(where, row, make_datum(where, *_encode(where, row, encoder), context))
        for where, row in number_rows(rows)
    ]
    if not encoded:
        raise DatasetError(f"the rows to train on are empty: {_EXPECTED}")
    return encoded


def _weigh(where: str, row: Mapping[str, Any], datum: Datum) -> Datum:
    """Return the datum with the loss of its completion multiplied by the row's `weight`. Raises DatasetError."""
    weight = row.get("weight", 1.0)
    if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0 <= weight < math.inf:
        raise DatasetError(f"{where} has weight = {weight!r}: write a number of at least 0, or leave it out")
    if weight == 1:
        return datum
    return Datum(datum.tokens, {**datum.inputs, "weights": datum.inputs["weights"] * np.float32(weight)})


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
    tokens = prompt + completion
    if context is not None and len(tokens) - 1 > context:
        raise DatasetError(f"{where} has {len(tokens) - 1} tokens, the model's context is {context}: shorten it")
    # Tokens are predicted from those before: the first target is the second token, so the prompt has one target less.
    weights = np.repeat([0.0, 1.0], [len(prompt) - 1, len(completion)]).astype(np.float32)
    return Datum(tokens[:-1], {"target_tokens": np.asarray(tokens[1:]), "weights": weights})


def _encode(where: str, row: Any, encoder: Encoder) -> tuple[list[int], list[int]]:
    """Return the tokens of prompt and completion. Raises DatasetError."""
    fields = row if isinstance(row, Mapping) else {}
    _check_supervised(where, fields)
    if "messages" in fields:
        try:
            return encoder.conversation(fields["messages"])
        except TypeError as error:
            raise DatasetError(f"{where} has no text to train on: {error}; {_EXPECTED}") from None
    return encode_reply(where, fields.get("prompt"), fields.get("completion"), encoder)


def _check_supervised(where: str, fields: Mapping[str, Any]) -> None:
    """Raise DatasetError for rows of another training: a reply that failed must not be learnt."""
    if isinstance(fields.get("label"), bool) and "completion" in fields:
        raise DatasetError(f"{where} is judged (kto), and datums learns every completion: export with --what sft")
    if {"rejected", "non_preferred_output", "comparison"} & fields.keys():
        raise DatasetError(f"{where} is a preference: read it with trainer.preferences")


def _as_messages(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return [value] if isinstance(value, Mapping) else list(value)
