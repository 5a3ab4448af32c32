"""Unfinished trainings on disk: every few steps, the state from which a training continues exactly.

    .unfinished-KEY/step-20/training.json        losses, the batch of each step, the files that were read
    .unfinished-KEY/step-20/training.safetensors     adapter and optimiser, where no service has them
    .unfinished-KEY/step-20/kept-10/             weights of a step that the recipe keeps

Only the newest step is there, and it appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.training.log import TrainingLog
from pytest_crucible.training.saved_weights import SavedWeights, SaveWeights
from pytest_crucible.training.tracked_reads import hash_file

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
    kept: Mapping[int, SavedWeights]
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

    @property
    def home(self) -> Path:
        """The directory, which an error names."""
        return self._home

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
        kept: Mapping[int, SaveWeights],
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
                "kept": {number: asdict(save(_make(draft / f"kept-{number}"))) for number, save in kept.items()},
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
        """Remove all states: the training has ended."""
        shutil.rmtree(self._home, ignore_errors=True)


def _read(place: Path) -> SavedTraining:
    record: dict[str, Any] = json.loads((place / _FILE).read_text(encoding="utf-8"))
    log = TrainingLog(**record["log"])
    log.settings = {name: set(values) for name, values in log.settings.items()}
    log.passes = [[(digest, loss) for digest, loss in step] for step in log.passes]
    return SavedTraining(
        step=len(log.losses),
        log=log,
        next_pass=record["next_pass"],
        kept={int(number): SavedWeights(**saved) for number, saved in record["kept"].items()},
        data=record["data"],
        seconds=record["seconds"],
        state=record["state"],
        place=place,
    )


def _step_of(place: Path) -> int:
    number = place.name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def _make(folder: Path) -> Path:
    folder.mkdir()
    return folder
