"""The checkpoints of a training, from a log directory, a file or a service, with the training's own numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.local_model.checkpoints import SAMPLER_FILE, TRAINING_FILE
from pytest_crucible.records.errors import SpecError, suggest

SERVICE = "tinker://"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that a training has written."""

    adapter: str
    """The adapter's URI, as `crucible models register` takes it."""
    state: tuple[tuple[str, int, int], ...] = ()
    """Names, sizes and times of its files: one that is written again is a new checkpoint."""
    name: str = ""
    """Its name in a checkpoints.jsonl."""
    step: int | None = None
    """The number of batches that it was trained on, where a checkpoints.jsonl has it."""


def list_checkpoints(source: str) -> list[Checkpoint]:
    """Return the checkpoints of a directory or a JSONL file, the oldest first. Raises SpecError if there is neither."""
    path = Path(source)
    if path.is_dir():
        return sorted(_in_directory(path), key=lambda checkpoint: max(time for _, _, time in checkpoint.state))
    if path.is_file():
        return list(_in_file(path))
    raise SpecError(
        f"{source} does not exist: name a directory with checkpoints, a checkpoints.jsonl, or a run as tinker://RUN"
    )


def _in_directory(folder: Path) -> Iterator[Checkpoint]:
    for path in folder.iterdir():
        files = [path] if path.suffix == ".safetensors" else [path / SAMPLER_FILE, path / TRAINING_FILE]
        try:
            state = tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file())
        # Removed since it was listed.
        except FileNotFoundError:
            continue
        if state:
            yield Checkpoint(f"local:{path.resolve()}", state)


def _in_file(path: Path) -> Iterator[Checkpoint]:
    """Yield the rows with weights to sample from; a last line that is half written is read again later."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            if not line.endswith("\n"):
                return
            raise SpecError(f"{path}, line {number} is not JSON: correct or remove it") from None
        sampler = row.get("sampler_path") if isinstance(row, dict) else None
        # A row without it is a state to resume training from.
        if isinstance(sampler, str) and sampler.startswith(SERVICE):
            name, step = str(row.get("name", "")), row.get("batch")
            yield Checkpoint(sampler, name=name, step=step if isinstance(step, int) else None)


CHECKPOINTS_FILE = "checkpoints.jsonl"


def read_log_directory(folder: Path) -> list[Checkpoint]:
    """Return the checkpoints of a cookbook's log directory, in the order of the training. Raises SpecError without any."""
    if not (folder / CHECKPOINTS_FILE).is_file():
        what = "has no checkpoints.jsonl" if folder.is_dir() else "is not a directory"
        raise SpecError(f"{folder} {what}: name the log_path of a tinker-cookbook training that has saved checkpoints")
    # A training that was resumed may write a step again: training resumed from the later weights.
    by_label = {label_of(checkpoint): checkpoint for checkpoint in list_checkpoints(str(folder / CHECKPOINTS_FILE))}
    if not by_label:
        raise SpecError(
            f"{folder / CHECKPOINTS_FILE} names no weights to sample from: train with save_every=N, so that checkpoints are saved"
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


METRICS_FILE = "metrics.jsonl"
# What supervised training, preferences, RL and its short loop minimise or maximise, in this order.
USUAL = ("train_mean_nll", "dpo_loss", "env/all/reward/total", "reward/total", "loss")


def read_training_log(folder: Path, key: str = "") -> tuple[str, Mapping[int, float]]:
    """Return the name of a training's number, and its values by batch, counted from 0; both empty without one.

    Without a key it is the loss, or the reward of RL. A last line that is half written is left out. Raises SpecError for a key
    that no line has, and for a line that is not JSON.
    """
    rows = _read_rows(folder / METRICS_FILE)
    names = sorted({name for row in rows for name, value in row.items() if _is_number(value) and name != "step"})
    if key and key not in names:
        hint = suggest(key, names, otherwise="leave --training out") if names else "the training has written no numbers"
        raise SpecError(f"--training {key}: {folder / METRICS_FILE} has no such number: {hint}")
    chosen = key or next((name for name in USUAL if name in names), "")
    return chosen, {row["step"]: float(row[chosen]) for row in rows if _is_number(row.get(chosen)) and "step" in row}


def mean_since(values: Mapping[int, float], start: int, end: int) -> float | None:
    """Return the mean over the batches from `start` to before `end`; None if none has a value.

    >>> mean_since({0: 4.0, 1: 2.0, 2: 1.0}, 0, 2)
    3.0
    """
    inside = [value for batch, value in values.items() if start <= batch < end]
    return math.fsum(inside) / len(inside) if inside else None


def _read_rows(path: Path) -> Sequence[Mapping[str, Any]]:
    if not path.is_file():
        return []
    rows = []
    for number, line in enumerate(
        path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True), start=1
    ):
        try:
            row = json.loads(line)
        except ValueError:
            if not line.endswith("\n"):
                break
            raise SpecError(f"{path}, line {number} is not JSON: correct or remove it") from None
        rows += [row] if isinstance(row, dict) else []
    return rows


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
