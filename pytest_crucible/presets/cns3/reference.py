"""Frozen reference statistics of embeddings, by scorer.

The module `reference_statistics` makes them from published claims. Their hash is part of each metric that uses them, so that
scores by other statistics are never compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.records.errors import SpecError

if TYPE_CHECKING:
    import numpy as np

FROZEN = Path(__file__).parent / "frozen"
# Added to each variance, as Thinker does: a dimension in which all texts agree must not divide by zero.
JITTER = 1e-6


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
            "make them again with python -m pytest_crucible.presets.cns3.reference_statistics"
        )
    return reference


def find_reference(scorer: str) -> Reference | None:
    """Return the statistics of the scorer with this identity; None if there are none."""
    return next((reference for reference in _frozen() if reference.is_of(scorer)), None)


def frozen_variances(scorer: str) -> np.ndarray | None:
    """Return the variance of each dimension plus JITTER, see `chirality.variances`; None without statistics."""
    import numpy as np

    reference = find_reference(scorer)
    return None if reference is None else np.array(reference.variances) + JITTER


@cache
def _frozen() -> Sequence[Reference]:
    return [read(path) for path in sorted(FROZEN.glob("*.json"))]
