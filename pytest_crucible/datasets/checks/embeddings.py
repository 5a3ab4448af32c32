"""Embeddings of texts for checks and commands: MiniLM, which the extra `[semantic]` installs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def open_embed() -> Callable[[Sequence[str]], Any]:
    """Return a function from texts to vectors of length 1, shape (n, 384). Raises SpecError without the extra."""
    from pytest_crucible.metrics.models.embeddings import EmbeddingScorer

    scorer = EmbeddingScorer(root=Path.cwd())
    return lambda texts: asyncio.run(scorer.embed(list(texts)))
