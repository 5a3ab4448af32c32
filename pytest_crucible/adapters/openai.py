"""Adapters with `backend = "openai"`: a model on a server that speaks the OpenAI protocol."""

from __future__ import annotations

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.backends import Backend
from pytest_crucible.backends.openai.backend import open_openai
from pytest_crucible.records import Adapter


def open_server(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open `model` at `base_url`; docs/how-to/adapters.md has all settings. Raises SpecError."""
    return open_openai(adapter, context.root)
