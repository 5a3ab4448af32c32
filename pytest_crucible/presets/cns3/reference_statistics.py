"""Freezes how MiniLM's embeddings vary over the claims of SciFact's training split.

    python -m pytest_crucible.presets.cns3.reference_statistics

This writes the file that comes with the package. It needs the extra `[semantic]`, and SciFact (CC BY 4.0), which is downloaded or
read from $CRUCIBLE_DATA.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from pytest_crucible.presets.cns3.data import SHA256, claims
from pytest_crucible.presets.cns3.reference import FROZEN, freeze, save

PRECISION = "float32"
TEXTS = f"the claims of scifact-train, CC BY 4.0, sha256 {SHA256['claims_train.jsonl']}"


def main() -> None:
    """Write the file and say its hash."""
    # torch takes seconds to import.
    from pytest_crucible.metrics.models.embeddings import EmbeddingScorer

    scorer = EmbeddingScorer(root=Path(), precision=PRECISION)
    embeddings = asyncio.run(scorer.embed([str(row["claim"]) for row in claims("scifact-train")]))
    reference = freeze(scorer.identity.removesuffix(f":{PRECISION}"), embeddings, texts=TEXTS)
    save(reference, FROZEN / "minilm.json")
    print(
        f"{reference.n} claims, {len(reference.variances)} dimensions of {reference.scorer}: sha256 {reference.sha256}"
    )


if __name__ == "__main__":
    main()
