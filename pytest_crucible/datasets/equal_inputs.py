"""Samples that ask one question: they are one group, because more of them say nothing about other questions."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pytest_crucible.datasets.load import identify
from pytest_crucible.datasets.packed import MANY, iterate_fields, text_of
from pytest_crucible.records import Dataset, Sample
from pytest_crucible.records.plan import EqualInputs
from pytest_crucible.records.serialize import canonical

Parts = Mapping[str, str]
"""Sample's id -> the part within which its input is compared, such as the arm of a sample that only one arm has."""


def group_equal_inputs(dataset: Dataset, parts: Parts = MappingProxyType({})) -> Dataset:
    """Return the dataset with the samples of one question in one group, and groups that share a question joined.

    The same dataset where this changes no group. Its hash covers the new groups.
    """
    questions = find_equal_questions(dataset.samples, parts)
    labels = [_label(sample) for sample in dataset.samples] if questions else []
    if all(labels[position] == labels[first] for position, first in questions.items()):
        return dataset
    groups = _join_groups(labels, questions)
    return identify(
        dataset.name,
        (replace(sample, joined_group=group) for sample, group in zip(dataset.samples, groups, strict=True)),
    )


def count_equal_inputs(samples: Sequence[Sample], parts: Parts = MappingProxyType({})) -> EqualInputs | None:
    """Return how many samples and declared groups ask how many questions; None if equal inputs made no group."""
    firsts = find_equal_questions(samples, parts) if samples and samples[0].joined_group is not None else {}
    # A half of the samples may have none.
    if not firsts:
        return None
    questions = len(set(firsts.values()))
    declared = {sample.group for sample in samples}
    return EqualInputs(
        samples=len(firsts) + questions, questions=questions, declared=0 if None in declared else len(declared)
    )


def find_equal_questions(samples: Sequence[Sample], parts: Parts = MappingProxyType({})) -> Mapping[int, int]:
    """Return position -> position of the first sample with equal input, expected value and metadata, where it is another one.

    Empty inputs are no questions, and values that JSON has no form for equal nothing. One input of all samples (of each part)
    does not tell them apart, so that the test reads something else, such as their ids, or all of the run is about one question:
    then nothing is returned.

    >>> find_equal_questions([Sample(id="a", input="2+2"), Sample(id="b", input="3+3"), Sample(id="c", input="2+2")])
    {2: 0}
    """
    repeated = _repeated_inputs(samples)
    firsts: dict[tuple[str | None, str], int] = {}
    positions: dict[int, int] = {}
    for position, (name, prompt, expected, _, metadata) in enumerate(iterate_fields(samples)) if repeated else ():
        text = _question(prompt, expected, metadata) if _hash_input(prompt) in repeated else None
        if text is not None and (first := firsts.setdefault((parts.get(name), text), position)) != position:
            positions[position] = first
    different = len(samples) - len(positions)
    return {} if different == max(len(set(parts.values())), 1) else positions


def _repeated_inputs(samples: Sequence[Sample]) -> set[int]:
    """Return the hashes of inputs that several samples have: most datasets have none, and are compared no further."""
    hashes = array("q", (_hash_input(fields[1]) for fields in iterate_fields(samples)))
    # numpy takes 0.08 s to import, which only many samples are worth; a set would take ten times the memory.
    if len(hashes) <= MANY:
        return {number for number, count in Counter(hashes).items() if count > 1}
    import numpy as np

    ordered = np.sort(np.frombuffer(hashes, dtype=np.int64))
    return set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())


def _hash_input(prompt: Any) -> int:
    try:
        return hash(prompt if isinstance(prompt, str) else canonical(prompt))
    except TypeError:
        return id(prompt)


def _question(prompt: Any, expected: Any, metadata: Mapping[str, Any]) -> str | None:
    """Return one text for all equal questions; None for an empty input, or one without a plain form."""
    try:
        text = canonical([prompt, expected, metadata])
    except TypeError:
        return None
    return None if prompt is None or text_of(prompt).strip() in ("", "[]", "{}") else text


def _label(sample: Sample) -> str:
    return f"sample {sample.id}" if sample.group is None else sample.group


def _join_groups(labels: Sequence[str], questions: Mapping[int, int]) -> Iterator[str]:
    """Yield the group of each sample: groups that share a question have the name of the first, and how many joined it."""
    parents: dict[str, str] = {}

    def root(label: str) -> str:
        while label in parents:
            # Halved on the way, or chains of groups would take quadratic time.
            parents[label] = parents.get(parents[label], parents[label])
            label = parents[label]
        return label

    for position, first in questions.items():
        ours, theirs = root(labels[position]), root(labels[first])
        if ours != theirs:
            parents[ours] = theirs
    sizes = Counter(root(label) for label in set(labels))
    for label in labels:
        group = root(label)
        yield group if sizes[group] == 1 else f"{group} +{sizes[group] - 1}"
