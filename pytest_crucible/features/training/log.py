"""The steps of a training: their log, the numbers that targets can name, and the states from which a training continues.

    .unfinished-KEY/step-20/training.json        losses, the batch of each step, the files that were read
    .unfinished-KEY/step-20/training.safetensors     adapter and optimiser, where no service has them
    .unfinished-KEY/step-20/kept-10/             weights of a step that the recipe keeps

Only the newest step is there, and it appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from statistics import fmean
from typing import Any

from pytest_crucible.local_model.losses import AdamParams
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import TrainingResult
from pytest_crucible.records.files import hash_file


class TrainingStopped(ValueError):
    """A step failed: a loss or weights that are not finite, or invalid data."""


class TrainingLost(TrainingStopped):
    """The service that trains is gone, or has lost the training."""


@dataclass
class TrainingLog:
    """Losses, norms, rates and times of all steps."""

    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float | None] = field(default_factory=list)
    """None for a step whose service does not report it."""
    learning_rates: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Tokens read by each step, prompts included."""
    seconds: list[float] = field(default_factory=list)
    """Seconds from the first batch of each step to its end."""
    settings: dict[str, set[Any]] = field(default_factory=dict)
    passes: list[list[tuple[str, float]]] = field(default_factory=list)
    """Digest and loss of each batch, for each step."""
    policy: list[tuple[int, float] | None] = field(default_factory=list)
    """How many rows with an advantage each step has read, and their mean advantage; None for a step without such rows."""
    planned_steps: int | None = None
    """What `trainer.steps` was called with; None without it."""
    finite: bool = True
    """False after a loss, a gradient or a weight that was not finite."""

    def note(self, name: str, value: Any) -> None:
        """Record a setting; steps may use different values."""
        self.settings.setdefault(name, set()).add(value)


Watch = Callable[[TrainingLog], None]
"""Called after each step."""


@dataclass
class OpenStep:
    """The batches since the last step."""

    began: float | None = None
    """When the first batch began, by `time.perf_counter`; None before it."""
    loss: float = 0.0
    counted: float = 0.0
    """Tokens that count in the loss, or preferences."""
    tokens: int = 0
    passes: list[tuple[str, float]] = field(default_factory=list)
    """The digest of each batch, and its loss."""
    advantages: list[float] = field(default_factory=list)
    """Of each row that has one."""

    def begin(self) -> None:
        """Start the clock, unless an earlier batch of the step has."""
        self.began = self.began or time.perf_counter()

    def add(self, digest: str, loss: float, counted: float, tokens: int, advantages: Iterable[float] = ()) -> None:
        self.passes.append((digest, loss))
        self.loss += loss
        self.counted += counted
        self.tokens += tokens
        self.advantages += advantages

    def write(self, log: TrainingLog, norm: float | None, params: AdamParams) -> None:
        """Append the step to the log, with the norm of its gradients if that is known."""
        log.losses.append(self.loss / self.counted if self.counted else self.loss)
        # NaN cannot be compared with a target: it counts as not reported.
        log.gradient_norms.append(None if norm is None or math.isnan(norm) else float(norm))
        log.tokens.append(self.tokens)
        log.passes.append(self.passes)
        log.policy.append((len(self.advantages), fmean(self.advantages)) if self.advantages else None)
        now = time.perf_counter()
        log.seconds.append(now - (self.began or now))
        settings = asdict(params)
        log.learning_rates.append(float(settings.pop("learning_rate")))
        for name, value in settings.items():
            log.note(name, value)


NEAR = 0.05
"""Share of the whole reduction: a loss that stays this near to its final value has converged."""


def summarise_training(
    losses: Sequence[float], gradient_norms: Sequence[float | None], *, finite: bool = True
) -> TrainingResult:
    """Return the numbers of a training of at least one step. `finite` is False where a value that was not finite ended it.

    >>> summarise_training([4.0, 2.0, 1.0, 1.0], [3.0, 1.0, 0.5, 0.5]).loss_reduction
    0.75
    """
    first, final = losses[0], final_loss(losses)
    # A norm is the largest only when every step reports one; a service may not report any.
    norms = [norm for norm in gradient_norms if norm is not None]
    is_complete = len(norms) == len(losses)
    return TrainingResult(
        training_steps=len(losses),
        first_loss=first,
        final_loss=final,
        loss_reduction=1 - final / first if first > 0 else None,
        convergence_steps=convergence_steps(losses),
        largest_gradient_norm=max(norms) if is_complete else None,
        gradient_norms_finite=finite if is_complete or not finite else None,
    )


def final_loss(losses: Sequence[float]) -> float:
    """Return the mean loss of the last tenth of the steps."""
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last)


