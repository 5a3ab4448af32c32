"""Download official dataset files once into the user's cache, checked by their SHA-256."""

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

from pytest_crucible.records.errors import DatasetError

# Memory stays at 64 KiB however large the file is.
CHUNK = 1 << 16
# For each read, not for the whole download: a stalled mirror should fail, a slow one should not.
TIMEOUT_S = 30


def data_file(name: str, *, url: str, sha256: str, member: str | None = None) -> Path:
    """Return the path of an official file such as "gsm8k/test.jsonl": from $CRUCIBLE_DATA, else the cache, else a download.

    With `member`, the URL is a tar archive that contains the file under that name. In $CRUCIBLE_DATA the file may be gzipped,
    as `name`.gz. Raises DatasetError.
    """
    if existing := find_file(name):
        return existing
    cached = cache_folder() / name
    if member is None:
        download(url, cached, sha256=sha256)
    else:
        download_member(url, member, cached, sha256=sha256)
    return cached


def unpacked_file(name: str, *, url: str, sha256: str, members: Mapping[str, str]) -> Path:
    """Return the path of one of many files of a tar archive for which only the archive's checksum is known.

    `members` maps the local names of all needed files to their names in the archive: one download brings them all.
    """
    if existing := find_file(name):
        return existing
    with tempfile.TemporaryFile() as archive, _explain_download_errors(name, url):
        _check_digest(_download_and_hash(url, archive, _progress_bar(url.rpartition("/")[2])), sha256, url)
        archive.seek(0)
        # Opened only after the checksum was verified.
        with tarfile.open(fileobj=archive) as opened:
            for local_name, member in members.items():
                with _write_atomically(cache_folder() / local_name) as part:
                    _copy_and_hash(_open_member(opened, member), part)
    return cache_folder() / name


def find_file(name: str) -> Path | None:
    """Return the path of the file on this machine, or None if it must be downloaded.

    Raises DatasetError if $CRUCIBLE_DATA is set and has no such file, because then nothing may be downloaded.
    """
    folder = os.environ.get("CRUCIBLE_DATA")
    if folder is not None:
        return _find_given_file(Path(folder).expanduser(), name)
    cached = cache_folder() / name
    return cached if cached.is_file() else None


def cache_folder() -> Path:
    """Return the folder of downloaded files: $XDG_CACHE_HOME/pytest-crucible, by default in ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "pytest-crucible"


def download(url: str, target: Path, *, sha256: str) -> None:
    """Download to `target`, completely or not at all, with a progress bar on a terminal."""
    with _explain_download_errors(target.name, url), _write_atomically(target) as part:
        _check_digest(_download_and_hash(url, part, _progress_bar(target.name)), sha256, url)


def download_member(url: str, member: str, target: Path, *, sha256: str) -> None:
    """Download a tar archive (gzipped or not) and keep one file of it; the checksum is that file's."""
    with (
        _explain_download_errors(target.name, url),
        _write_atomically(target) as part,
        tempfile.TemporaryFile() as archive,
    ):
        _download_and_hash(url, archive, _progress_bar(url.rpartition("/")[2]))
        archive.seek(0)
        with tarfile.open(fileobj=archive) as opened:
            _check_digest(_copy_and_hash(_open_member(opened, member), part), sha256, f"{member} of {url}")


def _open_member(archive: tarfile.TarFile, member: str) -> IO[bytes]:
    inside = archive.extractfile(member)
    if inside is None:
        raise ValueError(f"{member} in the archive is not a file")
    return inside


@contextlib.contextmanager
def _explain_download_errors(name: str, url: str) -> Iterator[None]:
    """Raise DatasetError with one sentence for anything that goes wrong with a download."""
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError, KeyError, tarfile.TarError) as error:
        if isinstance(error, urllib.error.HTTPError):
            # An HTTPError is also the response, and holds its connection open.
            error.close()
        reason = "it is not a tar archive" if isinstance(error, tarfile.ReadError) else error
        raise DatasetError(
            f"{name} is not on this machine and cannot be downloaded from {url} ({reason}): "
            "connect to the network, or set CRUCIBLE_DATA to a folder that contains it"
        ) from error


@contextlib.contextmanager
def _write_atomically(target: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file next to the target, which replaces the target on success."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
        try:
            yield part
            part.close()
            # In the same folder, so that the replacement is atomic: another process sees the old file or the whole new one.
            os.replace(part.name, target)
        finally:
            Path(part.name).unlink(missing_ok=True)


def _check_digest(digest: str, sha256: str, what: str) -> None:
    if digest != sha256:
        raise DatasetError(f"{what} has checksum {digest[:12]}..., not {sha256[:12]}...: the file has changed")


def _find_given_file(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise DatasetError(
        f"CRUCIBLE_DATA is {str(folder)!r}, which has no {name!r}: put the file there, or unset CRUCIBLE_DATA to download it"
    )


def _download_and_hash(url: str, part: IO[bytes], show: Callable[[int, int], None]) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
        total = int(response.headers.get("Content-Length") or 0)
        return _copy_and_hash(response, part, lambda done: show(done, total))


def _copy_and_hash(source: IO[bytes], part: IO[bytes], show: Callable[[int], None] = lambda done: None) -> str:
    digest, done = hashlib.sha256(), 0
    while chunk := source.read(CHUNK):
        part.write(chunk)
        digest.update(chunk)
        done += len(chunk)
        show(done)
    return digest.hexdigest()


def _progress_bar(name: str) -> Callable[[int, int], None]:
    if not sys.stderr.isatty():
        return lambda done, total: None

    def show(done: int, total: int) -> None:
        filled = 30 * done // total if total else 0
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{name} [{'=' * filled:<30}] {done / 1e6:.1f} MB{end}")

    return show
