"""Official files, fetched once into the user's cache and believed only when their checksum is right."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from pytest_crucible.errors import DatasetError

CHUNK = 1 << 16
TIMEOUT_S = 30


def data_file(name: str, *, url: str, sha256: str, member: str | None = None) -> Path:
    """The file `name` (such as "gsm8k/test.jsonl"): in $CRUCIBLE_DATA, else in the cache, else downloaded into it.

    With a `member`, the URL is that of a tar archive that has the file under this name. In $CRUCIBLE_DATA it may also lie
    gzipped, as `name`.gz. Raises DatasetError, which says what to do.
    """
    if found := find_file(name):
        return found
    cached = cache_folder() / name
    if member is None:
        download(url, cached, sha256=sha256)
    else:
        download_member(url, member, cached, sha256=sha256)
    return cached


def unpacked_file(name: str, *, url: str, sha256: str, members: Mapping[str, str]) -> Path:
    """The same for one of many files of a tar archive, of which only the archive's checksum is known.

    `members` maps the names of all that are wanted of it to those that they have in it: one download brings them all.
    """
    if found := find_file(name):
        return found
    with tempfile.TemporaryFile() as archive, _explained(name, url):
        _check(_copy(url, archive, _bar(url.rpartition("/")[2])), sha256, url)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as opened:
            for wanted, member in members.items():
                with _whole(cache_folder() / wanted) as part:
                    _keep(_inside(opened, member), part)
    return cache_folder() / name


def find_file(name: str) -> Path | None:
    """Where the file lies on this machine; None where it would have to be downloaded.

    Raises DatasetError when $CRUCIBLE_DATA is set and has no such file: then nothing is downloaded.
    """
    folder = os.environ.get("CRUCIBLE_DATA")
    if folder is not None:
        return _given(Path(folder).expanduser(), name)
    cached = cache_folder() / name
    return cached if cached.is_file() else None


def cache_folder() -> Path:
    """Where fetched files are kept: $XDG_CACHE_HOME/pytest-crucible, by default below ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "pytest-crucible"


def download(url: str, target: Path, *, sha256: str) -> None:
    """Download to `target`, whole or not at all, with a progress bar where somebody watches."""
    with _explained(target.name, url), _whole(target) as part:
        _check(_copy(url, part, _bar(target.name)), sha256, url)


def download_member(url: str, member: str, target: Path, *, sha256: str) -> None:
    """Download a tar archive (gzipped or not) and keep one file of it; the checksum is that file's."""
    with _explained(target.name, url), _whole(target) as part, tempfile.TemporaryFile() as archive:
        _copy(url, archive, _bar(url.rpartition("/")[2]))
        archive.seek(0)
        with tarfile.open(fileobj=archive) as opened:
            _check(_keep(_inside(opened, member), part), sha256, f"{member} of {url}")


def _inside(archive: tarfile.TarFile, member: str) -> IO[bytes]:
    inside = archive.extractfile(member)
    if inside is None:
        raise ValueError(f"{member} in it is no file")
    return inside


@contextlib.contextmanager
def _explained(name: str, url: str) -> Iterator[None]:
    """What can go wrong with a download, as one sentence."""
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError, KeyError, tarfile.TarError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is the server's answer as well, and holds the connection
        reason = "it is no tar archive" if isinstance(error, tarfile.ReadError) else error
        raise DatasetError(
            f"{name} is not here and cannot be downloaded from {url} ({reason}): "
            "connect this machine, or set CRUCIBLE_DATA to a directory that has it"
        ) from error


@contextlib.contextmanager
def _whole(target: Path) -> Iterator[IO[bytes]]:
    """A file beside the target, which takes its place when nothing went wrong."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
        try:
            yield part
            part.close()
            os.replace(part.name, target)
        finally:
            Path(part.name).unlink(missing_ok=True)


def _check(found: str, sha256: str, what: str) -> None:
    if found != sha256:
        raise DatasetError(f"{what} has checksum {found[:12]}..., not {sha256[:12]}...: the file has changed")


def _given(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise DatasetError(
        f"CRUCIBLE_DATA is {str(folder)!r}, which has no {name!r}: put the file there, or unset it to download"
    )


def _copy(url: str, part: IO[bytes], show: Callable[[int, int], None]) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
        total = int(response.headers.get("Content-Length") or 0)
        return _keep(response, part, lambda done: show(done, total))


def _keep(source: IO[bytes], part: IO[bytes], show: Callable[[int], None] = lambda done: None) -> str:
    digest, done = hashlib.sha256(), 0
    while chunk := source.read(CHUNK):
        part.write(chunk)
        digest.update(chunk)
        done += len(chunk)
        show(done)
    return digest.hexdigest()


def _bar(name: str) -> Callable[[int, int], None]:
    if not sys.stderr.isatty():
        return lambda done, total: None

    def show(done: int, total: int) -> None:
        filled = 30 * done // total if total else 0
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{name} [{'=' * filled:<30}] {done / 1e6:.1f} MB{end}")

    return show
