"""Candidate slices of a search: values of fields, quartiles of numbers, length, numbers, code, topics, and pairs of these."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_crucible.records.slices import Field, short_name
from pytest_crucible.stats.arrays import Codes
from pytest_crucible.stats.slices.fields import field_labels, field_names, has_value, parse_number, read_field
from pytest_crucible.stats.slices.quartiles import number_levels
from pytest_crucible.stats.slices.search import FEWEST, Flags
from pytest_crucible.stats.slices.topics import find_topics

MOST_SLICES = 200
# A field with more values is a text, or an identifier.
MOST_VALUES = 20
# Pairs of features with more levels have too few samples in each.
_MOST_LEVELS = 4
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_CODE = re.compile(r"```|^\s*(?:def|class|import|function|#include|SELECT)\b|[{};]\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """One attribute of the samples with a few levels."""

    name: str
    codes: Codes
    """The level of each sample; below 0 where it has none."""
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CandidateSlices:
    """Slices to search: names, and samples x slices flags."""

    names: tuple[str, ...]
    members: Flags
    is_pair: tuple[bool, ...]
    """Whether a slice is of two features."""


def candidate_slices(features: Sequence[Feature]) -> CandidateSlices:
    """Return the slices of all features, and of their pairs, with at least FEWEST samples inside and outside.

    >>> feature = Feature("sex", np.repeat([0, 1], 30), ("f", "m"))
    >>> candidate_slices([feature]).names
    ('sex = m',)
    """
    known: dict[bytes, tuple[str, Flags, bool]] = {}
    single = ((name, flags, False) for name, flags in _single(features))
    pairs = ((name, flags, True) for name, flags in _pairs(features))
    for name, flags, is_pair in itertools.chain(single, pairs):
        inside = int(flags.sum())
        if FEWEST <= inside <= len(flags) - FEWEST:
            # A slice and its complement make the same comparison.
            keys = flags.tobytes(), (~flags).tobytes()
            if not any(key in known for key in keys):
                known[keys[0]] = (name, flags, is_pair)
        if len(known) == MOST_SLICES:
            break
    names, columns, is_pairs = zip(*known.values(), strict=True) if known else ((), (), ())
    members = np.stack(columns, axis=1) if columns else np.zeros((0, 0), dtype=bool)
    return CandidateSlices(names=tuple(names), members=members, is_pair=tuple(is_pairs))


def _single(features: Sequence[Feature]) -> Iterator[tuple[str, Flags]]:
    for feature in features:
        # Of yes and no the search keeps the first one that it sees: their slices make the same comparison.
        for level, name in reversed([*enumerate(feature.levels)]):
            yield f"{feature.name} = {short_name(name)}", np.asarray(feature.codes == level)


def _pairs(features: Sequence[Feature]) -> Iterator[tuple[str, Flags]]:
    few = [feature for feature in features if len(feature.levels) <= _MOST_LEVELS]
    for first, second in itertools.combinations(few, 2):
        for (name, flags), (other, more) in itertools.product(_single([first]), _single([second])):
            yield f"{name} & {other}", flags & more


def find_features(
    inputs: Sequence[Any],
    expected: Sequence[Any],
    metadata: Sequence[Mapping[str, Any]],
    further: Mapping[str, Sequence[Any]],
    *,
    seed: int = 0,
) -> list[Feature]:
    """Return the features of samples: first the user's own, then fields, and what texts show."""
    features = [*features_of_values(further), *_of_fields(expected, metadata)]
    texts = {"input": [as_text(value) for value in inputs]}
    if any(isinstance(value, str) for value in expected):
        texts["expected"] = [value if isinstance(value, str) else "" for value in expected]
    for name, column in texts.items():
        features += _of_texts(name, column)
    codes, names = find_topics(texts["input"], seed=seed)
    return [feature for feature in [*features, Feature("topic", codes, names)] if len(feature.levels) > 1]


def as_text(value: Any) -> str:
    """Return an input as one text: a conversation's contents, one below the other.

    >>> as_text([{"role": "user", "content": "Hi"}])
    'Hi'
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "\n".join(as_text(part.get("content", part) if isinstance(part, Mapping) else part) for part in value)
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def _of_fields(expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]) -> Iterator[Feature]:
    for name in field_names(expected, metadata):
        values = [read_field(name, *sample) for sample in zip(expected, metadata, strict=True)]
        # An object is described by its keys, such as author.country; as one text it says nothing.
        if not any(isinstance(value, Mapping) for value in values):
            yield from features_of_values({name: values})


def features_of_values(columns: Mapping[str, Sequence[Any]]) -> Iterator[Feature]:
    """Return the features of columns of values: numbers by quartiles, others by value, unless they have too many."""
    for name, values in columns.items():
        numbers = np.array([_as_number(value) for value in values])
        is_number = ~np.isnan(numbers)
        if is_number.any() and not any(
            has_value(value) for value, flag in zip(values, is_number, strict=True) if not flag
        ):
            yield Feature(name, *number_levels(numbers))
            continue
        codes, levels = field_labels(Field("value"), [None] * len(values), [{"value": value} for value in values])
        if len(levels) <= MOST_VALUES:
            yield Feature(name, codes, levels)
            continue
        # A table's numbers may be texts; few of them are left as they are, because they may be codes.
        numbers = np.array([parse_number(value) for value in values])
        if not any(has_value(value) for value, number in zip(values, numbers, strict=True) if np.isnan(number)):
            yield Feature(name, *number_levels(numbers))


def _as_number(value: Any) -> float:
    return parse_number(value) if isinstance(value, int | float) else float("nan")


def _of_texts(name: str, texts: Sequence[str]) -> Iterator[Feature]:
    yield Feature(f"length of {name}", *number_levels(np.array([float(len(text)) for text in texts])))
    yield Feature(f"numbers in {name}", *number_levels(np.array([float(len(_NUMBER.findall(text))) for text in texts])))
    has_code = np.array([_CODE.search(text) is not None for text in texts], dtype=np.intp)
    yield Feature(f"code in {name}", has_code, ("no", "yes"))
