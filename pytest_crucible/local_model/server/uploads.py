"""Puts a downloaded adapter into the archive, as a checkpoint to train on and to sample from.

A download is two files, in a directory or a tar file. No archive is unpacked: the two files are read into memory, and all that they
contain is checked before there is a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.checkpoints import EXTERNAL_FILE, Adapter, LoraSpec, load_sampler, save_training
from pytest_crucible.local_model.engine import Engine, make_stand_in
from pytest_crucible.local_model.losses import Adam
from pytest_crucible.local_model.server.archive import (
    TRAINING,
    Archive,
    CheckpointInfo,
    CheckpointPath,
)
from pytest_crucible.local_model.server.models import check_stand_in
from pytest_crucible.local_model.server.training import CONFIG_FILE, FILES

# Adapters of the packaged model have 19 MB at most; a header may claim any size.
LARGEST_BYTES = 2**30
_EXPECTED = f"expected {EXTERNAL_FILE} and {CONFIG_FILE}, as `crucible tinker download` writes them"


@dataclass(frozen=True, slots=True)
class Upload:
    """An uploaded checkpoint."""

    path: CheckpointPath
    sha256: str
    """Hash of `adapter_model.safetensors`."""
    base_model: str
    lora: LoraSpec
    is_new: bool
    """False where an earlier upload has written it."""


def upload_adapter(source: Path, directory: Path, engine: Engine, name: str | None = None) -> Upload:
    """Write a downloaded adapter to the archive in a directory, as a training checkpoint with a new optimizer.

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
    is_new = path not in archive
    if is_new:
        origin = {"uploaded_from": source.absolute().name, "sha256": sha256}
        info = CheckpointInfo(base_model, base.base_sha256, asdict(adapter.spec), time.time(), user_metadata=origin)
        with archive.write_checkpoint(path, info, overwrite=True) as draft:
            save_training(draft, adapter, Adam(), base.base_sha256)
    return Upload(path, sha256, base_model, adapter.spec, is_new)


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
