"""Releases: datasets by name, with their official files, which are downloaded once and checked by their SHA-256."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO, Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Origin, Sample
from pytest_crucible.records.errors import DatasetError

Row = Sample | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFile:
    """One file of a release, identified by its checksum."""

    name: str
    """The path inside $CRUCIBLE_DATA and inside the cache, such as `gsm8k/test.jsonl`."""
    url: str
    sha256: str
    """The checksum of the file; with `members`, of the archive."""
    member: str | None = None
    """The file's name in the tar archive at the URL; None if the URL is the file itself."""
    members: Mapping[str, str] = field(default_factory=dict)
    """Local name -> name in the archive, for all files of an archive of which only the archive has a checksum."""

    def path(self) -> Path:
        """Return the local path: in $CRUCIBLE_DATA, perhaps gzipped as `name`.gz, else in the cache, after a download if necessary.

        One download of an archive with `members` brings all of them. Raises DatasetError.
        """
        if existing := find_local_file(self.name):
            return existing
        target = cache_folder() / self.name
        with _explain_download_errors(self.name if self.members else target.name, self.url):
            if self.member or self.members:
                self._unpack()
            else:
                with _write_atomically(target) as part:
                    _check_digest(_fetch(self.url, part, target.name), self.sha256, self.url)
        return target

    def _unpack(self) -> None:
        """Download the archive, and write its needed members to the cache."""
        import tarfile

        with tempfile.TemporaryFile() as file:
            digest = _fetch(self.url, file, self.url.rpartition("/")[2])
            # An archive is opened only after its checksum, if it is known, was verified.
            if self.members:
                _check_digest(digest, self.sha256, self.url)
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                for local_name, member in (self.members or {self.name: self.member or ""}).items():
                    content = archive.extractfile(member)
                    if content is None:
                        raise ValueError(f"{member} in the archive is not a file")
                    with _write_atomically(cache_folder() / local_name) as part:
                        digest = _copy_and_hash(content, part)
                        if not self.members:
                            _check_digest(digest, self.sha256, f"{member} of {self.url}")

    def local_path(self) -> Path | None:
        """Return the path on this machine, or None if the file is missing."""
        try:
            return find_local_file(self.name)
        except DatasetError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A dataset by name, before it is read. Iterating reads it, sample by sample."""

    name: str
    says: str
    """One line that describes the samples."""
    samples: int | None
    """The number of samples; None if unknown."""
    licence: str
    source: str
    files: tuple[OfficialFile, ...]
    read: Callable[[Sequence[Path]], Iterable[Row]]
    """Converts the files, in their order, to samples."""

    def __iter__(self) -> Iterator[Row]:
        return iter(self.read([official_file.path() for official_file in self.files]))

    def origin(self) -> Origin:
        """Return the source of the samples, and whether each file has the expected checksum. Raises DatasetError."""
        digests = {
            official_file.name: sha256_of(official_file.path(), official_file.name) for official_file in self.files
        }
        pinned = {official_file.name: official_file.sha256 for official_file in self.files if not official_file.members}
        # A member of an archive has no checksum of its own, so whether it is the official file stays unknown.
        official = digests == pinned if pinned and len(pinned) == len(digests) else None
        return Origin(source=self.source, licence=self.licence, files=digests, official=official)


def sha256_of(path: Path, name: str) -> str:
    """Return the checksum of a file; if it is stored gzipped as `name`.gz, of its uncompressed content."""
    opener: Any = gzip.open if path.suffix == ".gz" and not name.endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error


# Memory stays at 64 KiB however large the file is.
CHUNK = 1 << 16
# For each read, not for the whole download: a stalled mirror should fail, a slow one should not.
TIMEOUT_S = 30


def find_local_file(name: str) -> Path | None:
    """Return the path of the file on this machine, or None if it must be downloaded.

    Raises DatasetError if $CRUCIBLE_DATA is set and has no such file, because then nothing may be downloaded.
    """
    folder = os.environ.get("CRUCIBLE_DATA")
    if folder is None:
        cached = cache_folder() / name
        return cached if cached.is_file() else None
    data = Path(folder).expanduser()
    for path in (data / name, data / f"{name}.gz"):
        if path.is_file():
            return path
    raise DatasetError(
        f"CRUCIBLE_DATA is {str(data)!r}, which has no {name!r}: put the file there, or unset CRUCIBLE_DATA to download it"
    )


def cache_folder() -> Path:
    """Return the folder of downloaded files: $XDG_CACHE_HOME/pytest-crucible, by default in ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "pytest-crucible"


@contextlib.contextmanager
def _explain_download_errors(name: str, url: str) -> Iterator[None]:
    """Raise DatasetError with one sentence for anything that goes wrong with a download."""
    # A session whose datasets are on this machine needs neither archives nor an HTTP client of the standard library.
    import http.client
    import tarfile
    import urllib.error

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


def _fetch(url: str, part: IO[bytes], name: str) -> str:
    """Copy what a URL has, with a progress bar on a terminal; return its checksum."""
    import urllib.request

    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
        total = int(response.headers.get("Content-Length") or 0)

        def show(done: int) -> None:
            filled = 30 * done // total if total else 0
            end = "\n" if done == total else ""
            sys.stderr.write(f"\r{name} [{'=' * filled:<30}] {done / 1e6:.1f} MB{end}")

        return _copy_and_hash(response, part, show if sys.stderr.isatty() else None)


def _copy_and_hash(source: IO[bytes], part: IO[bytes], show: Callable[[int], None] | None = None) -> str:
    digest, done = hashlib.sha256(), 0
    while chunk := source.read(CHUNK):
        part.write(chunk)
        digest.update(chunk)
        done += len(chunk)
        if show is not None:
            show(done)
    return digest.hexdigest()
