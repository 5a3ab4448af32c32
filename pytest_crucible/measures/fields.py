"""The slice of each sample, from the fields that a target names, and cuts of fields that are quantities."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from pytest_crucible.records.datasets import By, Field, shortest
from pytest_crucible.records.errors import suggest
from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.slices.slicing import NO_SLICE, Slicing

# A number with at most this many values is used value by value.
FEW_NUMBERS = 6
# Floats from here on hold no fractions: that they are whole says nothing about the field, and their digits are noise.
_WHOLE = 2.0**53


def number_levels(numbers: Array) -> tuple[Codes, tuple[str, ...]]:
    """Return the level of each number and the names of the levels. NaN has no level."""
    is_number = ~np.isnan(numbers)
    present = numbers[is_number]
    values = np.unique(present)
    if len(values) <= FEW_NUMBERS:
        names, codes = tuple(map(shortest, values.tolist())), np.searchsorted(values, numbers)
    else:
        cuts = _quartile_cuts(present, values)
        names, codes = _range_names(values, cuts), np.searchsorted(cuts, numbers, side="right")
    return np.where(is_number, codes, NO_SLICE).astype(np.intp), names


def _quartile_cuts(numbers: Array, values: Array) -> Array:
    """Return at most three cuts, each at a value that occurs; `values` are the distinct ones, in order."""
    cuts = np.unique(np.quantile(numbers, (0.25, 0.5, 0.75), method="higher"))
    # Below the lowest value there is nothing. Where it is more than three quarters of all, no other cut is left.
    cuts = cuts[cuts > values[0]]
    return cuts if len(cuts) else values[1:2]


def _range_names(values: Array, cuts: Array) -> tuple[str, ...]:
    texts = list(map(shortest, cuts.tolist()))
    if bool((values == np.round(values)).all()) and np.abs(values).max() < _WHOLE:
        whole = [(int(low), int(high) - 1) for low, high in itertools.pairwise(cuts.tolist())]
        between = [str(low) if low == high else f"{low} to {high}" for low, high in whole]
    else:
        between = [f"{low} to below {high}" for low, high in itertools.pairwise(texts)]
    return (f"below {texts[0]}", *between, f"{texts[-1]} and above")


# With more slices than this share of the samples, nearly every sample is a slice of its own.
MOST_PER_SAMPLE = 0.5


def slice_samples(by: By, expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]) -> Slicing:
    """Return the slice of each sample. Samples that lack a field have none."""
    labels = [field_labels(field, expected, metadata) for field in by.fields]
    codes, names = labels[0] if len(labels) == 1 else _cross(labels)
    strata = None if by.within is None else field_labels(by.within, expected, metadata)[0]
    return Slicing(codes=codes, names=names, strata=strata)


def field_labels(
    field: Field, expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]
) -> tuple[Codes, tuple[str, ...]]:
    """Return a number for each sample's value of one field, and the names of the values in their order."""
    values = [read_field(field.name, *sample) for sample in zip(expected, metadata, strict=True)]
    return _cut(values, field.cuts) if field.cuts else _distinct(values)


def read_field(name: str, expected: Any, metadata: Mapping[str, Any]) -> Any:
    """Return a sample's value of a field; None where it has none.

    `metadata.topic` and `expected.topic` name one of two keys; `author.country` is a key inside a key.
    """
    keys = expected if isinstance(expected, Mapping) else {}
    for place in (metadata, _nested_metadata(metadata), keys):
        if name in place:
            return place[name]
    if name == "expected":
        return expected
    head, _, rest = name.partition(".")
    places = {"metadata": metadata, "expected": keys, **{key: metadata[key] for key in (head,) if key in metadata}}
    inner = places.get(head)
    return read_field(rest, None, inner) if rest and isinstance(inner, Mapping) else None


