"""HumanEval: 164 Python functions to write, each with tests (OpenAI, MIT licence).

Chen et al. 2021, "Evaluating Large Language Models Trained on Code", https://github.com/openai/human-eval
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.jsonl import read_rows
from pytest_crucible.datasets.release import OfficialFile, Release

# A fixed commit: the checksum below is that of its file.
_COMMIT = "6d43fb980f9fee3c892a914eda09951f772ad10d"
_FILE = OfficialFile(
    name="humaneval/HumanEval.jsonl.gz",
    url=f"https://raw.githubusercontent.com/openai/human-eval/{_COMMIT}/data/HumanEval.jsonl.gz",
    sha256="b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
)


def release(name: str) -> Release:
    """Return the release of `humaneval`. Raises KeyError for another name."""
    if name != "humaneval":
        raise KeyError(name)
    return Release(
        name=name,
        says="Python functions to write; `humaneval_pass` runs the tests",
        samples=164,
        licence="MIT",
        source="https://github.com/openai/human-eval",
        files=(_FILE,),
        read=_problems,
    )


def _problems(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the problems; the canonical solution is expected, the tests are metadata."""
    for _, row in read_rows(paths[0]):
        metadata = {name: row[name] for name in ("test", "entry_point")}
        yield {"id": row["task_id"], "input": row["prompt"], "expected": row["canonical_solution"], **metadata}
