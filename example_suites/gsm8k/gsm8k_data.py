"""Four models' published solutions to the test questions of GSM8K, read from the official file (OpenAI, MIT licence).

Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems", https://github.com/openai/grade-school-math
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from pytest_crucible.datasets.release import OfficialFile

_SOLUTIONS = OfficialFile(
    name="gsm8k/example_model_solutions.jsonl",
    url="https://raw.githubusercontent.com/openai/grade-school-math/"
    "3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/example_model_solutions.jsonl",
    sha256="4bc62db838f8418365d51c627bd66294cbdca9fb7f01519cb13f0dce8c51580b",
)


def answers(model: str) -> Iterator[dict[str, Any]]:
    """A model's solution to each question, in the form of recorded replies."""
    for number, row in enumerate(_rows()):
        yield {"sample_id": f"gsm8k_test_{number}", "text": row[model]["solution"]}


def models() -> list[str]:
    """The models whose solutions were published."""
    first = next(iter(_rows()))
    return [name for name, value in first.items() if isinstance(value, dict)]


def _rows() -> Iterator[dict[str, Any]]:
    path = _SOLUTIONS.path()
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)
