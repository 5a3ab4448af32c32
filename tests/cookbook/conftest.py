"""A local server that stands in for the models of tinker-cookbook's recipes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pytest_crucible.local_model.server.cookbook_names import read_cookbook_names
from pytest_crucible.local_model.server.hub_cache import write_hub_cache
from pytest_crucible.local_model.server.process import LocalServer


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> Iterator[dict[str, str]]:
    home = tmp_path_factory.mktemp("cookbook")
    models = read_cookbook_names().models
    options = [
        *(part for name in models for part in ("--as", name)),
        "--stand-in",
        "stable_reinforce=importance_sampling",
    ]
    cache = write_hub_cache(home / "hub", models)
    with LocalServer.start(home / "tinker", options=options) as server:
        yield {**os.environ, **server.environment(), **cache, "TINKER_COOKBOOK_RUNS_DIR": str(home / "runs")}
