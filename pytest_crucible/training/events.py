"""Training as events: each step, and the checkpoint that it comes to."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_crucible.records import Emit, Event
from pytest_crucible.training.log import Log
from pytest_crucible.training.trained import Trained


def steps_told(watch: Callable[[Log], None], emit: Emit, adapter: str) -> Callable[[Log], None]:
    """Watches a training as `watch` does, and tells of each step."""

    def told(log: Log) -> None:
        emit(_step(log, adapter))
        watch(log)

    return told


def _step(log: Log, adapter: str) -> Event:
    seconds = log.seconds[-1]
    facts = {
        "step": len(log.losses),
        "loss": log.losses[-1],
        "gradient_norm": log.gradient_norms[-1],
        "learning_rate": log.learning_rates[-1],
        "tokens": log.tokens[-1],
        "tokens_per_s": log.tokens[-1] / seconds if seconds > 0 else None,
    }
    return Event(name="train.step", at=time.time(), seconds=seconds, arm=adapter, facts=facts)


def checkpoint_told(emit: Emit, done: Trained, adapter: str, *, now: bool) -> None:
    """Tell of an adapter that was trained just now."""
    if not now:
        return
    lineage = done.lineage
    facts = {
        "path": lineage.checkpoint or str(done.path),
        "sha256": lineage.adapter_sha256,
        "recipe": lineage.recipe,
        "steps": lineage.result.training_steps,
        "final_loss": lineage.result.final_loss,
    }
    emit(Event(name="checkpoint", at=time.time(), seconds=lineage.seconds, arm=adapter, facts=facts))
