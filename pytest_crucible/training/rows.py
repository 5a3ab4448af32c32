"""From rows of text to what a trainer takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.datasets.jsonl import read_rows
from pytest_crucible.embedded.batches import Datum
from pytest_crucible.embedded.chat import finished
from pytest_crucible.embedded.tokens import Tokenizer
from pytest_crucible.errors import DatasetError

_WANTED = "write 'prompt' and 'completion', or 'messages' with the completion last"


def datums(rows: Path | Iterable[Mapping[str, Any]], tokenizer: Tokenizer, context: int) -> list[Datum]:
    """One datum a row: prompt, completion and the end token, of which the prompt does not count.

    Raises DatasetError, with the row, for one without text or longer than the context.
    """
    found = [_datum(where, *_texts(where, row), tokenizer, context) for where, row in _numbered(rows)]
    if not found:
        raise DatasetError(f"the rows to train on are empty: {_WANTED}")
    return found


def _numbered(rows: Path | Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(rows, Path):
        yield from ((f"line {line} of {rows}", row) for line, row in read_rows(rows, what="training data"))
    else:
        yield from ((f"row {number} to train on", row) for number, row in enumerate(rows, start=1))


def _texts(where: str, row: Any) -> tuple[str, str]:
    given = row if isinstance(row, Mapping) else {}
    prompt, completion = given.get("prompt"), given.get("completion")
    if "messages" in given:
        prompt, completion = _conversation(given["messages"])
    if not isinstance(prompt, str) or not isinstance(completion, str):
        raise DatasetError(f"{where} has no text to train on: {_WANTED}")
    return prompt, completion


def _conversation(messages: Any) -> tuple[str | None, str | None]:
    """Prompt and completion, rendered as the backend renders a question."""
    try:
        return finished(messages)
    except TypeError:
        return None, None


def _datum(where: str, prompt: str, completion: str, tokenizer: Tokenizer, context: int) -> Datum:
    asked = tokenizer.encode(prompt) or [tokenizer.eos]
    answer = [*tokenizer.encode(completion), tokenizer.eos]
    tokens = asked + answer
    if len(tokens) - 1 > context:
        raise DatasetError(f"{where} has {len(tokens) - 1} tokens, the model's context is {context}: shorten it")
    weights = np.repeat([0.0, 1.0], [len(asked) - 1, len(answer)]).astype(np.float32)
    return Datum(tokens[:-1], {"target_tokens": np.asarray(tokens[1:]), "weights": weights})
