"""Weights of training rows by which a label no longer depends on a field (Kamiran & Calders 2012, Knowl. Inf. Syst. 33:1)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from pytest_crucible.measures.fields import has_value, read_field
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.type_names import describe_type


def reweigh(rows: Iterable[Mapping[str, Any] | Sample], *, by: str, label: str) -> list[dict[str, Any]]:
    """Return the rows with a `weight`: how often the row's value and label would come together, over how often they do.

    The weight of value a and label y is P(a) P(y) / P(a, y), as AIF360's Reweighing. `by` and `label` are keys of the rows, or of
    their `expected` or `metadata`, or keys inside a key (`client.region`). A weight that a row has already is multiplied.
    `trainer.datums` reads the weights. Raises SpecError for a row without one of both, and where every row has one value.

    >>> rows = [{"sex": "f", "income": 1}, {"sex": "f", "income": 0}, {"sex": "m", "income": 1}, {"sex": "m", "income": 1}]
    >>> [round(row["weight"], 3) for row in reweigh(rows, by="sex", label="income")]
    [1.5, 0.5, 0.75, 0.75]
    """
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise SpecError(f"reweigh has rows={rows!r}: read the file first, and pass its rows")
    for argument, name in (("by", by), ("label", label)):
        if not isinstance(name, str):
            raise SpecError(f"reweigh has {argument}={name!r}: write a key of the rows as text")
    plain = [_as_row(row, number) for number, row in enumerate(rows, 1)]
    pairs = [(_value(row, by, number), _value(row, label, number)) for number, row in enumerate(plain, 1)]
    values, labels, together = Counter(a for a, _ in pairs), Counter(y for _, y in pairs), Counter(pairs)
    for name, counts in ((by, values), (label, labels)):
        if len(counts) < 2:
            what = f"every row has {name} = {next(iter(counts))!r}" if counts else "there are no rows"
            raise SpecError(f"reweigh(by={by!r}, label={label!r}): {what}; choose another field")
    n = len(pairs)
    return [
        {**row, "weight": _own_weight(row, number) * values[a] * labels[y] / (n * together[a, y])}
        for number, (row, (a, y)) in enumerate(zip(plain, pairs, strict=True), 1)
    ]


def _as_row(row: Mapping[str, Any] | Sample, number: int) -> dict[str, Any]:
    if isinstance(row, Sample):
        return {"id": row.id, "input": row.input, "expected": row.expected, "metadata": dict(row.metadata)}
    if not isinstance(row, Mapping):
        raise SpecError(f"reweigh: row {number} is {describe_type(row)}; pass mappings, such as lines of a JSONL file")
    return dict(row)


def _value(row: Mapping[str, Any], name: str, number: int) -> str:
    value = read_field(name, row.get("expected"), row)
    if not has_value(value):
        has = f"{name} = {value!r}" if name in row else f"no {name!r}; it has {', '.join(map(repr, row)) or 'nothing'}"
        raise SpecError(f"reweigh: row {number} has {has}; leave it out, or give it a value")
    return str(value)


def _own_weight(row: Mapping[str, Any], number: int) -> float:
    weight = row.get("weight", 1.0)
    value = float(weight) if isinstance(weight, Real) and not isinstance(weight, bool) else math.nan
    if not 0 <= value < math.inf:
        raise SpecError(f"reweigh: row {number} has weight = {weight!r}; write a number of at least 0, or leave it out")
    return value
