"""GSM8K's test questions and four models' published solutions, read from the official files (OpenAI, MIT licence).

Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems", https://github.com/openai/grade-school-math
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.fetch import data_file

_SOURCE = (
    "https://raw.githubusercontent.com/openai/grade-school-math/"
    "3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data"
)
_SHA256 = {
    "test.jsonl": "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
    "example_model_solutions.jsonl": "4bc62db838f8418365d51c627bd66294cbdca9fb7f01519cb13f0dce8c51580b",
}


def questions() -> Iterator[dict[str, Any]]:
    """The 1,319 questions of the test set; what is expected is the worked answer, which ends in the number."""
    for number, row in enumerate(_rows("test.jsonl")):
        yield {"id": f"gsm8k_test_{number}", "input": row["question"], "expected": row["answer"]}


def answers(model: str) -> Iterator[dict[str, Any]]:
    """A model's solution to each question, in the form of recorded answers."""
    for number, row in enumerate(_rows("example_model_solutions.jsonl")):
        yield {"sample_id": f"gsm8k_test_{number}", "text": row[model]["solution"]}


def models() -> list[str]:
    """The models whose solutions were published."""
    first = next(iter(_rows("example_model_solutions.jsonl")))
    return [name for name, value in first.items() if isinstance(value, dict)]


def _rows(name: str) -> Iterator[dict[str, Any]]:
    path: Path = data_file(f"gsm8k/{name}", url=f"{_SOURCE}/{name}", sha256=_SHA256[name])
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)
