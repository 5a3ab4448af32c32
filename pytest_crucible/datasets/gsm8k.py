"""GSM8K: grade-school word problems; each worked answer ends in a number (OpenAI, MIT licence).

Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems", https://github.com/openai/grade-school-math
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.jsonl import read_rows
from pytest_crucible.datasets.release import OfficialFile, Release

# A fixed commit: the checksums below are those of its files.
_COMMIT = "3101c7d5072418e28b9008a6636bde82a006892c"
_URL = f"https://raw.githubusercontent.com/openai/grade-school-math/{_COMMIT}/grade_school_math/data"
_SPLITS = {
    "gsm8k": ("test", 1319, "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14"),
    "gsm8k-train": ("train", 7473, "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465"),
}


def release(name: str) -> Release:
    """Return the release of `gsm8k` (the test set) or `gsm8k-train`. Raises KeyError."""
    split, samples, sha256 = _SPLITS[name]

    def read(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
        for number, (_, row) in enumerate(read_rows(paths[0])):
            yield {"id": f"gsm8k_{split}_{number}", "input": row["question"], "expected": row["answer"]}

    return Release(
        name=name,
        says="grade-school word problems; the expected answer ends in a number",
        samples=samples,
        licence="MIT",
        source="https://github.com/openai/grade-school-math",
        files=(OfficialFile(name=f"gsm8k/{split}.jsonl", url=f"{_URL}/{split}.jsonl", sha256=sha256),),
        read=read,
    )