def convergence_steps(losses: Sequence[float]) -> int | None:
    """Return the first step from which the smoothed loss stays near `final_loss`: within 5 % of the whole reduction.

    Losses are smoothed by a running median over a tenth of the steps, which neither delays nor blurs a fall. The whole
    reduction is from the first loss to `final_loss`. None if the loss was not reduced, and where it has stayed there for
    less than a fifth of the steps (at least two): it may still be falling.

    >>> convergence_steps([8.0, 4.0, 2.0, 1.0, 1.0, 1.0]), convergence_steps([4.0, 3.0, 2.0, 1.0])
    (4, None)
    """
    steps, final = len(losses), final_loss(losses)
    tolerance = NEAR * (losses[0] - final)
    if tolerance <= 0:
        return None
    far_steps = [
        step
        for step, loss in enumerate(_running_medians(losses, steps // 10), start=1)
        if abs(loss - final) > tolerance
    ]
    step = far_steps[-1] + 1 if far_steps else 1
    return step if steps - step + 1 >= max(2, steps // 5) else None


def _running_medians(losses: Sequence[float], width: int) -> Iterator[float]:
    """Yield the median of the losses around each step: as many before as after it, fewer at both ends."""
    # One sorted window that moves along, instead of sorting a tenth of the losses again for every step.
    half, read, window = width // 2, 0, list[float]()
    for step in range(len(losses)):
        end = step + min(step, half) + 1
        for loss in losses[read:end]:
            insort(window, loss)
        read = end
        if step > half:
            del window[bisect_left(window, losses[step - half - 1])]
        middle = len(window) // 2
        yield window[middle] if len(window) % 2 else (window[middle - 1] + window[middle]) / 2


@dataclass(frozen=True)
class SavedWeights:
    """The place of an adapter's weights: a file with this hash, or a checkpoint and a state on a service."""

    adapter_sha256: str = ""
    checkpoint: str = ""
    state: str = ""


SaveWeights = Callable[[Path], SavedWeights]
"""Saves weights; files are written to the folder."""


SAVE_EVERY = 20
"""Steps between two saved states; the default of tinker-cookbook's recipes, too."""
_FILE = "training.json"
_DRAFT = ".draft-"


@dataclass(frozen=True)
class SavedTraining:
    """A training as it was after `step` steps."""

    step: int
    log: TrainingLog
    next_pass: str
    """Digest of the first batch of the next step, which a resumed training must have, too."""
    kept_steps: Mapping[int, SavedWeights]
    data: Mapping[str, str]
    """SHA-256 of each file that was read until then, by path."""
    seconds: float
    state: str
    """Path of the state on a service; empty if the weights are next to this record."""
    place: Path


class SavedTrainings:
    """The saved states of one training."""

    def __init__(self, folder: Path, key: str) -> None:
        self._home = folder / f".unfinished-{key}"

    def find(self) -> SavedTraining | None:
        """Return the newest state; None without one, and where a file that was read has changed since."""
        for place in sorted(self._home.glob("step-*"), key=_step_of, reverse=True):
            try:
                saved = _read(place)
                if all(hash_file(Path(name)) == sha256 for name, sha256 in saved.data.items()):
                    return saved
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return None

    def write(
        self,
        log: TrainingLog,
        next_pass: str,
        saves: Mapping[int, SaveWeights],
        files: Iterable[Path],
        seconds: float,
        save_state: Callable[[Path], str],
    ) -> None:
        """Write the state after the steps in the log, and remove older ones."""
        step = len(log.losses)
        self._home.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self._home))
        try:
            record = {
                "state": save_state(draft),
                "kept": {number: asdict(_save_kept(save, draft, number)) for number, save in saves.items()},
                "log": {**asdict(log), "settings": {name: list(values) for name, values in log.settings.items()}},
                "next_pass": next_pass,
                "data": {str(path): hash_file(path) for path in sorted(files) if path.is_file()},
                "seconds": seconds,
            }
            (draft / _FILE).write_text(json.dumps(record), encoding="utf-8")
            place = self._home / f"step-{step}"
            # A state of this step may remain from a training with other data.
            shutil.rmtree(place, ignore_errors=True)
            os.rename(draft, place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        for other in self._home.iterdir():
            if other != place:
                shutil.rmtree(other, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)


def unfinished_trainings(folder: Path) -> Iterator[tuple[str, SavedTraining]]:
    """Yield the key and the newest state of each training that was interrupted, or is going on."""
    for home in sorted(folder.glob(".unfinished-*")):
        for place in sorted(home.glob("step-*"), key=_step_of, reverse=True)[:1]:
            # A training that goes on replaces its states.
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                yield home.name.removeprefix(".unfinished-"), _read(place)


def _read(place: Path) -> SavedTraining:
    record: dict[str, Any] = json.loads((place / _FILE).read_text(encoding="utf-8"))
    log = TrainingLog(**record["log"])
    log.settings = {name: set(values) for name, values in log.settings.items()}
    log.passes = [[(digest, loss) for digest, loss in step] for step in log.passes]
    return SavedTraining(
        step=len(log.losses),
        log=log,
        next_pass=record["next_pass"],
        kept_steps={int(number): SavedWeights(**saved) for number, saved in record["kept"].items()},
        data=record["data"],
        seconds=record["seconds"],
        state=record["state"],
        place=place,
    )


def _step_of(place: Path) -> int:
    number = place.name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def _save_kept(save: SaveWeights, draft: Path, number: int) -> SavedWeights:
    folder = draft / f"kept-{number}"
    folder.mkdir()
    return save(folder)
