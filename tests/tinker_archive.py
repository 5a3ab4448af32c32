"""Checkpoints on the Tinker service of this machine, as `save_weights_for_sampler` leaves them."""

from __future__ import annotations

from pathlib import Path

from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.local_model.server.archive import SAMPLER, Archive, CheckpointInfo, CheckpointPath

BASE = "crucible/tiny"


def save_on_tinker(
    folder: Path, name: str, seed: int, *, base: str = BASE, expires: float | None = None, steps: int | None = None
) -> str:
    """Save a checkpoint in the folder of the service, and return its path there."""
    engine = Engine.load_packaged()
    digest = engine.base_sha256 if base == BASE else "0" * 64
    about = CheckpointInfo(base, digest, {"rank": 4}, created=1.7e9 + seed, expires=expires, steps=steps)
    with Archive(folder).write_checkpoint(CheckpointPath(f"run-{seed}", SAMPLER, name), about) as place:
        engine.trainer(LoraSpec(rank=4, seed=seed)).save_sampler(place)
    return f"tinker://run-{seed}/sampler_weights/{name}"
