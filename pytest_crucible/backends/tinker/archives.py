"""Downloads a checkpoint from a Tinker service: the adapter's weights as safetensors, in a directory or a tar file.

The SDK has URLs for external weights only, so that a training checkpoint is loaded into a new training run and saved as external
weights for an hour, which are deleted afterwards (as `tinker checkpoint download` does). It has no call that uploads files.
"""

from __future__ import annotations

import importlib
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pytest_crucible.backends.tinker.service import Service
from pytest_crucible.records.errors import SpecError

TRAINING, SAMPLER, EXTERNAL = "weights", "sampler_weights", "external_weights"
# The least that the service allows.
_EXPORT_S = 3600
# Without any byte for this long a download has stalled.
_TIMEOUT_S = 60.0


def download_checkpoint(service: Service, path: str, target: Path) -> dict[str, int]:
    """Write a checkpoint to a directory or a .tar file, whole or not at all; return the sizes of its files. Raises SpecError."""
    if target.exists():
        raise SpecError(f"{target} exists already: choose another name with -o, or delete it")
    kind = path_parts(path)[1]
    if kind == SAMPLER:
        raise SpecError(
            f"{path} cannot be downloaded: services hand out tinker://RUN/{TRAINING}/NAME, which save_state writes"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        with _external_weights(service, path) if kind == TRAINING else nullcontext(path) as external:
            urls = service.within("give URLs of a checkpoint", lambda: service.rest.get_external_weights_urls(external))
            sizes = {name: _fetch(service, url, _place(draft, name)) for name, url in sorted(urls.urls.items())}
        _publish(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return sizes


def path_parts(path: str) -> tuple[str, str, str]:
    """Return run, kind and name of `tinker://RUN/KIND/NAME`. Raises SpecError for anything else.

    >>> path_parts("tinker://S:train:0/weights/step20")
    ('S:train:0', 'weights', 'step20')
    """
    run, kind, name = (*path.removeprefix("tinker://").split("/"), "", "")[:3]
    is_whole = path.startswith("tinker://") and path.count("/") == 4 and run and name
    if not is_whole or kind not in (TRAINING, SAMPLER, EXTERNAL):
        raise SpecError(
            f"{path!r} is not a checkpoint: write tinker://RUN/{TRAINING}/NAME, as `crucible tinker checkpoints` lists it"
        )
    return run, kind, name


@contextmanager
def _external_weights(service: Service, path: str) -> Iterator[str]:
    """Yield the path of external weights with a training checkpoint's adapter, which are deleted in the end."""
    client = service.resumed_client(path)
    if not hasattr(client, "save_weights_external"):
        raise SpecError('this version of Tinker\'s SDK cannot download checkpoints: pip install "tinker>=0.38"')
    saved = service.within(
        "save external weights", lambda: client.save_weights_external("download", ttl_seconds=_EXPORT_S)
    )
    try:
        yield saved.path
    finally:
        service.within("delete external weights", lambda: service.rest.delete_checkpoint_from_tinker_path(saved.path))


def _place(folder: Path, name: str) -> Path:
    """Return the place of a file below a folder. Raises SpecError for a name that leads elsewhere."""
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()) or place == folder.resolve():
        raise SpecError(f"the checkpoint has a file {name!r}, which leads out of its directory: nothing was written")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _fetch(service: Service, url: str, place: Path) -> int:
    """Write the file at a URL; return its size."""
    httpx: Any = importlib.import_module("httpx")  # the SDK brings it
    try:
        with httpx.stream("GET", url, timeout=_TIMEOUT_S) as response, place.open("wb") as file:
            response.raise_for_status()
            return sum(file.write(part) for part in response.iter_bytes())
    except httpx.HTTPStatusError as error:
        # The URL itself is a permission, and does not belong in a message.
        raise SpecError(
            f"{service.name} responded to a download with status {error.response.status_code}: try again"
        ) from None
    except httpx.HTTPError as error:
        raise SpecError(f"{service.name} broke off a download ({type(error).__name__}): try again") from None


def _publish(draft: Path, target: Path) -> None:
    if target.suffix != ".tar":
        # mkdtemp creates directories that only their owner can read.
        draft.chmod(0o755)
        draft.rename(target)
        return
    archive = draft.parent / f"{draft.name}.tar"
    try:
        with tarfile.open(archive, "w") as tar:
            for file in sorted(file for file in draft.rglob("*") if file.is_file()):
                tar.add(file, arcname=file.relative_to(draft).as_posix())
        archive.rename(target)
    finally:
        archive.unlink(missing_ok=True)


def size_lines(sizes: Mapping[str, int]) -> list[str]:
    return [f"  {name}  {size:,} bytes" for name, size in sizes.items()]
