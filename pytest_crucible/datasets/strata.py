"""Strata: the value of one field for each sample."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.suggestions import suggest


def strata(samples: Sequence[Sample], name: str) -> list[str]:
    """Return the value of a field for each sample, as text. Raises DatasetError for the first sample without it.

    A field is `expected`, `group`, anything in the metadata, or a key of an `expected` that is a mapping.

    >>> strata([Sample(id="a", input="", metadata={"level": 2}), Sample(id="b", input="", metadata={"level": 1})], "level")
    ['2', '1']
    """
    return [text_of(_value(sample, name)) for sample in samples]


def _value(sample: Sample, name: str) -> Any:
    fields = fields_of(sample)
    if fields.get(name) is None:
        hint = suggest(name, fields, otherwise=f"it has {', '.join(map(repr, fields)) or 'none'}")
        raise DatasetError(f"sample {sample.id!r} has no field {name!r} to stratify by: {hint}")
    return fields[name]


def fields_of(sample: Sample) -> dict[str, Any]:
    """Return the fields of a sample; a field of the metadata hides a key of `expected` with the same name."""
    inside = sample.expected if isinstance(sample.expected, Mapping) else {}
    return {**inside, **sample.metadata, "expected": sample.expected, "group": sample.group}


def text_of(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON, equal for equal values."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)
