"""The samples of an imported task: ids, and the groups that the files name or that equal questions make."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, overload

from pytest_crucible.datasets import identify
from pytest_crucible.datasets.equal_inputs import count_equal_inputs, group_equal_inputs
from pytest_crucible.datasets.packed import PackedSamples, SpilledBytes
from pytest_crucible.importers.large_files import are_distinct
from pytest_crucible.importers.packed_rows import PackedRows, RowColumns
from pytest_crucible.importers.results import Row
from pytest_crucible.plan.streamed import MOST_IMPORTED
from pytest_crucible.records import Contrast, Dataset, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.plan import EqualInputs
from pytest_crucible.records.serialize import canonical
from pytest_crucible.runs.imported_tasks import Task

_PART = 10_000  # values: as JSON some hundred KB


def can_leave_texts_out(task: Task, contrasts: Sequence[Contrast]) -> bool:
    """Return whether nothing reads the texts of a task: so many rows are analysed in batches, by their scores.

    Where questions may be equal, texts tell which of them are groups.
    """
    packed = [arm.rows for arm in task.arms if isinstance(arm.rows, PackedRows)]
    replies = len(task.samples) * planned_repeats(task) * len(task.arms)
    if len(packed) < len(task.arms) or replies <= MOST_IMPORTED or task.unpaired:
        return False
    if any(results.has_uneven_repeats for results in task.arms):
        return False
    if any(contrast.by is not None for contrast in contrasts) or len(packed[0].kinds) > 1:
        return False
    return _are_distinct(_questions(task))


def _are_distinct(questions: Sequence[int]) -> bool:
    return are_distinct((question for question in questions if question), len(questions) - questions.count(0))


def _questions(task: Task) -> Sequence[int]:
    """Return the hash of each sample's question in the candidate's first row of it; 0 where there is none."""
    rows = task.arms[0].rows
    assert isinstance(rows, PackedRows)
    if tuple(rows.columns.samples) == task.samples:
        return rows.questions
    first: dict[str, int] = {}
    for sample, question in zip(rows.columns.samples, rows.questions, strict=True):
        first.setdefault(sample, question)
    return [first.get(sample, 0) for sample in task.samples]


def planned_repeats(task: Task) -> int:
    """Return the repeats that all arms have; the most of any where each sample has its own number."""
    numbers = [results.repeats for results in task.arms]
    return max(numbers) if all(results.has_uneven_repeats for results in task.arms) else min(numbers)


def samples_without_texts(task: Task) -> Dataset:
    """Return the samples by their ids and groups, identified by these and the hashes of their questions."""
    groups = _groups(task)
    samples = NamedSamples(task.samples, [groups[name] for name in task.samples] if groups else ())
    digest = _sha256([task.samples, _questions(task), samples.groups])
    return Dataset(name=task.name, sha256=digest, samples=samples)


def _sha256(columns: Sequence[Sequence[Any]]) -> str:
    """Return the hash of the values of all columns as a list of JSON, a part of which is in memory at a time."""
    digest, before = hashlib.sha256(), "["
    for column in columns:
        for first in range(0, len(column), _PART):
            digest.update(f"{before}{canonical([*column[first : first + _PART]])[1:-1]}".encode())
            before = ","
    digest.update(b"]")
    return digest.hexdigest()


def load_samples(task: Task) -> Dataset:
    """Return the samples as the candidate's rows describe them; samples that it lacks, as another arm's rows do.

    Those of many rows are in a file for temporary data.
    """
    if _has_rows_in_order(task):
        packed = PackedSamples(_samples(task, zip(task.samples, _rows_in_order(task), strict=True)), SpilledBytes())
        return identify(task.name, packed)
    rows: dict[str, Row] = {}
    for row in _all_rows(task):
        # The candidate's first row of a sample wins.
        rows.setdefault(row.sample, row)
    return identify(task.name, _samples(task, ((name, rows.get(name)) for name in task.samples)))


def _samples(task: Task, rows_of_samples: Iterable[tuple[str, Row | None]]) -> Iterator[Sample]:
    groups = _groups(task)
    return (
        Sample(id=name, input=row.input, expected=row.expected, group=groups.get(name), metadata=row.metadata)
        if row
        else Sample(id=name, input=None, group=groups.get(name))
        for name, row in rows_of_samples
    )


def _has_rows_in_order(task: Task) -> bool:
    """Return whether the candidate has packed rows, among them one of each sample, in the order of the samples."""
    rows = task.arms[0].rows
    # Each search goes on behind the last one.
    ids = iter(rows.columns.samples if isinstance(rows, PackedRows) else ())
    return all(sample in ids for sample in task.samples)


def _rows_in_order(task: Task) -> Iterator[Row]:
    """Yield the candidate's first row of each sample, which follow each other."""
    rows = iter(task.arms[0].rows)
    return (next(row for row in rows if row.sample == sample) for sample in task.samples)


