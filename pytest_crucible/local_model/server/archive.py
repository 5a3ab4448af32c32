"""Checkpoints on disk, under the paths that Tinker gives them: `tinker://RUN/weights/NAME`, and likewise `sampler_weights` and
`external_weights`, which are for download; and uploads, which put a downloaded adapter there.

    DIRECTORY/checkpoints/RUN/weights/NAME/checkpoint.json     its base model, LoRA, creation and expiry
    DIRECTORY/checkpoints/RUN/weights/NAME/...                 the weights

A checkpoint appears whole or not at all (it is written elsewhere and then renamed), never changes afterwards, and is deleted
when it expires. Several servers may share a directory. No uploaded archive is unpacked: its two files are read into memory, and all
that they contain is checked before there is a checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import posixpath
import re
import shutil
import tarfile
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.checkpoints import (
    EXTERNAL_FILE,
    Adapter,
    LoraSpec,
    load_sampler,
    save_sampler,
    save_training,
)
from pytest_crucible.local_model.engine import Engine, make_stand_in
from pytest_crucible.local_model.losses import Adam
from pytest_crucible.local_model.server.models import check_stand_in
from pytest_crucible.quick_dataclass import dataclass

SCHEME = "tinker://"
CONFIG_FILE = "adapter_config.json"
FILES = (EXTERNAL_FILE, CONFIG_FILE)
"""The files of a downloaded adapter."""
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
    steps: int | None = None
    """The optimiser steps that have made the adapter; None in checkpoints of older versions and of uploads."""
    norm: float | None = None
    """The norm of what the adapter adds to the base's matrices."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
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
        if checkpoint.info.expires is not None and checkpoint.info.expires <= self._clock():
            self.delete(path)
            raise MissingCheckpoint(f"the checkpoint {path} expired at {format_time(checkpoint.info.expires)}")
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


# Adapters of the packaged model have 19 MB at most; a header may claim any size.
LARGEST_BYTES = 2**30
_EXPECTED = f"expected {EXTERNAL_FILE} and {CONFIG_FILE}, as `crucible tinker download` writes them"


@dataclass(frozen=True, slots=True)
class Upload:
    path: CheckpointPath
    """Path of the checkpoint to train on."""
    sampler_path: CheckpointPath
    """Path of the same weights to sample from."""
    sha256: str
    """Hash of `adapter_model.safetensors`."""
    base_model: str
    lora: LoraSpec
    is_new: bool
    """False where an earlier upload has written it."""


def upload_adapter(source: Path, directory: Path, engine: Engine, name: str | None = None) -> Upload:
    """Write a downloaded adapter to the archive in a directory: to sample from, and to train on with a new optimizer.

    Its training run is named by the hash of the weights, and the checkpoint by the source, unless `name` is given: the same file
    has the same path. Raises ValueError for a source that cannot be read, or does not belong to this base or its stand-in.
    """
    try:
        files = _read_directory(source) if source.is_dir() else dict(_read_archive(source))
        base_model, base, adapter = _read_adapter(files, engine)
        sha256 = hashlib.sha256(files[EXTERNAL_FILE]).hexdigest()
        name = name or source.absolute().name.removesuffix(".tar")
        path = CheckpointPath(f"upload-{sha256[:16]}", TRAINING, name)
    except tarfile.TarError as error:
        raise ValueError(
            f"{source} cannot be uploaded: it is not a whole tar file without compression ({error}); {_EXPECTED}"
        ) from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{source} cannot be uploaded: {error}") from None
    # Made here, so that a source that is refused leaves no directory.
    archive = Archive(directory)
    sampler_path = replace(path, kind=SAMPLER)
    is_new = path not in archive
    origin = {"uploaded_from": source.absolute().name, "sha256": sha256}
    info = CheckpointInfo(base_model, base.base_sha256, asdict(adapter.spec), time.time(), user_metadata=origin)
    if is_new:
        with archive.write_checkpoint(path, info, overwrite=True) as draft:
            save_training(draft, adapter, Adam(), base.base_sha256)
    # An upload by an older version has the other one alone.
    if sampler_path not in archive:
        with archive.write_checkpoint(sampler_path, info, overwrite=True) as draft:
            save_sampler(draft, adapter, base.base_sha256)
    return Upload(path, sampler_path, sha256, base_model, adapter.spec, is_new)


def _read_adapter(files: Mapping[str, bytes], engine: Engine) -> tuple[str, Engine, Adapter]:
    """Return the name and the model of an adapter's base, and the adapter. Raises ValueError for what does not fit together."""
    if missing := sorted(set(FILES) - set(files)):
        raise ValueError(f"it has no {' and no '.join(missing)}; {_EXPECTED}")
    config = _read_config(files[CONFIG_FILE])
    base_model, base = _find_base(config, engine)
    adapter = _load_adapter(files[EXTERNAL_FILE], base)
    if config.get("r") != adapter.spec.rank:
        raise ValueError(
            f"{CONFIG_FILE} has rank {config.get('r')!r}, {EXTERNAL_FILE} has {adapter.spec.rank}: take both from one download"
        )
    return base_model, base, adapter


def _read_directory(source: Path) -> dict[str, bytes]:
    files = [file for file in (source / name for name in FILES) if file.is_file()]
    for file in files:
        _check_size(file.name, file.stat().st_size)
    return {file.name: file.read_bytes() for file in files}


def _read_archive(source: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files in a tar file. Raises ValueError for a member that is not one of the two."""
    if not source.exists():
        raise ValueError("it does not exist")
    with tarfile.open(source, "r:") as tar:
        for member in tar:
            name = posixpath.normpath(member.name)
            if member.isdir() and name == ".":
                continue
            content = tar.extractfile(member) if name in FILES and member.isreg() else None
            if content is None:
                raise ValueError(f"it has a member {member.name!r}; {_EXPECTED}")
            _check_size(name, member.size)
            yield name, content.read()


def _check_size(name: str, size: int) -> None:
    if size > LARGEST_BYTES:
        raise ValueError(f"{name} has {size:,} bytes, an adapter has {LARGEST_BYTES:,} at most")


def _read_config(content: bytes) -> Mapping[str, Any]:
    try:
        config = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{CONFIG_FILE} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{CONFIG_FILE} is not a JSON object")
    return config


def _find_base(config: Mapping[str, Any], engine: Engine) -> tuple[str, Engine]:
    """Return name and model of an adapter's base: this one, or its stand-in. Raises ValueError for another one."""
    name, sha256 = str(config.get("base_model_name_or_path"))[:200], config.get("base_sha256")
    if sha256 == engine.base_sha256:
        return BASE_MODEL, engine
    stand_in = make_stand_in(engine)
    if sha256 == stand_in.base_sha256:
        return check_stand_in(name), stand_in
    of = f"{name} ({sha256[:8]})" if isinstance(sha256, str) else name
    own = f"{BASE_MODEL} ({engine.base_sha256[:8]})"
    raise ValueError(f"it is an adapter of {of}; the local service has {own}, or what crucible_tinker_base names")


def _load_adapter(content: bytes, base: Engine) -> Adapter:
    """Return an adapter whose shapes and values were checked. Raises ValueError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / EXTERNAL_FILE
        file.write_bytes(content)
        try:
            return load_sampler(file, base.shape, base.base_sha256)
        except TypeError:
            # Its header has settings of other types.
            raise ValueError(f"{EXTERNAL_FILE} is not an adapter of this package") from None
        except ValueError as error:
            # The folder is one that the user does not know.
            raise ValueError(str(error).replace(f"{folder}/", "")) from None
