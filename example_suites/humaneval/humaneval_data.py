"""HumanEval's 164 problems, from the official file (OpenAI, MIT licence), and solutions that models gave.

Chen et al. 2021, "Evaluating Large Language Models Trained on Code", https://github.com/openai/human-eval
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.fetch import data_file
from pytest_crucible.errors import DatasetError

_COMMIT = "6d43fb980f9fee3c892a914eda09951f772ad10d"
_URL = f"https://raw.githubusercontent.com/openai/human-eval/{_COMMIT}/data/HumanEval.jsonl.gz"
_SHA256 = "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"


def problems() -> Iterator[dict[str, Any]]:
    """The problems; what is expected is the canonical solution, and the tests are in the metadata."""
    for row in _rows(data_file("humaneval/HumanEval.jsonl.gz", url=_URL, sha256=_SHA256)):
        kept = {name: row[name] for name in ("test", "entry_point")}
        yield {"id": row["task_id"], "input": row["prompt"], "expected": row["canonical_solution"], **kept}


def answers(solutions: str) -> Iterator[dict[str, Any]]:
    """The saved solutions of a run, in the form of recorded answers; they lie in $CRUCIBLE_DATA only."""
    if "CRUCIBLE_DATA" not in os.environ:
        raise DatasetError("set CRUCIBLE_DATA to a directory that has the saved solutions: README.md says which")
    path = Path(os.environ["CRUCIBLE_DATA"]) / "humaneval" / f"solutions_{solutions}.jsonl.gz"
    if not path.is_file():
        raise DatasetError(f"{path} is not there: README.md says what it has")
    for row in _rows(path):
        yield {"sample_id": row["task_id"], "text": row["code"]}


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)
