"""Lists the checkpoints of a source: a directory, a cookbook's `checkpoints.jsonl`, or a run of a Tinker service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_crucible.local_model.checkpoints import SAMPLER_FILE, TRAINING_FILE
from pytest_crucible.records.errors import SpecError

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
