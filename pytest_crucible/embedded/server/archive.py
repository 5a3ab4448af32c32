"""Checkpoints on disk, under the paths that Tinker gives them: `tinker://RUN/weights/NAME` and `tinker://RUN/sampler_weights/NAME`.

    DIRECTORY/checkpoints/RUN/weights/NAME/checkpoint.json     what it is: base model, LoRA, when, until when
    DIRECTORY/checkpoints/RUN/weights/NAME/...                 the weights

A checkpoint appears whole or not at all (it is written beside its place and then renamed), is never changed afterwards, and is gone
when its time is over. Several servers may share a directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

SCHEME = "tinker://"
TRAINING, SAMPLER = "weights", "sampler_weights"
_ABOUT = "checkpoint.json"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,199}")


@dataclass(frozen=True, slots=True)
class CheckpointPath:
    """Where a checkpoint is: its training run, what kind of weights, and its name.

    >>> CheckpointPath.parse("tinker://S:train:0/sampler_weights/step20").name
    'step20'
    """

    run: str
    kind: str
    name: str

    def __post_init__(self) -> None:
        if not _RUN.fullmatch(self.run):
            raise ValueError(f"{self.run!r} is no id of a training run")
        if self.kind not in (TRAINING, SAMPLER):
            raise ValueError(f"{self.kind!r} is no kind of checkpoint; there are {TRAINING} and {SAMPLER}")
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is no name for a checkpoint: up to 128 of A-Z a-z 0-9 . _ -, the first no . or -"
            )

    @staticmethod
    def parse(text: str) -> CheckpointPath:
        """Read `tinker://RUN/KIND/NAME`; anything else raises ValueError."""
        parts = text.removeprefix(SCHEME).split("/")
        if not text.startswith(SCHEME) or len(parts) != 3:
            raise ValueError(
                f"{text[:200]!r} is no checkpoint; its path is tinker://RUN/weights/NAME or /sampler_weights/NAME"
            )
        return CheckpointPath(*parts)

    def __str__(self) -> str:
        return f"{SCHEME}{self.run}/{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class About:
    """What is written beside the weights."""

    base_model: str
    base_sha256: str
    lora: Mapping[str, Any]
    created: float
    expires: float | None = None
    public: bool = False
    user_metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that is there."""

    path: CheckpointPath
    about: About
    directory: Path

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.stat().st_size for file in self.directory.iterdir())


class Missing(LookupError):
    """No such checkpoint, or none any more."""


class Archive:
    """All checkpoints of a directory."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._root = directory / "checkpoints"
        self._root.mkdir(parents=True, exist_ok=True)
        self._clock = clock

    @contextlib.contextmanager
    def writing(self, path: CheckpointPath, about: About, *, overwrite: bool = False) -> Iterator[Path]:
        """A directory to write weights into; the checkpoint is there when the block ends without an error.

        A name that is taken raises FileExistsError.
        """
        place = self._place(path)
        if not overwrite and self._read(path) is not None:
            raise FileExistsError(f"{path} exists already; checkpoints are not changed, choose another name")
        draft = self._root / ".drafts" / uuid.uuid4().hex
        draft.mkdir(parents=True)
        try:
            yield draft
            (draft / _ABOUT).write_text(json.dumps(asdict(about), indent=1) + "\n", encoding="utf-8")
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists():
                self._remove(place)
            draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def find(self, path: CheckpointPath) -> Checkpoint:
        """The checkpoint at a path; Missing says whether it never was or has expired."""
        checkpoint = self._read(path)
        if checkpoint is None:
            raise Missing(f"there is no checkpoint {path}")
        if self._is_over(checkpoint.about):
            self.delete(path)
            until = moment(checkpoint.about.expires or 0.0)
            raise Missing(f"the checkpoint {path} expired at {until}")
        return checkpoint

    def all(self, run: str | None = None) -> list[Checkpoint]:
        """Checkpoints of a run, or of all, the newest first. Expired ones are deleted."""
        found = []
        for file in self._root.glob(f"{quote(run, safe='') if run else '*'}/*/*/{_ABOUT}"):
            with contextlib.suppress(ValueError, Missing):
                name, kind, owner = (file.parents[place].name for place in range(3))
                found.append(self.find(CheckpointPath(unquote(owner), kind, name)))
        return sorted(found, key=lambda one: (-one.about.created, str(one.path)))

    def change(self, path: CheckpointPath, **changes: Any) -> None:
        """Change what is said about a checkpoint (`expires`, `public`); its weights stay as they are."""
        checkpoint = self.find(path)
        draft = checkpoint.directory / f".{uuid.uuid4().hex}"
        draft.write_text(json.dumps(asdict(replace(checkpoint.about, **changes)), indent=1) + "\n", encoding="utf-8")
        os.replace(draft, checkpoint.directory / _ABOUT)

    def delete(self, path: CheckpointPath) -> None:
        """Remove a checkpoint; one that is not there raises Missing."""
        place = self._place(path)
        if not place.exists():
            raise Missing(f"there is no checkpoint {path}")
        self._remove(place)

    def _read(self, path: CheckpointPath) -> Checkpoint | None:
        place = self._place(path)
        try:
            about = About(**json.loads((place / _ABOUT).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise Missing(f"what is written about {path} cannot be read: {error}") from None
        return Checkpoint(path, about, place)

    def _place(self, path: CheckpointPath) -> Path:
        return self._root / quote(path.run, safe="") / path.kind / path.name

    def _is_over(self, about: About) -> bool:
        return about.expires is not None and about.expires <= self._clock()

    def _remove(self, place: Path) -> None:
        """Out of sight at once, then off the disk."""
        trash = self._root / ".drafts" / uuid.uuid4().hex
        trash.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            place.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


def moment(seconds: float) -> str:
    """A time as Tinker writes it.

    >>> moment(0.0)
    '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat()
