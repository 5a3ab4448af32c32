"""The profile of a dataset: the types, values, outliers, associations and quality of its fields."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, fields

import numpy as np
import numpy.typing as npt
from scipy import stats

from pytest_crucible.datasets.columns import Column
from pytest_crucible.datasets.columns import Table as SampleTable
from pytest_crucible.features.data_checks.texts import is_clean
from pytest_crucible.features.data_checks.values import read_time
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Note, Row, Sample, Statement, Table, View
from pytest_crucible.records.datasets import normalise
from pytest_crucible.stats.number_format import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A summary of all fields of a dataset."""

    samples: int
    fields: tuple[FieldProfile, ...]
    associations: tuple[Association, ...]
    quality: Mapping[str, float | None]
    """Shares from 0 to 1, by name; None if a share is not defined. They measure different things, so there is no common score."""


def profile_samples(samples: Sequence[Sample]) -> Profile:
    """Return the profile of a dataset.

    >>> profile_samples([Sample(id="a", input="1 + 1", expected="2"), Sample(id="b", input="1 + 2")]).quality["answered"]
    0.5
    """
    table = SampleTable(samples, names=("input",))
    further = [name for name in table.fields if name not in ("id", "input", "expected", "group")]
    # All further fields in one pass over the samples.
    table.load(further)
    names = [name for name in table.fields if table.has(name)]
    columns = [table.column(name) for name in names]
    ids = table.column("id").values
    fields = tuple(profile_field(column, ids) for column in columns)
    return Profile(
        samples=len(table),
        fields=fields,
        associations=associate_fields([column for column in columns if column.name != "id"]),
        quality=_quality(table, fields),
    )


def _quality(table: SampleTable, fields: Sequence[FieldProfile]) -> dict[str, float | None]:
    values = sum(len(table) - entry.missing for entry in fields)
    keys = [normalise(text) for text in table.column("input").texts]
    counts = Counter(keys)
    of_one_type = sum(max(entry.types.values(), default=0) for entry in fields)
    return {
        "complete": values / (len(table) * len(fields)),
        "unique": sum(counts[key] == 1 for key in keys) / len(table),
        **_answer_quality(table, keys),
        "clean": sum(map(is_clean, table.column("input").texts)) / len(table),
        "of one type": of_one_type / values if values else None,
    }


def _answer_quality(table: SampleTable, keys: Sequence[str]) -> dict[str, float | None]:
    if not table.has("expected"):
        return {"answered": 0.0, "consistent": None}
    answers = table.column("expected")
    of_key: dict[str, set[str]] = {}
    for position, label in zip(answers.present.tolist(), answers.labels, strict=True):
        of_key.setdefault(keys[position], set()).add(label)
    consistent = sum(len(of_key[keys[position]]) == 1 for position in answers.present.tolist())
    answered = len(answers.present)
    return {"answered": answered / len(table), "consistent": consistent / answered if answered else None}


Numbers = npt.NDArray[np.float64]

# Values and outliers that a profile lists for each field.
MOST_VALUES = 10

# Tukey's fences, and Iglewicz & Hoaglin's (1993) limit of the modified z-score.
FENCE, MODIFIED_Z = 1.5, 3.5

