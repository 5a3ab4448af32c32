"""Embeddings of texts for commands: MiniLM, which the extra `[semantic]` installs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

embeddings_option = click.option(
    "--embeddings", is_flag=True, help="Compare the meaning of texts, by MiniLM (extra [semantic])."
)


def open_embed() -> Callable[[Sequence[str]], Any]:
    """Return a function from texts to vectors of length 1. Raises SpecError where the extra is not installed."""
    from pytest_crucible.metrics.models.embeddings import EmbeddingScorer

    scorer = EmbeddingScorer(root=Path.cwd())
    return lambda texts: asyncio.run(scorer.embed(list(texts)))
