"""A file that is opened and parsed far enough to detect its format: an archive, one JSON document, or rows."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.formats import FORMATS, read_parquet, text_lines
from pytest_crucible.records.errors import DatasetError, SpecError
from pytest_crucible.records.serialize import TooDeep, parse

_LINES = (".jsonl", ".ndjson")
_DELIMITED = (".csv", ".tsv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Exactly one of `archive`, `document` and `rows` is there."""

    path: Path
    sha256: str
    archive: Any = None
    """A ZipFile."""
    document: Any = None
    rows: Sequence[tuple[int, Mapping[str, Any]]] | None = None
    """(line, row)."""

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """Rows of a table, or the objects of a JSON list; empty for anything else."""
        if self.rows is not None:
            return [row for _, row in self.rows]
        is_list = isinstance(self.document, list) and all(isinstance(row, dict) for row in self.document)
        return self.document if is_list else ()

    def member(self, name: str) -> Any:
        """Return a JSON file of the archive. Raises SpecError for one that is damaged or packed in a way that is not known."""
        assert self.archive is not None
        try:
            return parse(json.loads, self.archive.read(name))
        except Exception as error:
            # zlib, zstd and zipfile each have their own
            raise SpecError(f"{self.path}: {name} in it cannot be read ({error}): write the log again") from error


def open_source(path: Path) -> Source:
    """Raises SpecError for a file that is missing, cut short or none of the three."""
    if not path.is_file():
        raise SpecError(f"{str(path)!r} is not a file: give the path of a log, or of a table of results")
    digest = sha256(path)
    try:
        # By signature, not by name: a renamed archive is still an archive.
        if _begins(path, b"PK"):
            return Source(path=path, sha256=digest, archive=_archive(path))
        if _begins(path, b"PAR1"):
            return Source(path=path, sha256=digest, rows=list(read_parquet(path)))
        if path.suffix in _DELIMITED:
            return Source(path=path, sha256=digest, rows=list(FORMATS[path.suffix].read(path)))
        return _json(path, digest)
    except DatasetError as error:
        raise SpecError(str(error)) from error


def read_beside(path: Path) -> Mapping[str, Any]:
    """Return a JSON document that is next to an imported file; empty if there is none. Raises SpecError for a damaged one."""
    if not path.is_file():
        return {}
    try:
        document: Mapping[str, Any] = parse(json.loads, path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SpecError(
            f"{path} is not JSON ({error}): copy the folder of the run again, or remove the file"
        ) from error
    return document


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _begins(path: Path, with_bytes: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(with_bytes)) == with_bytes


def _archive(path: Path) -> Any:
    """Inspect packs with Zstandard, which Python's own zipfile reads from 3.14 on."""
    if sys.version_info >= (3, 14):
        reader: Any = zipfile
    else:
        from backports.zstd import zipfile as reader
    try:
        archive: Any = reader.ZipFile(path)
    except reader.BadZipFile as error:
        raise SpecError(f"{path} is a damaged archive ({error}): copy it again after its run has ended") from error
    return archive


def _json(path: Path, digest: str) -> Source:
    """Return the JSON objects of a text: one document, or one object on each line."""
    text = "".join(line for _, line in text_lines(path))
    if not text.strip():
        raise SpecError(f"{path} is empty: there is nothing to import")
    try:
        document = parse(json.loads, text)
    except TooDeep as error:
        raise SpecError(f"{path} {error}: flatten its values") from None
    except ValueError as error:
        rows = _rows(path, text)
        if rows is None:
            raise SpecError(
                f"{path} is neither JSON nor JSON lines ({error}): it may be incomplete: write it again"
            ) from error
        return Source(path=path, sha256=digest, rows=rows)
    # Of one line only.
    if path.suffix in _LINES and isinstance(document, dict):
        return Source(path=path, sha256=digest, rows=[(1, document)])
    return Source(path=path, sha256=digest, document=document)


def _rows(path: Path, text: str) -> list[tuple[int, Mapping[str, Any]]] | None:
    """Return the objects of a text with one on each line; None if its first line is not a whole object."""
    rows: list[tuple[int, Mapping[str, Any]]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = parse(json.loads, line)
        except TooDeep as error:
            raise SpecError(f"line {number} of {path} {error}: flatten its values") from None
        except ValueError as error:
            # Nothing shows yet that the file has one object per line, so the caller reports it as neither.
            if not rows:
                return None
            raise SpecError(
                f"line {number} of {path} is not JSON ({error}): the file may be incomplete: write it again"
            ) from error
        if not isinstance(row, dict):
            return None
        rows.append((number, row))
    return rows
