"""Frozen reference statistics of embeddings, by the scorer that they belong to.

`python -m reference_statistics` makes them from published claims. Their hash is part of every metric that uses them, so that
answers that were judged by others are not compared with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.errors import SpecError

if TYPE_CHECKING:
    import numpy as np

FROZEN = Path(__file__).parent / "frozen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """How embeddings vary over texts that do not depend on what is judged."""

    scorer: str
    """The scorer's identity, perhaps without its precision: rounding does not move a variance."""
    texts: str
    """What was embedded, its licence, and the SHA-256 of the file that has it."""
    n: int
    variances: tuple[float, ...]
    """Population variance of each dimension, to four digits."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def is_of(self, identity: str) -> bool:
        return identity == self.scorer or identity.startswith(f"{self.scorer}:")


def freeze(scorer: str, embeddings: np.ndarray, *, texts: str) -> Reference:
    """The statistics of embeddings (n, d)."""
    variances = tuple(float(f"{one:.4g}") for one in embeddings.var(axis=0))
    return Reference(scorer=scorer, texts=texts, n=len(embeddings), variances=variances)


def save(reference: Reference, path: Path) -> None:
    """Write it with its hash."""
    path.write_text(json.dumps({**asdict(reference), "sha256": reference.sha256}, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Reference:
    """Raises SpecError for a file whose content is not what its hash says."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    said = plain.pop("sha256")
    reference = Reference(**{**plain, "variances": tuple(plain["variances"])})
    if reference.sha256 != said:
        raise SpecError(
            f"the reference statistics in {path} have the hash {reference.sha256[:12]}..., not {said[:12]}... as they say: "
            "make them again with python -m reference_statistics"
        )
    return reference


def reference_of(scorer: str) -> Reference | None:
    """Those of the scorer of that identity; None where nothing is frozen for it."""
    return next((one for one in _frozen() if one.is_of(scorer)), None)


def variances_of(scorer: str) -> np.ndarray | None:
    """The variance of each dimension and a little more, as `chirality.variances` has it; None where nothing is frozen."""
    import numpy as np

    from pytest_crucible.cns3.chirality import JITTER

    reference = reference_of(scorer)
    return None if reference is None else np.array(reference.variances) + JITTER


@cache
def _frozen() -> Sequence[Reference]:
    return [read(path) for path in sorted(FROZEN.glob("*.json"))]
