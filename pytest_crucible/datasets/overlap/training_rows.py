"""Training rows as texts: everything that a model read in each row, from any of the usual forms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_crucible.datasets.load import file_source
from pytest_crucible.datasets.objects import as_rows
from pytest_crucible.records import Sample

_ANSWERS = ("expected", "completion", "answer", "label", "output", "response", "target", "chosen", "preferred_output")
"""Fields of an answer, in order of preference."""
LEAST_OF_REPLY = 8
"""Words of a reply that samples are compared with: a shorter one, such as a number, is equal to a short input by chance."""
_NO_TEXT = frozenset({"id", "group", "rejected", "non_preferred_output", *_ANSWERS})


class TrainingText(NamedTuple):
    """The texts of one training row, and its number."""

    number: int
    texts: tuple[str, ...]
    """The texts that a sample may be equal or similar to: the prompt, each of its messages, the completion."""
    answer: str | None
    group: str | None


def read_training_rows(path: Path) -> Iterator[TrainingText]:
    """Yield the rows of a file: JSONL, a JSON array, CSV, TSV or Parquet. Raises DatasetError."""
    _, read = file_source(path)
    return (_of_mapping(number, row) for number, row in read(path))


def training_rows(rows: Iterable[Any]) -> Iterator[TrainingText]:
    """Yield the rows of a dataset in memory, numbered from 1."""
    for number, row in enumerate(as_rows(rows), start=1):
        if isinstance(row, Sample):
            yield TrainingText(number, tuple(_texts(row.input)), answer_text(row.expected), row.group)
        else:
            yield _of_mapping(number, row)


def answer_text(value: Any) -> str | None:
    """Return an answer as a text; None if it is unknown, as for a mapping without a label.

    >>> answer_text("Yes"), answer_text(7), answer_text({"label": "SUPPORT", "claim": "c1"}), answer_text({"claim": "c1"})
    ('Yes', '7', 'SUPPORT', None)
    """
    if isinstance(value, Mapping):
        return next((answer_text(value[name]) for name in ("label", "content", *_ANSWERS) if name in value), None)
    if isinstance(value, list | tuple):
        return answer_text(value[0]) if len(value) == 1 else None
    return None if value is None else str(value) or None


def _of_mapping(number: int, row: Any) -> TrainingText:
    if not isinstance(row, Mapping):
        return TrainingText(number, tuple(_texts(row)), None, None)
    messages, answer = row.get("messages"), next((row[name] for name in _ANSWERS if row.get(name) is not None), None)
    if answer is None and isinstance(messages, list) and len(messages) > 1:
        answer = _content(messages[-1])
    prompts = [text for name, value in row.items() if name not in _NO_TEXT for text in _texts(value)]
    reply = [text for text in _texts(answer) if len(text.split()) >= LEAST_OF_REPLY]
    # A comparison or a chat has its answer among its texts already.
    texts = dict.fromkeys(text for text in (*prompts, *reply) if text)
    group = row.get("group")
    return TrainingText(number, tuple(texts), answer_text(answer), None if group is None else str(group))


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts inside of a value: a text, messages, or mappings and lists of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            # The role of a message is not a text that was learnt.
            if name not in ("role", "type"):
                yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)


def _content(message: Any) -> Any:
    return message.get("content") if isinstance(message, Mapping) else message
