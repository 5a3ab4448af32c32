"""Events of a training: each step, and the checkpoint at its end."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_crucible.records import Emit, Event
from pytest_crucible.training.log import TrainingLog
from pytest_crucible.training.trained_adapters import TrainedAdapter


def emit_steps(watch: Callable[[TrainingLog], None], emit: Emit, adapter: str) -> Callable[[TrainingLog], None]:
    """Return a function that emits an event for each step, then calls `watch`."""

    def watch_and_emit(log: TrainingLog) -> None:
        emit(_step(log, adapter))
        watch(log)

    return watch_and_emit


def _step(log: TrainingLog, adapter: str) -> Event:
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


def emit_checkpoint(emit: Emit, trained: TrainedAdapter, adapter: str, *, is_new: bool) -> None:
    """Emit an event for an adapter that was trained just now; `is_new` is False for one that was loaded."""
    if not is_new:
        return
    lineage = trained.lineage
    facts = {
        "path": lineage.checkpoint or str(trained.path),
        "sha256": lineage.adapter_sha256,
        "recipe": lineage.recipe,
        "steps": lineage.result.training_steps,
        "final_loss": lineage.result.final_loss,
    }
    emit(Event(name="checkpoint", at=time.time(), seconds=lineage.seconds, arm=adapter, facts=facts))
