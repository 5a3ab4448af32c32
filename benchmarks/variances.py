"""Freezes what chirality measures distances by: the variances of MiniLM's embeddings of SciFact's training claims."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest_crucible.cns3.reference
from pytest_crucible.cns3.chirality import variances
from pytest_crucible.cns3.data import claims
from pytest_crucible.cns3.reference import FILE
from pytest_crucible.scorers.embeddings import EmbeddingScorer

DIGITS = 9


def main() -> None:
    scorer = EmbeddingScorer(root=Path(), precision="float32")
    texts = [row["claim"] for row in claims("scifact-train")]
    found = variances(asyncio.run(scorer.embed(texts)))
    name = scorer.identity.removesuffix(":float32")
    path = Path(pytest_crucible.cns3.reference.__file__).with_name(FILE)
    path.write_text(json.dumps({name: [round(float(one), DIGITS) for one in found]}) + "\n", encoding="utf-8")
    print(f"{len(texts)} claims, {len(found)} dimensions, in {path}")


if __name__ == "__main__":
    main()
