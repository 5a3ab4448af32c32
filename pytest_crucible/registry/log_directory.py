"""The log directory of a tinker-cookbook training: its checkpoints, and its own numbers next to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_crucible.cookbook.training_log import mean_since
from pytest_crucible.records.errors import SpecError
from pytest_crucible.registry.sources import Checkpoint, list_checkpoints

FILE = "checkpoints.jsonl"


def read_log_directory(folder: Path) -> list[Checkpoint]:
    """Return the checkpoints of a cookbook's log directory, in the order of the training. Raises SpecError without any."""
    if not (folder / FILE).is_file():
        what = "has no checkpoints.jsonl" if folder.is_dir() else "is not a directory"
        raise SpecError(f"{folder} {what}: name the log_path of a tinker-cookbook training that has saved checkpoints")
    # A training that was resumed may write a step again: the later weights are those that it went on from.
    by_label = {label_of(checkpoint): checkpoint for checkpoint in list_checkpoints(str(folder / FILE))}
    if not by_label:
        raise SpecError(
            f"{folder / FILE} names no weights to sample from: train with save_every=N, so that checkpoints are saved"
        )
    return list(by_label.values())


def label_of(checkpoint: Checkpoint) -> str:
    """Return the step of a checkpoint, else its name."""
    return str(checkpoint.step) if checkpoint.step is not None else checkpoint.name or checkpoint.adapter


def training_means(checkpoints: Sequence[Checkpoint], values: Mapping[int, float]) -> dict[str, float | None]:
    """Return the mean of a training's number over the batches since the checkpoint before, by the label of each checkpoint.

    `values` are by batch, counted from 0.
    """
    means, start = {}, 0
    for checkpoint in checkpoints:
        end = checkpoint.step
        means[label_of(checkpoint)] = None if end is None else mean_since(values, start, end)
        start = start if end is None else end
    return means