def _nested_metadata(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata of rows that have a key `metadata` of their own."""
    inner = metadata.get("metadata")
    return inner if isinstance(inner, Mapping) else {}


def field_names(expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all fields that some sample has, in the order in which they appear."""
    names = dict.fromkeys(name for sample in metadata for name in (*_nested_metadata(sample), *sample))
    if any(map(_nested_metadata, metadata)):
        del names["metadata"]
    names |= dict.fromkeys(name for value in expected if isinstance(value, Mapping) for name in value)
    whole = ["expected"] if any(isinstance(value, str | int | float | bool) for value in expected) else []
    return [*map(str, names), *whole]


def field_problem(by: By, expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]) -> str:
    """Explain why samples cannot be divided by the fields; empty if they can."""
    fields = (*by.fields, *(() if by.within is None else (by.within,)))
    twice = [name for name, count in Counter(field.name for field in fields).items() if count > 1]
    if twice:
        return f"it names {twice[0]!r} twice; leave one out"
    for field in fields:
        values = [read_field(field.name, *sample) for sample in zip(expected, metadata, strict=True)]
        problem = _values_problem(field, [value for value in values if has_value(value)])
        if problem == _ABSENT:
            names = field_names(expected, metadata)
            if field.name in names:
                return f"{field.name!r} is null or empty in every sample; choose another field"
            hint = suggest(field.name, names, otherwise=_known_fields(field.name, names))
            return f"no sample has a field {field.name!r}; {hint}"
        if problem:
            return problem
    slicing = slice_samples(by, expected, metadata)
    if slicing.count == 1:
        choose = "other cuts" if any(field.cuts for field in by.fields) else "another field"
        return f"every sample has {by.title} = {json.dumps(slicing.names[0], ensure_ascii=False)}; choose {choose}"
    return ""


_ABSENT = "absent"


def _known_fields(name: str, names: Sequence[str]) -> str:
    if not names:
        add = f"add the field to the dataset, or to an imported table by --column metadata={name}"
        return f"samples have no metadata and no expected: {add}"
    return f"the samples have {', '.join(map(repr, names[:12]))}"


def _values_problem(field: Field, values: Sequence[Any]) -> str:
    if not values:
        return _ABSENT
    numbers = [number for number in map(parse_number, values) if math.isfinite(number)]
    if field.cuts:
        if list(field.cuts) != sorted(set(field.cuts)):
            return f"the cuts of {field.name!r} must rise: write {field.name}({', '.join(map(shortest, sorted(set(field.cuts))))})"
        return "" if numbers else f"no sample has a number as {field.name!r}; leave out the cuts"
    distinct = len({_label(value) for value in values})
    if distinct <= MOST_PER_SAMPLE * len(values) or distinct < 3:
        return ""
    own = f"nearly every sample has its own {field.name!r}"
    if len(numbers) < len(values):
        return f"{own}; choose another field"
    return f"{own}; cut it: by {Field(field.name, suggest_cuts(np.array(numbers)))}"


def has_value(value: Any) -> bool:
    """Return whether a field has a value: null, NaN and the empty text, as of a table's empty cell, are none."""
    return value is not None and value != "" and value == value


def _distinct(values: Sequence[Any]) -> tuple[Codes, tuple[str, ...]]:
    # Values repeat, and their labels cost more than a look-up.
    label_of: dict[Hashable, str] = {}
    labels: list[str | None] = []
    for value in values:
        if not has_value(value):
            labels.append(None)
            continue
        key = (type(value), value) if isinstance(value, Hashable) else json.dumps(value, sort_keys=True, default=str)
        if key not in label_of:
            label_of[key] = _label(value)
        labels.append(label_of[key])
    names = tuple(sorted(set(label_of.values()), key=label_order))
    places = {name: place for place, name in enumerate(names)}
    codes = (NO_SLICE if label is None else places[label] for label in labels)
    return np.fromiter(codes, dtype=np.intp), names


def _label(value: Any) -> str:
    if isinstance(value, str):
        return value
    return shortest(value) if isinstance(value, float) else json.dumps(value, sort_keys=True, default=str)


def label_order(name: str) -> tuple[bool, float, str]:
    """Return the key by which names are sorted: numbers first, by size."""
    number = parse_number(name)
    return math.isnan(number), 0.0 if math.isnan(number) else number, name


