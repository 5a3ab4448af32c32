"""Compare samples with training files: those of a session's arms, and those that a check names."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_crucible.adapters.context import files_folder
from pytest_crucible.adapters.opened_arm import find_file, suite_folders, training_files
from pytest_crucible.datasets import identify
from pytest_crucible.datasets.check import Check, CheckContext, Finder, Finding
from pytest_crucible.datasets.columns import Table
from pytest_crucible.datasets.expectation import check_flag, check_number, row_check
from pytest_crucible.datasets.packed import iterate_fields, text_of
from pytest_crucible.features.contamination.matching import (
    NEAR_MATCH,
    OVERLAPS,
    ArmOverlap,
    Matcher,
    Overlap,
    SampleText,
    TrainingText,
    answer_text,
    read_training_rows,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Dataset, Exclusion, Sample
from pytest_crucible.records.errors import DatasetError, SpecError
from pytest_crucible.records.files import file_lock, hash_file
from pytest_crucible.records.serialize import from_plain, to_plain

if TYPE_CHECKING:
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment import Experiment

# Changed whenever a match is defined in another way, so that older results are not used.
_VERSION = 1
CACHE = "contamination"
"""The folder of earlier comparisons, beside the run store."""


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
    problem = partial(Overlap, file=label, samples=len(samples), near=near)
    try:
        digest = hash_file(path)
    except OSError as error:
        reason = "it does not exist" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        return problem(sha256=sha256, problem=reason)
    if sha256 and digest != sha256:
        return problem(sha256=sha256, problem="it has changed since the training")
    key = hashlib.sha256(f"{_VERSION}|{dataset_sha256}|{digest}|{near!r}".encode()).hexdigest()
    entry = None if cache is None else cache / f"{key}.json"
    # A damaged entry counts as missing.
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        if entry is not None:
            return replace(from_plain(Overlap, json.loads(entry.read_text(encoding="utf-8"))), file=label)
    try:
        overlap = compare_with_rows(samples, read_training_rows(path), file=label, sha256=digest, near=near)
    except DatasetError as error:
        return problem(sha256=digest, problem=str(error))
    # A folder that cannot be written costs only time.
    with contextlib.suppress(OSError):
        if entry is not None:
            entry.parent.mkdir(parents=True, exist_ok=True)
            # Written by renaming: two processes may write it at a time.
            draft = entry.with_name(f".{key}.{os.getpid()}")
            draft.write_text(json.dumps(to_plain(overlap)), encoding="utf-8")
            draft.replace(entry)
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


LEAST_COSINE = 0.9
"""Paraphrases have cosines of about 0.9 and more under MiniLM; sentences on one topic have about 0.6."""

# Rows that are embedded at a time: their cosines with 10,000 samples take 160 MB.
_CHUNK = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Similar:
    """A sample and the training row whose embedding is nearest."""

    sample: str
    row: int
    cosine: float


def find_similar_embeddings(
    samples: Sequence[SampleText],
    rows: Iterable[TrainingText],
    embed: Callable[[Sequence[str]], Any],
    least: float = LEAST_COSINE,
) -> list[Similar]:
    """Return the samples with a row of a cosine of at least `least`, the most similar first."""
    if not samples:
        return []
    vectors = np.asarray(embed([sample.text for sample in samples]))
    best, of_row = np.full(len(samples), -np.inf), np.zeros(len(samples), dtype=np.int64)
    iterator = iter(rows)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        texts = [(row.number, text) for row in chunk for text in row.texts]
        cosines = vectors @ np.asarray(embed([text for _, text in texts])).T
        nearest = cosines.argmax(axis=1)
        values = cosines[np.arange(len(samples)), nearest]
        numbers = np.array([number for number, _ in texts])[nearest]
        of_row, best = np.where(values > best, numbers, of_row), np.maximum(values, best)
    similar = [
        Similar(sample=samples[k].id, row=int(of_row[k]), cosine=round(float(best[k]), 4))
        for k in np.flatnonzero(best >= least).tolist()
    ]
    return sorted(similar, key=lambda entry: (-entry.cosine, entry.sample))


def open_embed() -> Callable[[Sequence[str]], Any]:
    """Return a function from texts to vectors of length 1, shape (n, 384). Raises SpecError without the extra."""
    from pytest_crucible.metrics.models.local import EmbeddingScorer

    scorer = EmbeddingScorer(root=Path.cwd())
    return lambda texts: asyncio.run(scorer.embed(list(texts)))


@row_check
def expect_not_contaminated(
    against: Any, near: float = NEAR_MATCH, drop: bool = False, embeddings: bool = False
) -> Check:
    """Expect that no row of the file `against` matches a sample: equal, containing, similar, or of its group.

    `near` is the Jaccard similarity from which on a row is similar. With `embeddings`, so is a row of the same meaning, whose
    MiniLM embedding (extra [semantic]) has a cosine of at least 0.9. With `drop`, matched samples are not sent instead of failing
    the check.
    """
    if not isinstance(against, str | Path):
        raise SpecError("against must be the path of a training file, such as 'train.jsonl'")
    check_number("near", near)
    if not 0.5 <= near <= 1:
        raise SpecError(f"near is {near!r}; write a similarity from 0.5 to 1")
    check_flag("drop", drop)
    check_flag("embeddings", embeddings)

    def bind(context: CheckContext) -> Finder:
        path, cache = context.folder / against, None if context.cache is None else context.cache / CACHE

        def find(table: Table) -> Finding:
            samples, sha256 = table.samples, identify("", table.samples).sha256
            overlap = compare_with_file(samples, path, dataset_sha256=sha256, name=str(against), near=near, cache=cache)
            if overlap.problem:
                raise SpecError(f"{against} cannot be checked: {overlap.problem}; correct against=")
            positions = {match.position for match in overlap.matches}
            if embeddings:
                texts = sample_texts(samples)
                similar = {
                    entry.sample for entry in find_similar_embeddings(texts, read_training_rows(path), open_embed())
                }
                positions |= {position for position, text in enumerate(texts) if text.id in similar}
            return Finding(
                message=f"unlike every row of {against}",
                fault=f"match a row of {against}",
                failing=np.array(sorted(positions), dtype=np.intp),
                checked=len(samples),
            )

        return find

    return Check(
        subject="", call="", find=bind(CheckContext()), columns=("input",), files=(str(against),), bind=bind, drops=drop
    )


def compare_training_files(collection: ExperimentCollection) -> None:
    """Compare the samples of each experiment with the files that its arms were trained on."""
    root = collection.config.rootpath
    contamination = Contamination(root, files_folder(root, collection.settings.store) / CACHE)
    for nodeid, experiment in collection.experiments.items():
        with collection.gather_errors(nodeid):
            collection.experiments[nodeid] = contamination.add_to(experiment)


@dataclass
class Contamination:
    """Compares the samples of a session with the training files of its arms, each pair once."""

    root: Path
    cache: Path
    """The folder of earlier comparisons, which the workers of a run share."""
    _known: dict[tuple[str, str], Overlap] = field(default_factory=dict)

    def add_to(self, experiment: Experiment) -> Experiment:
        """Return the experiment with the overlaps of its arms; its verdicts are decided again without the matched samples."""
        folders = suite_folders(self.root, experiment.plan.path)
        overlaps = []
        for arm, opened in zip(experiment.plan.arms, experiment.opened_arms, strict=True):
            files = training_files(arm, opened)
            if files:
                of_arm = tuple(self._compare(experiment.dataset, name, sha, folders) for sha, name in files.items())
                overlaps.append(ArmOverlap(arm=arm.name, files=of_arm))
        if not overlaps:
            return experiment
        plan = OVERLAPS.on(experiment.plan, tuple(overlaps))
        # Two arms may have the same file.
        matched = {overlap.file: overlap for arm in overlaps for overlap in arm.files if overlap.matches}
        exclusions = (
            Exclusion(reason=f"match {name}", sample_ids=tuple(match.sample for match in overlap.matches))
            for name, overlap in matched.items()
        )
        return replace(experiment, plan=replace(plan, exclusions=(*plan.exclusions, *exclusions)))

    def _compare(self, dataset: Dataset, name: str, sha256: str, folders: Sequence[Path]) -> Overlap:
        key = (dataset.sha256, sha256)
        if key not in self._known:
            path = find_file(name, sha256, folders)
            # The first worker compares, and the others read its result.
            with file_lock(self.cache / "lock", wait=lambda: None):
                self._known[key] = compare_with_file(
                    dataset.samples, path, dataset_sha256=dataset.sha256, name=name, sha256=sha256, cache=self.cache
                )
        return self._known[key]
