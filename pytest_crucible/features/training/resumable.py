"""The part of a trainer that saves states, and continues a training that was interrupted.

A recipe is a function with a loop. Called again, it makes its first steps again; each returns the loss that it had then, without
computing it, until the saved state is reached. This is exact only for a recipe that gives the same batches again, which is checked.
"""

from __future__ import annotations

import functools
import hashlib
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from pytest_crucible.features.training.log import (
    SAVE_EVERY,
    OpenStep,
    SavedTraining,
    SavedTrainings,
    SavedWeights,
    SaveWeights,
    TrainingLog,
)
from pytest_crucible.features.training.losses import Pass, Preference, datums_of
from pytest_crucible.features.training.regularizers import REFERENCE
from pytest_crucible.local_model.losses import AdamParams
from pytest_crucible.local_model.training import GradientResult
from pytest_crucible.records.errors import CrucibleError

_ADVICE = (
    "loop with `for step in trainer.steps(N)` and draw data by the step, with trainer.batch(step, data, size) or "
    "random.Random(f'{trainer.seed}/{step}')"
)


class NotRepeatable(CrucibleError):
    """An interrupted training cannot continue, because its recipe does not repeat its steps."""


class Replay:
    """The steps that an interrupted training has made, and how far the recipe has repeated them."""

    def __init__(self, saved: SavedTraining) -> None:
        self.saved = saved
        self._passes: list[tuple[str, float]] = []

    def repeat_pass(self, digest: str, log: TrainingLog) -> GradientResult:
        """Return the loss that this pass had. Raises NotRepeatable for another batch."""
        step = len(log.losses)
        expected = self.saved.log.passes[step]
        number = len(self._passes)
        if number >= len(expected) or expected[number][0] != digest:
            raise self.refuse(f"step {step + 1} got other rows or settings than before")
        self._passes.append(expected[number])
        return GradientResult(expected[number][1], cast(Any, _Unrepeated(self)), {}, {})

    def repeat_step(self, log: TrainingLog) -> float | None:
        """Write the next step into the log; return its gradient norm. Raises NotRepeatable for a step with fewer batches."""
        step, old = len(log.losses), self.saved.log
        if len(self._passes) != len(old.passes[step]):
            raise self.refuse(f"step {step + 1} got fewer batches than before")
        self._passes = []
        for name in ("losses", "gradient_norms", "learning_rates", "tokens", "seconds", "passes"):
            getattr(log, name).append(getattr(old, name)[step])
        # A state of an earlier version has none.
        log.policy.append(old.policy[step] if old.policy else None)
        return old.gradient_norms[step]

    def skip_step(self, log: TrainingLog) -> None:
        """Write the next step into the log without its batches."""
        self._passes = list(self.saved.log.passes[len(log.losses)])
        self.repeat_step(log)

    def check_next(self, digest: str) -> None:
        """Raise NotRepeatable unless the first batch after the saved state is the one that it was."""
        if digest != self.saved.next_pass:
            raise self.refuse(f"step {self.saved.step + 1} got other rows or settings than before")

    def refuse(self, reason: str) -> NotRepeatable:
        """Return the error for a training that cannot continue."""
        return NotRepeatable(
            f"its interrupted training cannot continue after step {self.saved.step}: {reason}. To make it repeatable, {_ADVICE}; "
            f"to train from the start, remove {str(self.saved.place.parent)!r}"
        )


class _Unrepeated(Sequence[Mapping[str, Any]]):
    """The outputs of a pass that was not computed again: reading them raises NotRepeatable."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def __getitem__(self, index: Any) -> Any:
        raise self._replay.refuse("the recipe reads log-probabilities of a step that is not computed again")

    def __len__(self) -> int:
        return int(self[0])

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self[0])


def pass_digest(
    data: Sequence[Any], loss: str, config: Mapping[str, float] | None, regularizers: Sequence[object] = ()
) -> str:
    """Return a digest of a batch with its loss and settings; rows of other types are refused elsewhere."""
    settings = (loss, sorted((config or {}).items()), *map(repr, regularizers))
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=8)
    for row in data:
        # A reference is computed again by a resumed training, equal but for the last bits on a service.
        data_of_row = (row.chosen, row.rejected) if isinstance(row, Preference) else (row,)
        for datum in datums_of(data_of_row):
            digest.update(np.asarray(datum.tokens, np.int64).tobytes())
            for name, values in sorted(datum.inputs.items()):
                if name != REFERENCE:
                    digest.update(name.encode() + values.tobytes())
    return digest.hexdigest()


Row = TypeVar("Row")

GRADIENT_NORM = "grad_norm:mean"
"""Tinker's name of this metric."""


