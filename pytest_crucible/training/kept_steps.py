"""Steps that a recipe keeps before its end, each in a subdirectory of the training with weights and lineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from pytest_crucible.local_model.lineages import read_lineage, write_lineage
from pytest_crucible.records import Lineage
from pytest_crucible.training.log import TrainingLog
from pytest_crucible.training.results import summarise_training
from pytest_crucible.training.saved_weights import SaveWeights


def step_folder(folder: Path, step: int) -> Path:
    """Return the directory of a step within that of its training."""
    return folder / f"step-{step}"


def read_step(folder: Path, step: int) -> Lineage | None:
    """Return the lineage of a kept step; None if it is damaged."""
    return read_lineage(step_folder(folder, step))


def write_steps(folder: Path, kept: Mapping[int, SaveWeights], log: TrainingLog, lineage: Lineage) -> None:
    """Write the kept steps of a training that has this log and lineage."""
    for step, save in kept.items():
        place = step_folder(folder, step)
        place.mkdir()
        losses, norms = log.losses[:step], log.gradient_norms[:step]
        until_then = replace(
            lineage,
            step=step,
            # Also of a training that stopped later.
            stopped=None,
            result=summarise_training(losses, norms),
            losses=tuple(losses),
            gradient_norms=tuple(norms),
            learning_rates=tuple(log.learning_rates[:step]),
            seconds=round(sum(log.seconds[:step]), 3),
        )
        write_lineage(place, replace(until_then, **asdict(save(place))))
