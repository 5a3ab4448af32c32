"""FEVER: claims that sentences of Wikipedia support or refute, or that they give too little information on.

Thorne et al. 2018, "FEVER: a Large-scale Dataset for Fact Extraction and VERification", NAACL, https://fever.ai.
Annotations: CC BY-SA 3.0. The evidence is named by page and sentence; the sentences themselves are Wikipedia's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.jsonl import read_rows
from pytest_crucible.datasets.release import OfficialFile, Release
from pytest_crucible.records.errors import DatasetError

_SPLITS = {
    "fever": ("paper_dev", 9_999, "41158707810008747946bf23471e82df53e77a513524b9e3ec1c2e674ef5ef8c"),
    "fever-train": ("train", 145_449, "eba7e8f87076753f8494718b9a857827af7bf73e76c9e4b75420207d26e588b6"),
}
LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")


def release(name: str) -> Release:
    """Return the release of `fever` (the paper's development set, labels balanced) or `fever-train`. Raises KeyError."""
    split, samples, sha256 = _SPLITS[name]
    file = OfficialFile(
        name=f"fever/{split}.jsonl", url=f"https://fever.ai/download/fever/{split}.jsonl", sha256=sha256
    )
    return Release(
        name=name,
        says=f"claims; the expected answer is one of {', '.join(LABELS)}",
        samples=samples,
        licence="CC BY-SA 3.0",
        source="https://fever.ai",
        files=(file,),
        read=_claims,
    )


def _claims(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the claims; those whose first piece of evidence is on the same page are a group."""
    for line, row in read_rows(paths[0]):
        missing = {"id", "claim", "label", "evidence"} - set(row)
        if missing or row["label"] not in LABELS:
            wrong = f"has no {min(missing)!r}" if missing else f"has the label {row['label']!r}"
            raise DatasetError(f"line {line} of {paths[0]} {wrong}: expected id, claim, evidence and one of {LABELS}")
        evidence = evidence_of(row)
        yield {
            "id": str(row["id"]),
            "input": row["claim"],
            "expected": row["label"],
            "group": evidence[0][0][0] if evidence else f"claim {row['id']}",
            "evidence": evidence,
        }


def evidence_of(row: Mapping[str, Any]) -> list[list[tuple[str, int]]]:
    """Return the sets of (page, sentence), each of which is sufficient; empty for NOT ENOUGH INFO.

    >>> evidence_of({"evidence": [[[1, 2, "Soul_Food", 0], [1, 3, "Fox_2000", 4]], [[5, None, None, None]]]})
    [[('Soul_Food', 0), ('Fox_2000', 4)]]
    """
    sets = ([(page, line) for _, _, page, line in piece if page is not None] for piece in row["evidence"])
    return [piece for piece in sets if piece]
