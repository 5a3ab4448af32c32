"""A summary of a dataset: fields, groups, repeated values, duplicate inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_crucible.datasets.selection import fields_of, text_of
from pytest_crucible.records import Sample

# Fields with more distinct values than this (ids, texts) are of no use for strata, and counting them costs memory.
FEW = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A summary of all samples of a dataset."""

    samples: int
    columns: tuple[str, ...]
    """The fields that some sample has, its metadata among them."""
    groups: int | None
    """None when no sample has a group."""
    duplicates: int
    """The number of samples with the same input as an earlier sample."""
    values: Mapping[str, Mapping[str, int]]
    """Field -> value -> samples, for fields of a few values that repeat; the most frequent first."""
    first: Sample


def describe(samples: Sequence[Sample]) -> Description:
    """Return a summary of the samples, which are read once.

    >>> summary = describe([Sample(id="a", input="1 + 1", expected="2"), Sample(id="b", input="1 + 1", expected="2")])
    >>> summary.duplicates, summary.values
    (1, {'expected': {'2': 2}})
    """
    counts: dict[str, Counter[str]] = {}
    inputs, groups = set[str](), set[str]()
    columns = dict.fromkeys(("id", "input"))
    for sample in samples:
        inputs.add(text_of(sample.input))
        groups |= {sample.group} - {None} if sample.group is not None else set()
        columns |= dict.fromkeys(_fields(sample))
        for name, value in fields_of(sample).items():
            _count(counts.setdefault(name, Counter()), value)
    return Description(
        samples=len(samples),
        columns=tuple(columns),
        groups=len(groups) or None,
        duplicates=len(samples) - len(inputs),
        values={name: dict(counter.most_common()) for name, counter in counts.items() if _few(name, counter)},
        first=samples[0],
    )


def _fields(sample: Sample) -> list[str]:
    values: dict[str, Any] = {"expected": sample.expected, "group": sample.group, **sample.metadata}
    return [name for name, value in values.items() if value is not None]


def _count(counter: Counter[str], value: Any) -> None:
    """Count a value, unless the field already has too many distinct values."""
    if isinstance(value, str | int | bool) and len(counter) <= FEW:
        counter[text_of(value)] += 1


def _few(name: str, counter: Counter[str]) -> bool:
    return name != "group" and 0 < len(counter) <= FEW and max(counter.values()) > 1