class Resumable(ABC):
    """A training whose steps are saved, and repeated from the saved state. Its abstract methods are those in which bases differ."""

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
        self.log.planned_steps = total
        if self._replay is not None:
            while len(self.log.losses) < self._replay.saved.step:
                self._replay.skip_step(self.log)
            for step in self._replay.saved.kept_steps:
                self.kept[step] = self._restore_kept(self._replay.saved, step)
            self._continue(self._replay)
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
        places = (divmod(place, len(data)) for place in range(first, first + size))
        return [data[_order(self.seed, epoch, len(data))[index]] for epoch, index in places]

    def _save_state_if_due(self, digest: str) -> None:
        """Save a state before the next step, whose first batch has given a finite loss."""
        step = len(self.log.losses)
        is_due = step > self._saved_step and self._save_every > 0 and step % self._save_every == 0
        if is_due and self._states is not None:
            self._saved_step = step
            read = self.files | self._read
            self._states.write(self.log, digest, self.kept, read, self.elapsed_s, self._save_state)

    def _repeat_step(self, replay: Replay) -> dict[str, float]:
        norm = replay.repeat_step(self.log)
        self._open_step = OpenStep()
        self._keep_weights()
        if len(self.log.losses) == replay.saved.step:
            self._continue(replay)
        return {} if norm is None else {GRADIENT_NORM: norm}

    def _continue(self, replay: Replay) -> None:
        """Load the saved state: from here on steps are computed."""
        saved = replay.saved
        self._load_state(saved)
        self.log.settings = {name: set(values) for name, values in saved.log.settings.items()}
        self._checked, self._replay = replay, None
        self._saved_step, self._seconds_before, self._started = saved.step, saved.seconds, time.perf_counter()

    @abstractmethod
    def _keep_weights(self) -> None:
        """Keep the current weights, if they are those of a step to keep."""

    @abstractmethod
    def _sampler(self) -> Any:
        """Return a sampler of the current adapter."""

    @abstractmethod
    def save(self, folder: Path) -> SavedWeights:
        """Save the adapter; after a failed step, the last good one. Files are written to the folder."""

    @abstractmethod
    def _keep(self, step: int) -> SaveWeights:
        """Keep the current weights, which later steps do not change; return the function that saves them."""

    @abstractmethod
    def _pass(self, batch: Pass) -> GradientResult:
        """Return loss and outputs of a batch. Raises ValueError for invalid data, NotFinite for a loss that is not finite."""

    @abstractmethod
    def _move(self, params: AdamParams) -> dict[str, float]:
        """Make a step. Raises ValueError without gradients, NotFinite for weights that are not finite."""

    @abstractmethod
    def _remember(self) -> None:
        """Remember the current weights, whose loss was finite."""

    @abstractmethod
    def _load(self, checkpoint: str | Path) -> str:
        """Load the weights of a checkpoint; return its name in the lineage."""

    @abstractmethod
    def _save_state(self, folder: Path) -> str:
        """Save adapter and optimiser: in the folder, or on a service, whose path is returned."""

    @abstractmethod
    def _load_state(self, saved: SavedTraining) -> None:
        """Load adapter and optimiser."""

    @abstractmethod
    def _restore_kept(self, saved: SavedTraining, step: int) -> SaveWeights:
        """Return the function that saves the weights of a step that was kept before an interruption."""


# A batch may be in two passes of the data; recipes mix a few sets of data at most.
@functools.lru_cache(maxsize=8)
def _order(seed: int, epoch: int, count: int) -> list[int]:
    order = list(range(count))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order
