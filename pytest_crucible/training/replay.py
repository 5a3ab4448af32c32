"""Repeats the steps of an interrupted training without computing them, so that a recipe gets to the point where it was interrupted.

A recipe is a function with a loop. Called again, it makes its first steps again; each returns the loss that it had then, until
the saved state is reached. This is exact only for a recipe that gives the same batches again, which is checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from pytest_crucible.local_model.batches import Datum
from pytest_crucible.local_model.training import GradientResult
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.training.log import TrainingLog
from pytest_crucible.training.preferences import Preference
from pytest_crucible.training.regularizers.reply_tokens import REFERENCE
from pytest_crucible.training.saved_training import SavedTraining

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
        for datum in filter(_is_datum, data_of_row):
            digest.update(np.asarray(datum.tokens, np.int64).tobytes())
            for name, values in sorted(datum.inputs.items()):
                if name != REFERENCE:
                    digest.update(name.encode() + values.tobytes())
    return digest.hexdigest()


def _is_datum(row: Any) -> bool:
    return isinstance(row, Datum)
