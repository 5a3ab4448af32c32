"""From rows of text to what a trainer takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.datasets.jsonl import read_rows
from pytest_crucible.embedded.batches import Datum
from pytest_crucible.errors import DatasetError
from pytest_crucible.training.encoding import Encoder

_WANTED = "write 'prompt' and 'completion', or 'messages' with the completion last"


def datums(rows: Path | Iterable[Mapping[str, Any]], encoder: Encoder, context: int | None) -> list[Datum]:
    """One datum a row: prompt, completion and the end token, of which the prompt does not count.

    Raises DatasetError, with the row, for one without text or longer than the context.
    """
    found = [_datum(where, *_tokens(where, row, encoder), context) for where, row in _numbered(rows)]
    if not found:
        raise DatasetError(f"the rows to train on are empty: {_WANTED}")
    return found


def _numbered(rows: Path | Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(rows, Path):
        yield from ((f"line {line} of {rows}", row) for line, row in read_rows(rows, what="training data"))
    else:
        yield from ((f"row {number} to train on", row) for number, row in enumerate(rows, start=1))


def _tokens(where: str, row: Any, encoder: Encoder) -> tuple[list[int], list[int]]:
    """Of the prompt and of the completion."""
    given = row if isinstance(row, Mapping) else {}
    if "messages" in given:
        try:
            return encoder.conversation(given["messages"])
        except TypeError as error:
            raise DatasetError(f"{where} has no text to train on: {error}; {_WANTED}") from None
    prompt, completion = given.get("prompt"), given.get("completion")
    if not isinstance(prompt, str) or not isinstance(completion, str):
        raise DatasetError(f"{where} has no text to train on: {_WANTED}")
    return encoder.prompt(prompt), encoder.completion(completion)


def _datum(where: str, asked: list[int], answer: list[int], context: int | None) -> Datum:
    tokens = asked + answer
    if context is not None and len(tokens) - 1 > context:
        raise DatasetError(f"{where} has {len(tokens) - 1} tokens, the model's context is {context}: shorten it")
    weights = np.repeat([0.0, 1.0], [len(asked) - 1, len(answer)]).astype(np.float32)
    return Datum(tokens[:-1], {"target_tokens": np.asarray(tokens[1:]), "weights": weights})
