"""What samples are told apart by: the value that each has of one field."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.errors import DatasetError
from pytest_crucible.records import Sample


def strata(samples: Sequence[Sample], name: str) -> list[str]:
    """The value of a field for each sample, as text. Raises DatasetError for the first sample that has none.

    A field is `expected`, `group`, anything in the metadata, or a key of an `expected` that is a mapping.

    >>> strata([Sample(id="a", input="", metadata={"level": 2}), Sample(id="b", input="", metadata={"level": 1})], "level")
    ['2', '1']
    """
    return [text_of(_value(sample, name)) for sample in samples]


def _value(sample: Sample, name: str) -> Any:
    known = fields_of(sample)
    if known.get(name) is None:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f": did you mean {near[0]!r}?" if near else f" (it has {', '.join(map(repr, known)) or 'none'})"
        raise DatasetError(f"sample {sample.id!r} has no field {name!r} to stratify by{hint}")
    return known[name]


def fields_of(sample: Sample) -> dict[str, Any]:
    """All that a sample can be told apart by, in the order in which names count."""
    inside = sample.expected if isinstance(sample.expected, Mapping) else {}
    return {**inside, **sample.metadata, "expected": sample.expected, "group": sample.group}


def text_of(value: Any) -> str:
    """A text as it is, anything else as JSON, the same for equal values."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)
