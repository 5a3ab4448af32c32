"""Checkpoints on disk, under the paths that Tinker gives them: `tinker://RUN/weights/NAME`, and likewise `sampler_weights` and
`external_weights`, which are for download.

    DIRECTORY/checkpoints/RUN/weights/NAME/checkpoint.json     its base model, LoRA, creation and expiry
    DIRECTORY/checkpoints/RUN/weights/NAME/...                 the weights

A checkpoint appears whole or not at all (it is written elsewhere and then renamed), never changes afterwards, and is deleted
when it expires. Several servers may share a directory.
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
TRAINING, SAMPLER, EXTERNAL = "weights", "sampler_weights", "external_weights"
_INFO_FILE = "checkpoint.json"
# Names become directories: no separators, and no leading dot.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,199}")


@dataclass(frozen=True, slots=True)
class CheckpointPath:
    """Path of a checkpoint: its training run, the kind of weights, and its name.

    >>> CheckpointPath.parse("tinker://S:train:0/sampler_weights/step20").name
    'step20'
    """

    run: str
    kind: str
    name: str

    def __post_init__(self) -> None:
        if not _RUN.fullmatch(self.run):
            raise ValueError(f"{self.run!r} is not a valid id of a training run")
        if self.kind not in (TRAINING, SAMPLER, EXTERNAL):
            raise ValueError(f"{self.kind!r} is not a kind of checkpoint; expected {TRAINING}, {SAMPLER} or {EXTERNAL}")
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is not a valid checkpoint name: use up to 128 of A-Z a-z 0-9 . _ -, not starting with . or -"
            )

    @staticmethod
    def parse(text: str) -> CheckpointPath:
        """Parse `tinker://RUN/KIND/NAME`. Raises ValueError for anything else."""
        parts = text.removeprefix(SCHEME).split("/")
        if not text.startswith(SCHEME) or len(parts) != 3:
            raise ValueError(
                f"{text[:200]!r} is not a checkpoint path; expected tinker://RUN/weights/NAME "
                "or tinker://RUN/sampler_weights/NAME"
            )
        return CheckpointPath(*parts)

    def __str__(self) -> str:
        return f"{SCHEME}{self.run}/{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """Description of a checkpoint, stored beside its weights."""

    base_model: str
    base_sha256: str
    lora: Mapping[str, Any]
    created: float
    expires: float | None = None
    public: bool = False
    user_metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint in the archive."""

    path: CheckpointPath
    info: CheckpointInfo
    directory: Path

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.stat().st_size for file in self.directory.iterdir())


class MissingCheckpoint(LookupError):
    """A checkpoint that does not exist, or has expired."""


class Archive:
    """The checkpoints of a directory."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._root = directory / "checkpoints"
        self._root.mkdir(parents=True, exist_ok=True)
        self._clock = clock

    @contextlib.contextmanager
    def write_checkpoint(
        self, path: CheckpointPath, info: CheckpointInfo, *, overwrite: bool = False
    ) -> Iterator[Path]:
        """Yield a directory to write weights into; the checkpoint exists once the block has ended without an error.

        Raises FileExistsError if the name is taken.
        """
        directory = self._directory(path)
        if not overwrite and self._read(path) is not None:
            raise FileExistsError(f"{path} exists already; checkpoints are not changed, choose another name")
        draft = self._root / ".drafts" / uuid.uuid4().hex
        draft.mkdir(parents=True)
        try:
            yield draft
            (draft / _INFO_FILE).write_text(json.dumps(asdict(info), indent=1) + "\n", encoding="utf-8")
            directory.parent.mkdir(parents=True, exist_ok=True)
            if directory.exists():
                self._remove(directory)
            # Renaming is atomic: a checkpoint that can be found is complete.
            draft.rename(directory)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def __contains__(self, path: CheckpointPath) -> bool:
        try:
            return bool(self.find(path))
        except MissingCheckpoint:
            return False

    def find(self, path: CheckpointPath) -> Checkpoint:
        """Return the checkpoint at a path. Raises MissingCheckpoint if it does not exist or has expired."""
        checkpoint = self._read(path)
        if checkpoint is None:
            raise MissingCheckpoint(f"unknown checkpoint {path}")
        if self._is_expired(checkpoint.info):
            self.delete(path)
            until = format_time(checkpoint.info.expires or 0.0)
            raise MissingCheckpoint(f"the checkpoint {path} expired at {until}")
        return checkpoint

    def all(self, run: str | None = None) -> list[Checkpoint]:
        """Return the checkpoints of a run, or all, the newest first. Deletes expired ones."""
        checkpoints = []
        for file in self._root.glob(f"{quote(run, safe='') if run else '*'}/*/*/{_INFO_FILE}"):
            with contextlib.suppress(ValueError, MissingCheckpoint):
                name, kind, owner = (file.parents[directory].name for directory in range(3))
                checkpoints.append(self.find(CheckpointPath(unquote(owner), kind, name)))
        return sorted(checkpoints, key=lambda checkpoint: (-checkpoint.info.created, str(checkpoint.path)))

    def change(self, path: CheckpointPath, **changes: Any) -> None:
        """Change the description of a checkpoint (`expires`, `public`); its weights stay as they are."""
        checkpoint = self.find(path)
        draft = checkpoint.directory / f".{uuid.uuid4().hex}"
        draft.write_text(json.dumps(asdict(replace(checkpoint.info, **changes)), indent=1) + "\n", encoding="utf-8")
        os.replace(draft, checkpoint.directory / _INFO_FILE)

    def delete(self, path: CheckpointPath) -> None:
        """Delete a checkpoint. Raises MissingCheckpoint if it does not exist."""
        directory = self._directory(path)
        if not directory.exists():
            raise MissingCheckpoint(f"unknown checkpoint {path}")
        self._remove(directory)

    def _read(self, path: CheckpointPath) -> Checkpoint | None:
        directory = self._directory(path)
        try:
            info = CheckpointInfo(**json.loads((directory / _INFO_FILE).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise MissingCheckpoint(f"the description of {path} cannot be read: {error}") from None
        return Checkpoint(path, info, directory)

    def _directory(self, path: CheckpointPath) -> Path:
        return self._root / quote(path.run, safe="") / path.kind / path.name

    def _is_expired(self, info: CheckpointInfo) -> bool:
        return info.expires is not None and info.expires <= self._clock()

    def _remove(self, directory: Path) -> None:
        """Rename a checkpoint away, so that it disappears at once, then delete its files."""
        trash = self._root / ".drafts" / uuid.uuid4().hex
        trash.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            directory.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


def format_time(seconds: float) -> str:
    """Return a time in Tinker's format.

    >>> format_time(0.0)
    '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat()
