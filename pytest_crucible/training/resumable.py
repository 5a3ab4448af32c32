"""The part of a trainer that saves states, and continues a training that was interrupted."""

from __future__ import annotations

import functools
import random
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pytest_crucible.training.adapter_weights import AdapterWeights
from pytest_crucible.training.log import TrainingLog
from pytest_crucible.training.open_step import OpenStep
from pytest_crucible.training.replay import Replay
from pytest_crucible.training.saved_training import SAVE_EVERY, SavedTraining, SavedTrainings
from pytest_crucible.training.saved_weights import SaveWeights

Row = TypeVar("Row")

GRADIENT_NORM = "grad_norm:mean"
"""Tinker's name of this metric."""


class Resumable(AdapterWeights):
    """A training whose steps are saved, and repeated from the saved state."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.log = TrainingLog()
        self.files: set[Path] = set()
        self.kept: dict[int, SaveWeights] = {}
        """Step -> how its weights, which `checkpoint` has kept, are saved."""
        self._open_step = OpenStep()
        self._started = time.perf_counter()
        self._states: SavedTrainings | None = None
        self._save_every, self._saved_step = SAVE_EVERY, 0
        self._read: set[Path] = self.files
        self._replay: Replay | None = None
        self._checked: Replay | None = None
        self._seconds_before = 0.0

    def survive(self, states: SavedTrainings, save_every: int, resumed: SavedTraining | None, read: set[Path]) -> None:
        """Save a state every `save_every` steps from now on (0: never), and continue an interrupted training.

        `read` are the files that the recipe has read so far.
        """
        self._states, self._save_every, self._read = states, save_every, read
        self._replay = None if resumed is None else Replay(resumed)

    @property
    def elapsed_s(self) -> float:
        """Return the seconds of training, with those before an interruption."""
        return self._seconds_before + time.perf_counter() - self._started

    def steps(self, total: int) -> Iterator[int]:
        """Yield the numbers of the steps to make, 1 to `total`: after an interruption, from the first that is not made yet."""
        if self._replay is not None:
            while len(self.log.losses) < self._replay.saved.step:
                self._replay.skip_step(self.log)
            self._keep_again(self._replay.saved)
            self._continue()
        yield from range(len(self.log.losses) + 1, total + 1)

    def batch(self, step: int, data: Sequence[Row], size: int) -> list[Row]:
        """Return the rows of a step, which depend on nothing but the step and the seed: shuffled again in each pass of the data.

        Raises ValueError without data.
        """
        if not data or size < 1 or step < 1:
            raise ValueError(
                f"batch({step}, {len(data)} rows, {size}): expected a step from 1, data, and a size from 1"
            )
        first = (step - 1) * size
        return [self._row_at(place, data) for place in range(first, first + size)]

    def _row_at(self, place: int, data: Sequence[Row]) -> Row:
        epoch, index = divmod(place, len(data))
        return data[_order(self.seed, epoch, len(data))[index]]

    def _save_state_if_due(self, digest: str) -> None:
        """Save a state before the next step, whose first batch has given a finite loss."""
        step = len(self.log.losses)
        if not self._is_due(step) or self._states is None:
            return
        self._saved_step = step
        self._states.write(
            self.log,
            digest,
            self.kept,
            self.files | self._read,
            self.elapsed_s,
            lambda folder: self._save_state(folder),
        )

    def _is_due(self, step: int) -> bool:
        return step > self._saved_step and self._save_every > 0 and step % self._save_every == 0

    def _repeat_step(self, replay: Replay) -> dict[str, float]:
        norm = replay.repeat_step(self.log)
        self._open_step = OpenStep()
        self._keep_weights()
        if len(self.log.losses) == replay.saved.step:
            self._continue()
        return {} if norm is None else {GRADIENT_NORM: norm}

    def _keep_again(self, saved: SavedTraining) -> None:
        for step in saved.kept:
            self.kept[step] = self._restore_kept(saved, step)

    def _continue(self) -> None:
        """Load the saved state: from here on steps are computed."""
        if self._replay is None:
            return
        saved = self._replay.saved
        self._load_state(saved)
        self.log.settings = {name: set(values) for name, values in saved.log.settings.items()}
        self._checked, self._replay = self._replay, None
        self._saved_step, self._seconds_before, self._started = saved.step, saved.seconds, time.perf_counter()

    @abstractmethod
    def _keep_weights(self) -> None:
        """Keep the current weights, if they are those of a step to keep."""


# A batch may be in two passes of the data; recipes mix a few sets of data at most.
@functools.lru_cache(maxsize=8)
def _order(seed: int, epoch: int, count: int) -> list[int]:
    """Return the order of the rows in one pass of the data."""
    order = list(range(count))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order
