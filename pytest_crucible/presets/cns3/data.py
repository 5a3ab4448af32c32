"""The SciFact dataset in its official release: claims CC BY 4.0, abstracts ODC-By 1.0 (S2ORC).

Wadden et al. 2020, "Fact or Fiction: Verifying Scientific Claims", EMNLP, https://github.com/allenai/scifact
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pytest_crucible.datasets.jsonl import read_rows
from pytest_crucible.datasets.release import OfficialFile, Release
from pytest_crucible.presets.cns3.scifact import samples

RELEASE = "https://scifact.s3-us-west-2.amazonaws.com/release/latest/data.tar.gz"
SHA256 = {
    "claims_dev.jsonl": "86f0435d08fdb65d1aa41d1472684f57e6e71930626497bdf4d7a9ec1a632217",
    "claims_train.jsonl": "f4c8fa82d8bd0653a9cc8d61a6ea48c25eacea64e90af5dbf390ebb1b74372f0",
    "corpus.jsonl": "b8d6c89624cb2ed74dee8938effc4f5d8bd2086887880af8110d64be4ceade62",
}
DATASETS = {"scifact-dev": ("claims_dev.jsonl", 300), "scifact-train": ("claims_train.jsonl", 809)}


def release(name: str) -> Release:
    """Return the release `scifact-dev` or `scifact-train`. Raises KeyError."""
    file, count = DATASETS[name]
    return Release(
        name=name,
        says="claims to extract from the abstracts that their authors cited; expected label SUPPORT, CONTRADICT or NEI",
        samples=count,
        licence="CC BY 4.0; abstracts ODC-By 1.0",
        source="https://github.com/allenai/scifact",
        files=(_file(file), _file("corpus.jsonl")),
        read=lambda paths: samples(claims(name), corpus()),
    )


def claims(name: str) -> list[dict[str, Any]]:
    """Return the rows of a split as released."""
    return _rows(DATASETS[name][0])


@cache
def corpus() -> Mapping[str, Mapping[str, Any]]:
    """Return all 5,183 abstracts by id; read once per process."""
    return {str(row["doc_id"]): row for row in _rows("corpus.jsonl")}


def _rows(file: str) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(_file(file).path())]


def _file(name: str) -> OfficialFile:
    return OfficialFile(name=f"scifact/{name}", url=RELEASE, sha256=SHA256[name], member=f"data/{name}")
