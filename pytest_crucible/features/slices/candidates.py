"""Candidate slices of a search, from fields, texts and topics, and which features predict a difference.

Which features predict the difference between two arms: out-of-fold permutation importance (extra `[explain]`).
A model that predicts no better than on shuffled differences says nothing about its features: then the result is None.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pytest_crucible.measures.fields import (
    field_labels,
    field_names,
    has_value,
    number_levels,
    parse_number,
    read_field,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.datasets import Field, short_name
from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.slices.search import FEWEST, Flags

TOPICS = 8
# Words beyond these are rare, and a dense table of them would not fit.
_MOST_WORDS = 200
_ROUNDS = 10
_STARTS = 2
_WORD = re.compile(r"[^\W\d_]{3,}")
# Words in one of three texts do not distinguish topics.
_COMMON = 1 / 3
_FEWEST = 5


def find_topics(texts: Sequence[str], *, topics: int = TOPICS, seed: int = 0) -> tuple[Codes, tuple[str, ...]]:
    """Return the topic of each text, and the three words that name each topic. No topic at all for texts without words.

    >>> codes, names = find_topics(["red apple"] * 9 + ["blue fish"] * 9 + ["green hill"] * 9 + ["old boat"] * 9, topics=4)
    >>> len(set(codes[:9].tolist())), len(names)
    (1, 4)
    """
    words, weights = _tf_idf(texts)
    if not words:
        return np.full(len(texts), -1, dtype=np.intp), ()
    centres = _k_means(weights, min(topics, len(texts)), np.random.default_rng(seed))
    codes = np.argmax(weights @ centres.T, axis=1)
    # A text without a known word is similar to no other.
    codes = np.where(weights.any(axis=1), codes, -1)
    names = tuple(", ".join(words[at] for at in np.argsort(-centre, kind="stable")[:3]) for centre in centres)
    return codes.astype(np.intp), names


def _tf_idf(texts: Sequence[str]) -> tuple[list[str], Array]:
    counted = [Counter(_WORD.findall(text.lower())) for text in texts]
    frequencies = Counter(word for counts in counted for word in counts)
    usable = [(n, word) for word, n in frequencies.items() if _FEWEST <= n <= _COMMON * len(texts)]
    words = [word for _, word in sorted(usable, key=lambda item: (-item[0], item[1]))[:_MOST_WORDS]]
    places = {word: place for place, word in enumerate(words)}
    weights = np.zeros((len(texts), len(words)))
    for row, counts in enumerate(counted):
        for word in counts.keys() & places.keys():
            weights[row, places[word]] = (1 + np.log(counts[word])) * np.log(len(texts) / frequencies[word])
    return words, _unit_rows(weights)


def _unit_rows(rows: Array) -> Array:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0))


def _k_means(rows: Array, count: int, rng: np.random.Generator) -> Array:
    best, centres = -np.inf, rows[:count]
    for _ in range(_STARTS):
        tried = _converge(rows, rows[rng.choice(len(rows), size=count, replace=False)])
        fit = float((rows @ tried.T).max(axis=1).sum())
        if fit > best:
            best, centres = fit, tried
    return centres


def _converge(rows: Array, centres: Array) -> Array:
    codes = np.full(len(rows), -1)
    for _ in range(_ROUNDS):
        nearest = np.argmax(rows @ centres.T, axis=1)
        if np.array_equal(nearest, codes):
            break
        codes = nearest
        member = np.eye(len(centres))[codes]
        sums = member.T @ rows
        centres = np.where(sums.any(axis=1, keepdims=True), _unit_rows(sums), centres)
    return centres


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
    slices: dict[bytes, tuple[str, Flags, bool]] = {}
    groups = ((False, _single(features)), (True, _pairs(features)))
    for is_pair, (name, flags) in ((is_pair, named) for is_pair, group in groups for named in group):
        inside = int(flags.sum())
        if FEWEST <= inside <= len(flags) - FEWEST:
            # A slice and its complement make the same comparison.
            keys = flags.tobytes(), (~flags).tobytes()
            if not any(key in slices for key in keys):
                slices[keys[0]] = (name, flags, is_pair)
        if len(slices) == MOST_SLICES:
            break
    names, columns, is_pairs = zip(*slices.values(), strict=True) if slices else ((), (), ())
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
        numbers = np.array([parse_number(value) if isinstance(value, int | float) else np.nan for value in values])
        if not np.isnan(numbers).all() and not _has_other_values(values, numbers):
            yield Feature(name, *number_levels(numbers))
            continue
        codes, levels = field_labels(Field("value"), [None] * len(values), [{"value": value} for value in values])
        if len(levels) <= MOST_VALUES:
            yield Feature(name, codes, levels)
            continue
        # A table's numbers may be texts; few of them are left as they are, because they may be codes.
        numbers = np.array([parse_number(value) for value in values])
        if not _has_other_values(values, numbers):
            yield Feature(name, *number_levels(numbers))


def _has_other_values(values: Sequence[Any], numbers: Array) -> bool:
    return any(map(has_value, itertools.compress(values, np.isnan(numbers))))


def _of_texts(name: str, texts: Sequence[str]) -> Iterator[Feature]:
    counts = {"length of": map(len, texts), "numbers in": (len(_NUMBER.findall(text)) for text in texts)}
    for what, numbers in counts.items():
        yield Feature(f"{what} {name}", *number_levels(np.array([*numbers], dtype=float)))
    has_code = np.array([_CODE.search(text) is not None for text in texts], dtype=np.intp)
    yield Feature(f"code in {name}", has_code, ("no", "yes"))


FOLDS = 5
# With 19 shuffles the true order is the best of 20 in one of 20 suites without an effect.
SHUFFLES = 19
_TREES = 40
_DEPTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """The loss of prediction of held-out differences if one feature is permuted: a part of their variance."""

    feature: str
    value: float


def has_scikit_learn() -> bool:
    """Return whether the extra is installed."""
    return importlib.util.find_spec("sklearn") is not None


def rank_features(
    differences: Array, features: Sequence[Feature], *, groups: Codes | None = None, seed: int = 0
) -> tuple[Importance, ...] | None:
    """Return the importance of each feature, largest first; None if the features predict no better than shuffled differences.

    Folds keep groups whole. Explained variance and importances are of held-out samples.
    """
    if not features:
        return None
    table = np.stack([feature.codes for feature in features], axis=1).astype(np.float64)
    rng = np.random.default_rng(seed)
    units = np.arange(len(differences)) if groups is None else np.unique(groups, return_inverse=True)[1]
    folds = rng.permutation(units.max() + 1)[units] % FOLDS
    models = _fit_folds(table, differences, folds, seed)
    explained = _explained_share(table, differences, folds, models)
    for _ in range(SHUFFLES):
        shuffled = rng.permutation(differences)
        if _explained_share(table, shuffled, folds, _fit_folds(table, shuffled, folds, seed)) >= explained:
            return None
    values = []
    for column, feature in enumerate(features):
        permuted = table.copy()
        permuted[:, column] = rng.permutation(permuted[:, column])
        loss = explained - _explained_share(permuted, differences, folds, models)
        values.append(Importance(feature=feature.name, value=loss))
    return tuple(sorted(values, key=lambda each: -each.value))


def _fit_folds(table: Array, differences: Array, folds: Codes, seed: int) -> list[Any]:
    from sklearn.ensemble import ExtraTreesRegressor

    return [
        ExtraTreesRegressor(_TREES, max_depth=_DEPTH, min_samples_leaf=5, random_state=seed).fit(
            table[folds != fold], differences[folds != fold]
        )
        for fold in range(FOLDS)
    ]


def _explained_share(table: Array, differences: Array, folds: Codes, models: Sequence[Any]) -> float:
    """Return the share of the variance of held-out differences that is predicted; below 0 for worse than their mean."""
    predicted = np.empty_like(differences)
    for fold, model in enumerate(models):
        predicted[folds == fold] = model.predict(table[folds == fold])
    variance = float(np.var(differences))
    return 1 - float(np.mean((differences - predicted) ** 2)) / variance if variance else 0.0
