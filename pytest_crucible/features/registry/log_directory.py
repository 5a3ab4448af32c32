"""The log directory of a tinker-cookbook training: its checkpoints, its own numbers, and the batches that checkpoints hold.

Supervised training of the cookbook saves after later batches were submitted, so that "000003" holds five optimiser steps, and a
training that resumes from it starts with batch 3 again. The service knows the steps; the files do not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pytest_crucible.backends.protocol import is_number
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.stats.number_format import quantity

SERVICE = "tinker://"
CHECKPOINTS_FILE, METRICS_FILE, CONFIG_FILE = "checkpoints.jsonl", "metrics.jsonl", "config.json"


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """The state and weights that a training has saved under one name: a row of checkpoints.jsonl."""

    name: str
    sampler: str = ""
    """Path of the weights to sample from; empty for a state alone."""
    state: str = ""
    """Path of the state from which the training resumes; empty for weights alone."""
    batch: int | None = None
    """The batch with which a resumed training starts, counted over all epochs; None at the end of the training."""

    @property
    def label(self) -> str:
        return self.name or self.sampler or self.state

    @property
    def run(self) -> str:
        """The training run of the service, which differs after the training was resumed."""
        return (self.sampler or self.state).removeprefix(SERVICE).partition("/")[0]

    def steps(self, by_path: Mapping[str, int | None]) -> int | None:
        """Return the optimiser steps that it holds, of those that the service states by path; None for unknown."""
        return next((by_path[path] for path in (self.sampler, self.state) if by_path.get(path) is not None), None)


@dataclass(frozen=True, slots=True)
class TrainingLog:
    """The checkpoints of a log directory, in the order of the training, and its settings."""

    rows: Sequence[SavedCheckpoint]
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def samplers(self) -> list[SavedCheckpoint]:
        """The weights to sample from. A resumed training writes a name again: training goes on from the later weights."""
        return list({row.label: row for row in self.rows if row.sampler}.values())

    @property
    def origin(self) -> str:
        """Path of the weights that the training started from; empty for the base model."""
        return str(self.config.get("load_checkpoint_path") or "")

    @property
    def paths(self) -> list[str]:
        """All paths of the service that the training has named."""
        return [path for row in self.rows for path in (row.sampler, row.state, self.origin) if path]

    @property
    def steps_of_batch(self) -> int:
        """The optimiser steps that one batch makes."""
        steps = self.config.get("num_substeps")
        return steps if isinstance(steps, int) and steps > 0 else 1


def read_log_directory(folder: Path) -> TrainingLog:
    """Return the checkpoints and settings of a cookbook's log directory. Raises SpecError without any checkpoint."""
    if not (folder / CHECKPOINTS_FILE).is_file():
        what = "has no checkpoints.jsonl" if folder.is_dir() else "is not a directory"
        raise SpecError(f"{folder} {what}: name the log_path of a tinker-cookbook training that has saved checkpoints")
    rows = [row for row in read_checkpoints(folder / CHECKPOINTS_FILE) if row.sampler or row.state]
    try:
        config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8", errors="replace"))
    # Older versions of the cookbook write none, and one that was killed may have written half of it.
    except (OSError, ValueError):
        config = {}
    return TrainingLog(rows, config if isinstance(config, dict) else {})


def read_checkpoints(path: Path) -> Iterator[SavedCheckpoint]:
    """Yield the rows of a checkpoints.jsonl. Raises SpecError for a file that cannot be read, and for a line that is not JSON."""
    try:
        rows = list(_json_lines(path))
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error}") from error
    for row in rows:
        name, batch = str(row.get("name", "")), row.get("batch")
        sampler, state = (
            place if isinstance(place := row.get(f"{kind}_path"), str) and place.startswith(SERVICE) else ""
            for kind in ("sampler", "state")
        )
        # In later epochs the name counts on and `batch` starts again; at the end `batch` is that of an epoch to come.
        number = int(name) if name.isdecimal() else batch
        is_final = name == "final" or row.get("final") is True
        is_counted = isinstance(number, int) and not is_final
        yield SavedCheckpoint(name, sampler, state, number if is_counted else None)


