"""Checks of a dataset's samples, with errors that name the row."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of samples, such as a file, with its rows' names in errors: `line 3 of claims.jsonl`."""

    name: str
    word: str
    stem: str
    """The prefix of generated ids."""
    has_option: bool = False
    """Whether a command's option `--field` names the fields, and not the argument `fields` of a marker."""

    def where(self, number: int) -> str:
        return f"{self.word} {number} of {self.name}"

    def renaming(self, fields: Mapping[str, str | None]) -> str:
        """Return the argument by which a user names fields of the source. None is an unknown name."""
        if self.has_option:
            return " ".join(f"--field {ours}={theirs or '...'}" for ours, theirs in fields.items())
        return f"fields={{{', '.join(f'{ours!r}: {_quote(theirs)}' for ours, theirs in fields.items())}}}"


def _quote(name: str | None) -> str:
    return repr(name) if name else "..."


# One half of a surrogate pair, as written by a broken JSON writer. UTF-8 and databases refuse it.
_HALF = re.compile("[\ud800-\udfff]")


class SampleChecks:
    """Checks that need all rows: unique ids, and ids and groups on all rows or none. Stores two numbers for each row."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._numbers = array("Q")
        self._hashes = array("q")
        self._missing: dict[str, int] = {}
        """Field -> number of the first row without it."""
        self._present: set[str] = set()

    def watch(self, rows: Iterable[tuple[int, Sample, bool]]) -> Iterator[Sample]:
        """Yield the samples, and record of each what `finish` checks."""
        for number, sample, has_id in rows:
            self._numbers.append(number)
            # The hash differs from process to process, but these are compared within one.
            self._hashes.append(hash(sample.id))
            self._check_names(number, sample)
            for field, present in (("id", has_id), ("group", sample.group is not None)):
                if present:
                    self._present.add(field)
                else:
                    self._missing.setdefault(field, number)
            yield sample

    def _check_names(self, number: int, sample: Sample) -> None:
        if not isinstance(sample.id, str) or not sample.id.strip():
            raise DatasetError(
                f"{self._source.where(number)} has the id {sample.id!r:.60}: an id is a text that is not empty, such as 'q1'"
            )
        for name in (sample.id, sample.group or ""):
            if not name.isascii() and _HALF.search(name):
                raise DatasetError(
                    f"{self._source.where(number)} has the id or group {name!r}, which contains half of a character: correct it"
                )

    def finish(self, samples: Sequence[Sample]) -> None:
        """Raise DatasetError for duplicate ids, and for an id or group that only some rows have."""
        if not samples:
            raise DatasetError(f"dataset {self._source.name!r} is empty: an experiment needs at least one sample")
        for field in ("id", "group"):
            if field in self._missing and field in self._present:
                raise DatasetError(
                    f"{self._source.where(self._missing[field])} has no {field!r} but others have one: "
                    "give it to all samples or to none"
                )
        self._check_unique(samples)

    def _check_unique(self, samples: Sequence[Sample]) -> None:
        values, counts = np.unique(np.frombuffer(self._hashes, dtype=np.int64), return_counts=True)
        # Hashes instead of ids cost 8 bytes a sample; ids are compared only where two hashes are equal.
        suspects = set(values[counts > 1].tolist())
        first_numbers: dict[str, int] = {}
        for number, id_hash, k in zip(self._numbers, self._hashes, range(len(samples)), strict=True):
            if id_hash in suspects and (name := samples[k].id) in first_numbers:
                raise DatasetError(
                    f"{self._source.where(number)} repeats the id {name!r:.200} of {self._source.where(first_numbers[name])}: "
                    "ids must be unique"
                )
            if id_hash in suspects:
                first_numbers[samples[k].id] = number
