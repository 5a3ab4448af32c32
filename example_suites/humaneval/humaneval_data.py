"""Solutions that models gave to the problems of HumanEval (OpenAI, MIT licence).

Chen et al. 2021, "Evaluating Large Language Models Trained on Code", https://github.com/openai/human-eval
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import DatasetError


def answers(solutions: str) -> Iterator[dict[str, Any]]:
    """The saved solutions of a run, in the form of recorded replies; they lie in $CRUCIBLE_DATA only."""
    if "CRUCIBLE_DATA" not in os.environ:
        raise DatasetError("set CRUCIBLE_DATA to a directory that has the saved solutions: README.md says which")
    path = Path(os.environ["CRUCIBLE_DATA"]) / "humaneval" / f"solutions_{solutions}.jsonl.gz"
    if not path.is_file():
        raise DatasetError(f"{path} is not there: README.md says what it has")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            yield {"sample_id": row["task_id"], "text": row["code"]}