def group_questions(task: Task, rows: Dataset) -> tuple[Dataset, EqualInputs | None]:
    """Return the samples in the groups that equal questions make: by prompts, where the files have those that were sent."""
    if _has_distinct_questions(task):
        return rows, None
    parts = _own_arms(task)
    prompts: dict[str, Any] = {}
    for row in _all_rows(task):
        prompts.setdefault(row.sample, row.prompt)
    if any(prompts.get(sample.id) is None for sample in rows.samples):
        grouped = group_equal_inputs(rows, parts)
        return grouped, count_equal_inputs(grouped.samples, parts)
    as_sent = (replace(sample, input=prompts[sample.id], expected=None, metadata={}) for sample in rows.samples)
    sent = group_equal_inputs(identify(rows.name, as_sent), parts)
    equal = count_equal_inputs(sent.samples, parts)
    groups = zip(rows.samples, (sample.joined_group for sample in sent.samples), strict=True)
    return identify(rows.name, (replace(sample, joined_group=group) for sample, group in groups)), equal


def _has_distinct_questions(task: Task) -> bool:
    """Return whether hashes of packed rows show that no two samples ask one question: their texts need not be compared."""
    rows = task.arms[0].rows
    if not isinstance(rows, PackedRows) or len(rows.kinds) > 1 or task.unpaired:
        return False
    questions = _questions(task)
    # Where a sample has no prompt, all are compared by their inputs.
    return (rows.kinds == {False} or 0 not in questions) and _are_distinct(questions)


def _own_arms(task: Task) -> dict[str, str]:
    """Return sample -> arm of a task whose arms have samples of their own: equal inputs of two arms pair nothing."""
    if not task.unpaired:
        return {}
    return {sample: arm.arm for arm in task.arms for sample in RowColumns.of(arm.rows).samples}


def _all_rows(task: Task) -> Iterator[Row]:
    return chain.from_iterable(arm.rows for arm in task.arms)


def _groups(task: Task) -> dict[str, str]:
    """Return sample -> group, where the files have groups. Raises SpecError for groups that differ between arms."""
    groups: dict[str, str] = {}
    for results in task.arms:
        columns = RowColumns.of(results.rows)
        # Without groups there are none of them.
        for sample, group in zip(columns.samples, columns.groups, strict=False):
            if group is not None and groups.setdefault(sample, group) != group:
                raise SpecError(
                    f"task {task.name!r}: sample {sample!r} is in group {groups[sample]!r} and, for "
                    f"{results.arm!r}, in {group!r}: a sample has one group"
                )
    # A sample that no arm reached has no known group. Without a group of its own, none could be used.
    return {name: groups.get(name, f"sample {name}") for name in task.samples} if groups else {}


class NamedSamples(Sequence[Sample]):
    """A sequence of samples without input, which returns equal samples on each access, not the same object.

    >>> NamedSamples(["a", "b"])[1].id
    'b'
    """

    __slots__ = ("groups", "ids")

    def __init__(self, ids: Sequence[str], groups: Sequence[str] = ()) -> None:
        """`groups` is empty where samples have none."""
        self.ids, self.groups = ids, groups

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Sample: ...

    @overload
    def __getitem__(self, at: slice) -> NamedSamples: ...

    def __getitem__(self, at: int | slice) -> Sample | NamedSamples:
        if isinstance(at, slice):
            return NamedSamples(self.ids[at], self.groups[at])
        return Sample(id=self.ids[at], input=None, group=self.groups[at] if self.groups else None)
