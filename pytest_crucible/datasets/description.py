"""What can be said of samples at a glance: fields, groups, values that repeat, inputs that occur twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_crucible.datasets.strata import fields_of, text_of
from pytest_crucible.records import Sample

FEW = 20
"""A field with no more values than these is one that samples can be told apart by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Of all samples of a dataset."""

    samples: int
    columns: tuple[str, ...]
    """The fields that some sample has, its metadata among them."""
    groups: int | None
    """None when no sample has a group."""
    duplicates: int
    """Samples whose input an earlier one has."""
    values: Mapping[str, Mapping[str, int]]
    """Field -> value -> samples, for fields of a few values that repeat; the most frequent first."""
    first: Sample


def describe(samples: Sequence[Sample]) -> Description:
    """Read all samples once.

    >>> told = describe([Sample(id="a", input="1 + 1", expected="2"), Sample(id="b", input="1 + 1", expected="2")])
    >>> told.duplicates, told.values
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
        values={name: dict(found.most_common()) for name, found in counts.items() if _few(name, found)},
        first=samples[0],
    )


def _fields(sample: Sample) -> list[str]:
    given: dict[str, Any] = {"expected": sample.expected, "group": sample.group, **sample.metadata}
    return [name for name, value in given.items() if value is not None]


def _count(found: Counter[str], value: Any) -> None:
    """Beyond a few, a field's values are not counted on: they would be as many as the samples."""
    if isinstance(value, str | int | bool) and len(found) <= FEW:
        found[text_of(value)] += 1


def _few(name: str, found: Counter[str]) -> bool:
    return name != "group" and 0 < len(found) <= FEW and max(found.values()) > 1