def _json_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file; a last line that is half written is read again later."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            if not line.endswith("\n"):
                return
            raise SpecError(f"{path}, line {number} is not JSON: correct or remove it") from None
        if isinstance(row, dict):
            yield row


@dataclass(frozen=True, slots=True)
class Resumption:
    """The place from which a training run of the service started."""

    batch: int | None
    steps: int | None
    """The optimiser steps of the weights that it started with."""
    source: SavedCheckpoint | None = None
    """None for the first run of a training."""


def find_resumptions(log: TrainingLog, steps: Mapping[str, int | None]) -> dict[str, Resumption]:
    """Return where each training run of a log started: the first one at batch 0, others at the last state before them."""
    started = dict[str, Resumption]()
    last: SavedCheckpoint | None = None
    for row in log.rows:
        if row.run not in started and last is None:
            started[row.run] = Resumption(0, steps.get(log.origin) if log.origin else 0)
        elif row.run not in started and last is not None:
            started[row.run] = Resumption(last.batch, steps.get(last.state), last)
        last = row if row.state else last
    return started


def held_batches(log: TrainingLog, steps: Mapping[str, int | None]) -> dict[SavedCheckpoint, int | None]:
    """Return the number of batches that each checkpoint was trained on, from the steps that the service states by path.

    Those that a resumed training repeats count once. None where the steps are not known.
    """
    starts = find_resumptions(log, steps)
    return {row: _held(row, starts[row.run], steps, log.steps_of_batch) for row in log.rows}


def _held(row: SavedCheckpoint, start: Resumption, steps: Mapping[str, int | None], of_batch: int) -> int | None:
    own = row.steps(steps)
    if own is None or start.batch is None or start.steps is None or own < start.steps:
        return None
    return start.batch + math.ceil((own - start.steps) / of_batch)


def training_means(
    log: TrainingLog, values: Mapping[int, float], steps: Mapping[str, int | None]
) -> dict[str, float | None]:
    """Return the mean of a training's number over the batches since the checkpoint before, by the label of each checkpoint.

    `values` are by batch, counted from 0. Where the steps of a checkpoint are not known, its name counts its batches.
    """
    held, means, start = held_batches(log, steps), dict[str, float | None](), 0
    for row in log.samplers:
        named = row.batch if row.batch is not None else max(values, default=-1) + 1
        end = named if held[row] is None else held[row] or 0
        since = [value for batch, value in values.items() if start <= batch < end]
        means[row.label] = math.fsum(since) / len(since) if since else None
        start = end
    return means


def steps_text(steps: int | None) -> str:
    """Return the optimiser steps of weights in words: `5 optimiser steps`, or that they are unknown."""
    return "optimiser steps unknown" if steps is None else quantity(steps, "optimiser step")


# What supervised training, preferences, RL and its short loop minimise or maximise, in this order.
USUAL = ("train_mean_nll", "dpo_loss", "env/all/reward/total", "reward/total", "loss")


def read_training_log(folder: Path, key: str = "") -> tuple[str, Mapping[int, float]]:
    """Return the name of a training's number, and its values by batch, counted from 0; both empty without one.

    Without a key it is the loss, or the reward of RL. A last line that is half written is left out. Raises SpecError for a key
    that no line has, and for a line that is not JSON.
    """
    file = folder / METRICS_FILE
    rows = list(_json_lines(file)) if file.is_file() else []
    names = sorted({name for row in rows for name, value in row.items() if is_number(value) and name != "step"})
    if key and key not in names:
        hint = suggest(key, names, otherwise="leave --training out") if names else "the training has written no numbers"
        raise SpecError(f"--training {key}: {file} has no such number: {hint}")
    chosen = key or next((name for name in USUAL if name in names), "")
    return chosen, {row["step"]: float(row[chosen]) for row in rows if is_number(row.get(chosen)) and "step" in row}
