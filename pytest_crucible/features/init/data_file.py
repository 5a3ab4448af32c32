"""The data of a first suite: the fields of a file, which of them are input and expected answer, and the metric that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.load import FIELDS, file_source
from pytest_crucible.metrics.numbers import final_number
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import DatasetError

# Names of fields in public datasets, the likeliest first.
LIKELY: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "sample_id", "question_id", "uid", "task_id"),
    "input": ("input", "question", "prompt", "problem", "query", "instruction", "text", "claim"),
    "expected": (
        "expected",
        "answer",
        "target",
        "expected_output",
        "reference",
        "label",
        "ideal",
        "output",
        "solution",
    ),
    "group": ("group",),
}


OWN = "samples.jsonl"
"""The file for samples that are not in a file of the user's."""
# The first expected answers show the kind of all.
MANY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenMetric:
    """The metric of a first suite, and why it fits."""

    name: str
    reason: str


def first_row(path: Path) -> Mapping[str, Any]:
    """Return the first row of a data file by its own fields. Raises DatasetError."""
    _, file_format = file_source(path)
    row = next((row for _, row in islice(file_format.read(path), 1)), None)
    if not isinstance(row, Mapping):
        raise DatasetError(
            f"{path} has no row with fields: write one object per line, with an input and an expected answer"
        )
    return row


def guess_fields(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the file's names of a sample's fields, by usual names.

    >>> guess_fields({"question": "1 + 1?", "answer": "2", "level": 1})
    {'input': 'question', 'expected': 'answer'}
    """
    likely = {field: next((name for name in LIKELY[field] if name in row), None) for field in FIELDS}
    return {field: name for field, name in likely.items() if name is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteData:
    """The samples of a first suite: a file of the user's, or rows for a file of its own."""

    name: str
    """The path of the file, or the name of a built-in dataset."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields of samples that have another name in the file."""
    rows: Sequence[Mapping[str, Any]] = ()
    """The content of the file, if it is to be written."""
    expected: Sequence[Any] = ()
    """The expected answers of all samples."""

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> SuiteData:
        return cls(name=OWN, rows=rows, expected=[row.get("expected") for row in rows])


# What the embedded model has learnt beside its science; any other model knows it, too.
_OPPOSITES = (
    "hot cold big small early late open closed full empty fast slow wet dry old new high low long short hard soft"
)
_HOMES = "bees hive birds nest horses stable fish water bears den spiders web hens coop dogs kennel rabbits burrow"


def example_rows() -> list[dict[str, str]]:
    """Return easy questions with answers of one word."""
    opposites, homes = _OPPOSITES.split(), _HOMES.split()
    pairs = zip(opposites[::2], opposites[1::2], strict=True)
    answers = {f"what is the opposite of {word}?": other for pair in pairs for word, other in (pair, pair[::-1])}
    answers |= {f"where do {who} live?": home for who, home in zip(homes[::2], homes[1::2], strict=True)}
    return [
        {"id": f"q{number:02}", "input": f"Question: {question}\nAnswer:", "expected": answer}
        for number, (question, answer) in enumerate(answers.items(), 1)
    ]


def choose_metric(expected: Sequence[Any]) -> ChosenMetric:
    """Return the metric for expected answers."""
    answers = [answer for answer in expected[:MANY] if answer is not None]
    if not answers:
        return ChosenMetric(
            name="truncated", reason="there are no expected answers, so that only cut replies are counted"
        )
    if all(not isinstance(answer, list | dict) and final_number(str(answer)) is not None for answer in answers):
        return ChosenMetric(name="final_number_matches", reason="the expected answers have numbers")
    return ChosenMetric(name="contains_expected", reason="the expected answers are texts")
