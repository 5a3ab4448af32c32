"""Compares samples with a training file, and remembers the result by the hashes of both."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_crucible.datasets.checks.columns import text_of
from pytest_crucible.datasets.overlap.matching import NEAR_MATCH, Matcher, SampleText
from pytest_crucible.datasets.overlap.training_rows import TrainingText, answer_text, read_training_rows
from pytest_crucible.datasets.packed import iterate_fields
from pytest_crucible.records import Sample
from pytest_crucible.records.contamination import Overlap
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.serialize import from_plain, to_plain

# Changed whenever a match is defined in another way, so that older results are not used.
_VERSION = 1


def compare_with_file(
    samples: Sequence[Sample],
    path: Path,
    *,
    dataset_sha256: str,
    name: str = "",
    near: float = NEAR_MATCH,
    cache: Path | None = None,
    sha256: str = "",
) -> Overlap:
    """Return the samples that rows of a file match. A file that is missing, unreadable or changed is a problem, not clean.

    `sha256` is the hash that the file must have; `cache` is the folder of earlier results.
    """
    label = name or str(path)
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = "it does not exist" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        return Overlap(file=label, sha256=sha256, problem=reason, samples=len(samples), near=near)
    if sha256 and digest != sha256:
        return Overlap(
            file=label, sha256=sha256, problem="it has changed since the training", samples=len(samples), near=near
        )
    key = hashlib.sha256(f"{_VERSION}|{dataset_sha256}|{digest}|{near!r}".encode()).hexdigest()
    stored = _load(cache, key)
    if stored is not None:
        return stored.with_name(label)
    try:
        overlap = compare_with_rows(samples, read_training_rows(path), file=label, sha256=digest, near=near)
    except DatasetError as error:
        return Overlap(file=label, sha256=digest, problem=str(error), samples=len(samples), near=near)
    _store(cache, key, overlap)
    return overlap


def compare_with_rows(
    samples: Sequence[Sample], rows: Iterable[TrainingText], *, file: str, sha256: str = "", near: float = NEAR_MATCH
) -> Overlap:
    """Return the samples that rows match."""
    matcher = Matcher(sample_texts(samples), near)
    matcher.add_rows(rows)
    return matcher.result(file, sha256)


def sample_texts(samples: Sequence[Sample]) -> list[SampleText]:
    """Return the compared parts of each sample: its input, its answer and its group."""
    return [
        SampleText(name, text_of(text), answer_text(expected), group)
        for name, text, expected, group, _ in iterate_fields(samples)
    ]


def _load(cache: Path | None, key: str) -> Overlap | None:
    if cache is None:
        return None
    try:
        return from_plain(Overlap, json.loads((cache / f"{key}.json").read_text(encoding="utf-8")))
    # A damaged entry counts as missing.
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _store(cache: Path | None, key: str, overlap: Overlap) -> None:
    """Write an entry, by renaming: two processes may write it at a time. A folder that cannot be written costs only time."""
    if cache is None:
        return
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        draft = cache / f".{key}.{os.getpid()}"
        draft.write_text(json.dumps(to_plain(overlap)), encoding="utf-8")
        draft.replace(cache / f"{key}.json")
