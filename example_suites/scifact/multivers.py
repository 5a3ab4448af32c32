"""MultiVerS's predictions as replies in the claim format.

MultiVerS judges a given claim and does not write one. So c1 is that claim itself, and similarity to the gold claim says nothing
here; each document with a verdict becomes a claim of the sentences that it chose, and a relation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.features.cns3.scifact import claims, completion, corpus, read_relation

PREDICTIONS = Path(__file__).parent / "predictions"


def checkpoints() -> list[str]:
    """The names of the checkpoints whose predictions are here."""
    return sorted(path.stem.removesuffix("_dev") for path in PREDICTIONS.glob("*_dev.jsonl"))


def replies(checkpoint: str) -> Iterator[dict[str, Any]]:
    """One recorded answer for each claim."""
    asked = {row["id"]: row["claim"] for row in claims("scifact-dev")}
    for line in (PREDICTIONS / f"{checkpoint}_dev.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        evidence = [(name, _chosen(name, one), read_relation(one["label"])) for name, one in row["evidence"].items()]
        yield {"sample_id": str(row["id"]), "text": completion(asked[row["id"]], evidence)}


def _chosen(document: str, predicted: Mapping[str, Any]) -> str:
    """The chosen sentences; the title where it chose none."""
    abstract = corpus()[document]["abstract"]
    return " ".join(abstract[line] for line in predicted["sentences"]) or corpus()[document]["title"]
