"""A tiny base, and a trainer of an adapter on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiment_builders import store  # noqa: F401 - a fixture
from tiny_base import write_tiny_base

from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training.trainer import EmbeddedTrainer, RecipeTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.engine import Engine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return open_engine(write_tiny_base(tmp_path_factory.mktemp("base")))


@pytest.fixture
def trainer(engine: Engine, tmp_path: Path) -> RecipeTrainer:
    return EmbeddedTrainer(engine, LoraSpec(rank=4, seed=3), folder=tmp_path)
