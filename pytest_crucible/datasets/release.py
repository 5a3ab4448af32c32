"""Releases: datasets by name, with their official files, checksums, and how to read samples from them."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
        """Return the local path, after a download if necessary. Raises DatasetError."""
        # Imported here: a session without a dataset by name needs no HTTP client of the standard library.
        from pytest_crucible.datasets.fetch import data_file, unpacked_file

        if self.members:
            return unpacked_file(self.name, url=self.url, sha256=self.sha256, members=self.members)
        return data_file(self.name, url=self.url, sha256=self.sha256, member=self.member)

    def local_path(self) -> Path | None:
        """Return the path on this machine, or None if the file is missing."""
        from pytest_crucible.datasets.fetch import find_file

        try:
            return find_file(self.name)
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