def parse_number(value: Any) -> float:
    """Return a number, also from a text; NaN for anything else, and for integers that are too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _cut(values: Sequence[Any], cuts: tuple[float, ...]) -> tuple[Codes, tuple[str, ...]]:
    numbers = np.array([parse_number(value) for value in values])
    codes = np.where(np.isnan(numbers), NO_SLICE, np.searchsorted(cuts, numbers, side="right"))
    texts = [shortest(cut) for cut in cuts]
    between = [f"{low} to below {high}" for low, high in itertools.pairwise(texts)]
    return _without_empty(codes.astype(np.intp), (f"below {texts[0]}", *between, f"{texts[-1]} and above"))


def _cross(labels: Sequence[tuple[Codes, tuple[str, ...]]]) -> tuple[Codes, tuple[str, ...]]:
    """Return the combinations of several fields that some sample has."""
    codes, names = labels[0][0], tuple(map(_quote_part, labels[0][1]))
    for more, more_names in labels[1:]:
        is_whole = (codes != NO_SLICE) & (more != NO_SLICE)
        codes = np.where(is_whole, codes * len(more_names) + more, NO_SLICE)
        names = tuple(f"{first} & {second}" for first in names for second in map(_quote_part, more_names))
        codes, names = _without_empty(codes, names)
    return codes, names


def _quote_part(name: str) -> str:
    """Return a value as a part of a combination, quoted where it could be read as two: two slices never have one name.

    >>> _quote_part("law"), _quote_part("law & tax")
    ('law', '"law & tax"')
    """
    return json.dumps(name, ensure_ascii=False) if " & " in name or name.startswith('"') else name


def _without_empty(codes: Codes, names: tuple[str, ...]) -> tuple[Codes, tuple[str, ...]]:
    filled = np.unique(codes[codes != NO_SLICE])
    places = np.full(len(names) + 1, NO_SLICE, dtype=np.intp)
    places[filled] = np.arange(len(filled))
    return np.asarray(np.where(codes == NO_SLICE, NO_SLICE, places[codes])), tuple(names[code] for code in filled)


def samples_without_slice(slicing: Slicing) -> str:
    """Return the sentence on how many samples lack a field; empty where none does.

    >>> samples_without_slice(Slicing(codes=np.array([0, -1]), names=("a",)))
    '1 sample lacks the field'
    """
    return lacking_text(int((slicing.codes == NO_SLICE).sum()))


def lacking_text(lacking: int) -> str:
    """Return the sentence on how many samples lack a field; empty where none does."""
    if not lacking:
        return ""
    return f"{quantity(lacking, 'sample')} {'lacks' if lacking == 1 else 'lack'} the field"


# More numbers than this, with fewer samples each, are a quantity rather than kinds: 53 ages of 800 people have 15 each.
MANY_NUMBERS, FEW_SAMPLES = 20, 20


def suggest_cuts(numbers: Array) -> tuple[float, ...]:
    """Return two numbers that divide the values into thirds, as round as their distance allows.

    One, or the second lowest value, where one value is so frequent that nothing is below a third.
    """
    first, second = np.quantile(numbers, (1 / 3, 2 / 3)).tolist()
    # Between -1e308 and 1e308 the distance is infinite.
    distance = min(second - first, sys.float_info.max) or 1.0
    digits = 1 - math.floor(math.log10(distance))
    if bool((numbers == np.round(numbers)).all()):
        digits = min(digits, 0)
    values = np.unique(numbers)
    cuts = [cut for cut in (round(first, digits), round(second, digits)) if values[0] < cut <= values[-1]]
    return tuple(dict.fromkeys(cuts)) or (float(values[:2][-1]),)


def advise_cuts(by: By, slicing: Slicing) -> str:
    """Advise to cut a field of which many numbers have few samples each; empty for other fields."""
    inside = slicing.codes[slicing.codes != NO_SLICE]
    if len(by.fields) > 1 or by.fields[0].cuts or slicing.count <= MANY_NUMBERS:
        return ""
    if not len(inside) or len(inside) >= FEW_SAMPLES * slicing.count:
        return ""
    try:
        numbers = np.array([float(name) for name in slicing.names])
    except ValueError:
        return ""
    if not np.isfinite(numbers).all():
        return ""
    field = Field(by.fields[0].name, suggest_cuts(numbers[inside]))
    mean = round(len(inside) / slicing.count)
    return f"{slicing.count} slices have {mean} samples on average, and prove little; cut the numbers: by {field}"
