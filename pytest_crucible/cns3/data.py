"""SciFact, from its official release: claims CC BY 4.0, abstracts ODC-By 1.0 (S2ORC).

Wadden et al. 2020, "Fact or Fiction: Verifying Scientific Claims", EMNLP, https://github.com/allenai/scifact
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pytest_crucible.cns3.scifact import samples
from pytest_crucible.datasets.fetch import data_file

RELEASE = "https://scifact.s3-us-west-2.amazonaws.com/release/latest/data.tar.gz"
SHA256 = {
    "claims_dev.jsonl": "86f0435d08fdb65d1aa41d1472684f57e6e71930626497bdf4d7a9ec1a632217",
    "claims_train.jsonl": "f4c8fa82d8bd0653a9cc8d61a6ea48c25eacea64e90af5dbf390ebb1b74372f0",
    "corpus.jsonl": "b8d6c89624cb2ed74dee8938effc4f5d8bd2086887880af8110d64be4ceade62",
}
DATASETS = {"scifact-dev": "claims_dev.jsonl", "scifact-train": "claims_train.jsonl"}


def scifact(name: str) -> Iterator[dict[str, Any]]:
    """The samples of `scifact-dev` (300 claims) or `scifact-train` (809). Raises DatasetError, KeyError for another name."""
    return samples(claims(name), corpus())


def claims(name: str) -> list[dict[str, Any]]:
    """The rows of a split as they are released."""
    return list(_rows(DATASETS[name]))


@cache
def corpus() -> Mapping[str, Mapping[str, Any]]:
    """All 5,183 abstracts by their ids; read once a process."""
    return {str(row["doc_id"]): row for row in _rows("corpus.jsonl")}


def _rows(file: str) -> Iterator[dict[str, Any]]:
    path: Path = data_file(f"scifact/{file}", url=RELEASE, sha256=SHA256[file], member=f"data/{file}")
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
