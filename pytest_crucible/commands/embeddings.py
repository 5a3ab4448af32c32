"""The option `--embeddings` of commands."""

from __future__ import annotations

import click

embeddings_option = click.option(
    "--embeddings", is_flag=True, help="Compare the meaning of texts, by MiniLM (extra [semantic])."
)
