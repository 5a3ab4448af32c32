"""Training as events: each step, and the checkpoint that it comes to."""

from __future__ import annotations

from pathlib import Path

from pytest_crucible.features.training.log import TrainingLog
from pytest_crucible.features.training.trained_adapters import TrainedAdapter, emit_checkpoint, emit_steps
from pytest_crucible.records import Event, Lineage, TrainingResult

RESULT = TrainingResult(
    training_steps=2,
    convergence_steps=None,
    first_loss=2.0,
    final_loss=1.0,
    loss_reduction=0.5,
    gradient_norms_finite=True,
    largest_gradient_norm=3.0,
)


def lineage() -> Lineage:
    return Lineage(
        adapter_sha256="ab", base="packaged", base_sha256="cd", recipe="recipes:v2", recipe_sha256="ef", data={}, lora={},
        seed=0, hyperparameters={}, git=None, parent=None, result=RESULT, losses=(2.0, 1.0), gradient_norms=(3.0, 1.0),
        learning_rates=(0.1, 0.1), seconds=1.5,
    )  # fmt: skip


def test_each_step_is_told_and_watched():
    told, watched = [], []
    watch = emit_steps(lambda log: watched.append(len(log.losses)), told.append, "v2")
    log = TrainingLog()
    for step in (1, 2):
        log.losses.append(2.0 / step)
        log.gradient_norms.append(3.0)
        log.learning_rates.append(0.1)
        log.tokens.append(50 * step)
        log.seconds.append(0.25)
        watch(log)

    assert watched == [1, 2]
    assert [(one.name, one.arm, one.experiment, one.seconds) for one in told] == [("train.step", "v2", "", 0.25)] * 2
    assert told[1].facts == {
        "step": 2, "loss": 1.0, "gradient_norm": 3.0, "learning_rate": 0.1, "tokens": 100, "tokens_per_s": 400.0
    }  # fmt: skip


def test_an_adapter_that_was_trained_just_now_is_told():
    told: list[Event] = []
    emit_checkpoint(told.append, TrainedAdapter(Path("adapters/v2"), lineage()), "v2", is_new=True)

    [one] = told
    assert (one.name, one.arm, one.seconds) == ("checkpoint", "v2", 1.5)
    assert one.facts == {
        "path": "adapters/v2", "sha256": "ab", "recipe": "recipes:v2", "steps": 2, "final_loss": 1.0
    }  # fmt: skip


def test_one_that_another_process_has_trained_is_not():
    told: list[Event] = []
    emit_checkpoint(told.append, TrainedAdapter(Path("adapters/v2"), lineage()), "v2", is_new=False)

    assert told == []
