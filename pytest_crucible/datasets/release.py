"""A dataset by name: its official files, pinned by their checksums, and how they become samples."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.fetch import CHUNK, data_file, find_file, unpacked_file
from pytest_crucible.errors import DatasetError
from pytest_crucible.records import Origin, Sample

Row = Sample | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFile:
    """One file of a release, at an address that does not change, or that is checked."""

    name: str
    """Below $CRUCIBLE_DATA and below the cache, such as `gsm8k/test.jsonl`."""
    url: str
    sha256: str
    """Of the file; with `members`, of the archive."""
    member: str | None = None
    """Its name in the tar archive at the URL, where it is in one."""
    members: Mapping[str, str] = field(default_factory=dict)
    """All names that are kept of an archive, where only the archive is pinned."""

    def path(self) -> Path:
        """Where it lies, downloaded if need be. Raises DatasetError."""
        if self.members:
            return unpacked_file(self.name, url=self.url, sha256=self.sha256, members=self.members)
        return data_file(self.name, url=self.url, sha256=self.sha256, member=self.member)

    def found(self) -> Path | None:
        """Where it lies on this machine; None where it is not."""
        try:
            return find_file(self.name)
        except DatasetError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What is known of a dataset before it is read. Iterating reads it, sample after sample."""

    name: str
    says: str
    """What is asked, in a line."""
    samples: int | None
    """How many; None where nobody has counted."""
    licence: str
    source: str
    files: tuple[OfficialFile, ...]
    read: Callable[[Sequence[Path]], Iterable[Row]]
    """From the files, in their order, to samples."""

    def __iter__(self) -> Iterator[Row]:
        return iter(self.read([one.path() for one in self.files]))

    def origin(self) -> Origin:
        """Where the samples come from, and whether each file is the pinned one. Raises DatasetError."""
        found = {one.name: sha256_of(one.path(), one.name) for one in self.files}
        pinned = {one.name: one.sha256 for one in self.files if not one.members}
        official = None if len(pinned) < len(found) else found == pinned
        return Origin(source=self.source, licence=self.licence, files=found, official=official)


def sha256_of(path: Path, name: str) -> str:
    """Of the file under its own name: where it lies gzipped as `name`.gz, of what is packed in it."""
    opener: Any = gzip.open if path.suffix == ".gz" and not name.endswith(".gz") else open
    digest = hashlib.sha256()
    try:
        with opener(path, "rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    return digest.hexdigest()