# Makes the median absolute deviation of a normal distribution its standard deviation.
_NORMAL = 0.6745
_NAMES = {bool: "boolean", int: "integer", float: "float", str: "string", list: "list", tuple: "list", dict: "map"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSummary:
    """Numbers of a field, or the lengths of its texts. Population standard deviation; type-7 quantiles."""

    minimum: float
    lower_quartile: float
    median: float
    mean: float
    upper_quartile: float
    maximum: float
    stdev: float
    beyond_fences: int
    """Values beyond 1.5 interquartile ranges of the quartiles."""
    beyond_deviations: int
    """Values with a modified z-score above 3.5, by the median absolute deviation."""
    outliers: tuple[str, ...] = ()
    """Ids of the most extreme of these, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProfile:
    """One field of a dataset."""

    name: str
    types: Mapping[str, int]
    """Type -> number of values, the most frequent first."""
    missing: int
    different: int
    numbers: NumberSummary | None = None
    lengths: NumberSummary | None = None
    """Characters of texts."""
    values: Mapping[str, int] = field(default_factory=dict)
    """The most frequent values, where values repeat."""


def profile_field(column: Column, ids: list[str]) -> FieldProfile:
    """Return the profile of a column; `ids` are those of all samples."""
    types = Counter(map(_type_name, column.present_values))
    labels = Counter(column.labels)
    numbers = column.numbers
    is_number = ~np.isnan(numbers)
    texts = [
        (k, len(value))
        for k, value in zip(column.present.tolist(), column.present_values, strict=True)
        if isinstance(value, str)
    ]
    repeats = bool(labels) and max(labels.values()) > 1
    return FieldProfile(
        name=column.name,
        types=dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
        missing=column.missing,
        different=len(labels),
        numbers=_summarise(numbers[is_number], column.present[is_number].tolist(), ids),
        lengths=_summarise(np.array([n for _, n in texts], dtype=float), [k for k, _ in texts], ids),
        values=dict(sorted(labels.items(), key=lambda item: (-item[1], item[0]))[:MOST_VALUES]) if repeats else {},
    )


def _type_name(value: object) -> str:
    if isinstance(value, str) and len(value) >= 8 and read_time(value) is not None:
        return "timestamp"
    return _NAMES.get(type(value), "map" if isinstance(value, Mapping) else type(value).__name__)


def _summarise(values: Numbers, positions: list[int], ids: list[str]) -> NumberSummary | None:
    if not len(values):
        return None
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    fence = FENCE * (high - low)
    beyond = (values < low - fence) | (values > high + fence)
    deviation = np.median(np.abs(values - median))
    # If more than half of the values are equal, the deviation is 0 and no measure of spread.
    far = (deviation > 0) & (_NORMAL * np.abs(values - median) > MODIFIED_Z * deviation)
    extreme = sorted(np.flatnonzero(beyond), key=lambda k: (-abs(values[k] - median), ids[positions[k]]))[:MOST_VALUES]
    ordered = np.sort(values)
    return NumberSummary(
        minimum=float(ordered[0]),
        lower_quartile=float(low),
        median=float(median),
        mean=float(ordered.mean()),
        upper_quartile=float(high),
        maximum=float(ordered[-1]),
        stdev=float(ordered.std()),
        beyond_fences=int(beyond.sum()),
        beyond_deviations=int(far.sum()),
        outliers=tuple(sorted(ids[positions[k]] for k in extreme)),
    )


# A field with more values is a text or an identifier, not a category.
MOST_CATEGORIES = 50

# 435 pairs: a wider table is too long to read, and each pair costs a pass over the samples.
MOST_FIELDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """An association of two fields, and its strength."""

    fields: tuple[str, str]
    measure: str
    """`Pearson` and `Spearman` of two fields of numbers (from -1 to 1), `Cramer's V` of two of categories, and `correlation
    ratio` of one of each (0 to 1)."""
    value: float
    n: int


def associate_fields(columns: Sequence[Column]) -> tuple[Association, ...]:
    """Return all associations that are defined: a field that is constant has none. The strongest comes first."""
    prepared = [entry for column in columns if (entry := _prepare(column)) is not None][:MOST_FIELDS]
    associations = [association for pair in itertools.combinations(prepared, 2) for association in _associate(*pair)]
    return tuple(sorted(associations, key=lambda item: (-abs(item.value), item.fields, item.measure)))


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    is_number: bool
    values: np.ndarray
    """Numbers, or codes of categories; NaN if the value is missing."""


def _prepare(column: Column) -> _Field | None:
    """Return a field of numbers or of few categories; None for texts and for mixed values."""
    values = np.full(len(column.values), np.nan)
    if column.types - {type(None)} <= {int, float}:
        values[column.present] = column.numbers
        return _Field(column.name, True, values)
    if column.types & {list, dict, tuple}:
        return None
    names = sorted(set(column.labels))
    if not 2 <= len(names) <= MOST_CATEGORIES:
        return None
    codes = {name: code for code, name in enumerate(names)}
    values[column.present] = [codes[label] for label in column.labels]
    return _Field(column.name, False, values)


def _associate(first: _Field, second: _Field) -> list[Association]:
    both = ~np.isnan(first.values) & ~np.isnan(second.values)
    x, y = first.values[both], second.values[both]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return []
    # The order of the samples must not change the last digit.
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    if first.is_number and second.is_number:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            values = {"Pearson": stats.pearsonr(x, y).statistic, "Spearman": stats.spearmanr(x, y).statistic}
    elif not first.is_number and not second.is_number:
        table = stats.contingency.crosstab(x, y).count
        # sqrt(chi-squared / (n (min(r, c) - 1))).
        values = {"Cramer's V": stats.contingency.association(table, method="cramer")}
    else:
        numbers, codes = (x, y) if first.is_number else (y, x)
        values = {"correlation ratio": _correlation_ratio(numbers, codes)}
    names = (first.name, second.name)
    return [
        Association(fields=names, measure=measure, value=round(float(value), 6), n=len(x))
        for measure, value in values.items()
        if math.isfinite(value)
    ]


def _correlation_ratio(numbers: np.ndarray, codes: np.ndarray) -> float:
    """Return eta: the square root of the share of the variance that lies between the categories."""
    counts = np.bincount(codes.astype(np.intp))
    sums = np.bincount(codes.astype(np.intp), weights=numbers)
    means = sums[counts > 0] / counts[counts > 0]
    between = (counts[counts > 0] * (means - numbers.mean()) ** 2).sum()
    return math.sqrt(min(1.0, between / ((numbers - numbers.mean()) ** 2).sum()))


QUALITY = {
    "complete": "fields that have a value, over all samples",
    "unique": "samples whose input no other sample has",
    "answered": "samples with an expected answer",
    "consistent": "answered samples whose input has one answer only",
    "clean": "inputs that are not empty, without control characters or signs of a wrong encoding",
    "of one type": "values of the most frequent type of their field",
}
"""Name of a share -> its denominator."""

# Rows of the table of associations, the strongest first.
MOST_ASSOCIATIONS = 30

# Longer values are texts, which a table of values cannot show.
LONGEST_VALUE = 60
_NUMBERS = ("least", "quartile", "median", "mean", "quartile 3", "most", "sd", "beyond fences", "beyond 3.5 MAD")


def profile_view(name: str, profile: Profile) -> View:
    """Return the tables of a profile."""
    tables = (
        _quality_table(profile),
        _field_table(profile),
        _number_table("Numbers", [(entry, entry.numbers) for entry in profile.fields]),
        _number_table("Lengths of texts, in characters", [(entry, entry.lengths) for entry in profile.fields]),
        _value_table(profile),
        _association_table(profile.associations),
    )
    method = (
        "Quantiles are of type 7 (Hyndman & Fan 1996), the standard deviation is that of the population. Outliers lie beyond 1.5 "
        "interquartile ranges of the quartiles (Tukey 1977), or have a modified z-score above 3.5 (Iglewicz & Hoaglin 1993). "
        "Associations are over the samples that have both values; Spearman's gives ties the mean of their ranks."
    )
    return View(
        title=f"Profile of {name}",
        tables=tables,
        notes=(Note(text=quantity(profile.samples, "sample")),),
        methods=(Statement(text=method),),
        document={
            "dataset": name,
            "samples": profile.samples,
            "quality": dict(profile.quality),
            "fields": list(profile.fields),
            "associations": list(profile.associations),
        },
    )


def _quality_table(profile: Profile) -> Table:
    rows = [
        Row(cells=(name, "-" if share is None else f"{share:.4f}", QUALITY[name]))
        for name, share in profile.quality.items()
    ]
    return Table(title="Quality", heads=("share", "value", "of"), rows=tuple(rows), numbers=("value",))


def _field_table(profile: Profile) -> Table:
    rows = []
    for entry in profile.fields:
        counts = ", ".join(f"{name} {count:,}" for name, count in entry.types.items())
        types = next(iter(entry.types)) if len(entry.types) == 1 else counts
        rows.append(Row(cells=(entry.name, types, f"{entry.missing:,}", f"{entry.different:,}")))
    heads = ("field", "types", "missing", "different")
    return Table(title="Fields", heads=heads, rows=tuple(rows), numbers=("missing", "different"))


def _number_table(title: str, entries: list[tuple[FieldProfile, NumberSummary | None]]) -> Table:
    # All numbers of a summary but its counts and outliers, which are its last fields.
    *names, fences, deviations, _ = (field.name for field in fields(NumberSummary))
    rows = [
        Row(
            cells=(
                entry.name,
                *(f"{getattr(summary, name):.6g}" for name in names),
                *(f"{getattr(summary, name):,}" for name in (fences, deviations)),
            )
        )
        for entry, summary in entries
        if summary is not None
    ]
    return Table(title=title, heads=("field", *_NUMBERS), rows=tuple(rows), numbers=_NUMBERS)


def _value_table(profile: Profile) -> Table:
    rows = [
        Row(cells=(entry.name, ", ".join(f"{value} {count:,}" for value, count in entry.values.items())))
        for entry in profile.fields
        if entry.values and entry.name != "id" and max(map(len, entry.values)) <= LONGEST_VALUE
    ]
    return Table(title="Most frequent values", heads=("field", "values"), rows=tuple(rows))


def _association_table(associations: tuple[Association, ...]) -> Table:
    rows = [
        Row(cells=(*item.fields, item.measure, f"{item.value:.4f}", f"{item.n:,}"))
        for item in associations[:MOST_ASSOCIATIONS]
    ]
    more = len(associations) - len(rows)
    return Table(
        title="Associations",
        heads=("field", "and", "measure", "value", "n"),
        rows=tuple(rows),
        numbers=("value", "n"),
        note=f"{more:,} weaker ones are in the JSON file." if more else "",
    )
