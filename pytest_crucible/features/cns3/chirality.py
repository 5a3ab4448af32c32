"""Chirality: the distance of c1 from the gold claim, in a measure that Thinker calls Fisher-Rao, as one number.

The distance is a diagonal Mahalanobis distance between embeddings. Thinker takes the variances from the gold claims of the same
batch, so that a sample's value depends on the other samples; here they are frozen, and their hash is part of the metric.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np

from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.metrics.models.scorers import SimilarityScorer
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

FROZEN = Path(__file__).parent / "frozen"
# Added to each variance, as Thinker does: a dimension in which all texts agree must not divide by zero.
JITTER = 1e-6


@dataclass(frozen=True, slots=True)
class Chirality:
    """The value and its parts."""

    value: float
    distance: float
    overlap: float
    conflict: bool


def chirality(distance: float, overlap: float, conflict: bool) -> float:
    """min(1, 0.6 d / (d + 1) + 0.2 (1 - overlap) + 0.25 if the polarity conflicts).

    >>> round(chirality(22.64, 0.6, False), 4), round(chirality(34.748, 1, True), 4)
    (0.6546, 0.8332)
    """
    share = min(max(overlap, 0.0), 1.0)
    return min(1.0, 0.6 * distance / (distance + 1) + 0.2 * (1 - share) + (0.25 if conflict else 0.0))


def distance(first: np.ndarray, second: np.ndarray, variance: np.ndarray) -> float:
    """Return sqrt(sum (a - b)^2 / variance)."""
    return float(np.sqrt(np.sum((first - second) ** 2 / variance)))


async def measure_chirality(
    scorer: SimilarityScorer, text: str, gold: str, *, overlap: float | None, conflict: bool
) -> Chirality | NotApplicable:
    """Measure chirality against the scorer's frozen variances. Without a gold document nothing is left out: overlap 1."""
    variance = frozen_variances(scorer.identity)
    if variance is None:
        return NotApplicable(f"there are no frozen reference statistics for scorer {scorer.identity!r}")
    if not text:
        return NotApplicable("the reply has no central claim")
    claim, gold_claim = await scorer.embed([text, gold])
    gap, share = distance(claim, gold_claim, variance), 1.0 if overlap is None else overlap
    return Chirality(chirality(gap, share, conflict), gap, share, conflict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Variances of embeddings over texts that are independent of the scored ones."""

    scorer: str
    """The scorer's identity, possibly without its precision: rounding does not change a variance."""
    texts: str
    """The texts that were embedded, their licence, and the SHA-256 of their file."""
    n: int
    variances: tuple[float, ...]
    """Population variance of each dimension, to four digits."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def is_of(self, identity: str) -> bool:
        return identity == self.scorer or identity.startswith(f"{self.scorer}:")


def freeze(scorer: str, embeddings: np.ndarray, *, texts: str) -> Reference:
    """Return the statistics of embeddings (n, d)."""
    # Four digits suffice for a distance, and make the file and its hash stable across machines.
    variances = tuple(float(f"{variance:.4g}") for variance in embeddings.var(axis=0))
    return Reference(scorer=scorer, texts=texts, n=len(embeddings), variances=variances)


def save(reference: Reference, path: Path) -> None:
    """Write the statistics with their hash."""
    path.write_text(json.dumps({**asdict(reference), "sha256": reference.sha256}, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Reference:
    """Read statistics. Raises SpecError if the content does not match the hash."""
    content = json.loads(path.read_text(encoding="utf-8"))
    expected_hash = content.pop("sha256")
    reference = Reference(**{**content, "variances": tuple(content["variances"])})
    if reference.sha256 != expected_hash:
        raise SpecError(
            f"the reference statistics in {path} have the hash {reference.sha256[:12]}...; expected {expected_hash[:12]}...: "
            "make them again with python -m pytest_crucible.features.cns3.chirality"
        )
    return reference


def find_reference(scorer: str) -> Reference | None:
    """Return the statistics of the scorer with this identity; None if there are none."""
    return next((reference for reference in _frozen() if reference.is_of(scorer)), None)


def frozen_variances(scorer: str) -> np.ndarray | None:
    """Return the variance of each dimension plus JITTER; None without statistics."""
    reference = find_reference(scorer)
    return None if reference is None else np.array(reference.variances) + JITTER


@cache
def _frozen() -> Sequence[Reference]:
    return [read(path) for path in sorted(FROZEN.glob("*.json"))]


def main() -> None:
    """Freeze how MiniLM's embeddings vary over the claims of SciFact's training split; print the hash of the file.

    It needs the extra `[semantic]`, and SciFact (CC BY 4.0), which is downloaded or read from $CRUCIBLE_DATA.
    """
    # torch takes seconds to import.
    from pytest_crucible.features.cns3.scifact import SHA256, claims
    from pytest_crucible.metrics.models.local import EmbeddingScorer

    texts = f"the claims of scifact-train, CC BY 4.0, sha256 {SHA256['claims_train.jsonl']}"
    scorer = EmbeddingScorer(root=Path(), precision="float32")
    embeddings = asyncio.run(scorer.embed([str(row["claim"]) for row in claims("scifact-train")]))
    reference = freeze(scorer.identity.removesuffix(":float32"), embeddings, texts=texts)
    save(reference, FROZEN / "minilm.json")
    print(
        f"{reference.n} claims, {len(reference.variances)} dimensions of {reference.scorer}: sha256 {reference.sha256}"
    )


if __name__ == "__main__":
    main()
