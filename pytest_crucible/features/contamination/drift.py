"""Drift between two datasets, field by field: which fields have drifted, by how much, and within which margin."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from pytest_crucible.datasets.check import Check, CheckContext, Finder, Finding
from pytest_crucible.datasets.columns import Column, MissingColumn, Table
from pytest_crucible.datasets.expectation import check_choice, check_flag, check_share, column_check
from pytest_crucible.datasets.load import file_source
from pytest_crucible.datasets.packed import iterate_fields, pack_if_many
from pytest_crucible.datasets.similar import Vocabulary, split_words
from pytest_crucible.features.contamination.compare import open_embed
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample
from pytest_crucible.records.datasets import short_name
from pytest_crucible.records.errors import DatasetError, SpecError
from pytest_crucible.records.measures import State
from pytest_crucible.stats import holm
from pytest_crucible.stats.data_drift import (
    FieldDrift,
    compare_categories,
    compare_numbers,
    compare_vectors,
    decide_margin,
    same_value,
    stability_of_categories,
    stability_of_numbers,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import p_equals, quantity

PLACES = {"met": "within", "missed": "beyond", "undecided": "not shown to be within"}
FieldKind = Literal["numbers", "categories", "texts"]

# Texts are categories if they have at most 50 different values, or one for each five rows.
MOST_CATEGORIES, LEAST_REPEATS = 50, 5

# Numbers of so few values may be codes, whose order means nothing: distribution functions hardly differ where codes 1 and 2 change.
MOST_CODES = 10


def kind_of(columns: Sequence[Column]) -> FieldKind:
    """Return whether values are compared as numbers, categories or texts.

    The rule looks at the pooled values, which a permutation of the labels old and new leaves as they are.
    """
    types = frozenset().union(*(column.types for column in columns)) - {type(None)}
    if types <= {bool}:
        return "categories"
    labels = [label for column in columns for label in column.labels]
    different = len(set(labels))
    if types <= {int, float}:
        return "categories" if different <= MOST_CODES else "numbers"
    return "categories" if different <= MOST_CATEGORIES or different * LEAST_REPEATS <= len(labels) else "texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRow:
    """One field of two datasets."""

    field: str
    kind: FieldKind | None
    drift: FieldDrift | None
    """The comparison of the values that are not missing; None if they allow no test."""
    missing_drift: FieldDrift | None = None
    """The comparison of the shares of missing values; None if no value is missing."""
    p_adjusted: float | None = None
    """Adjusted over both comparisons (Bonferroni) and over all fields (Holm)."""
    missing: tuple[int, int] = (0, 0)
    stability: tuple[float, float] | None = None
    """The population stability index, and its mean without drift; None for texts."""
    state: State | None = None
    """Of a margin; None without one."""
    note: str = ""

    @property
    def parts(self) -> tuple[FieldDrift, ...]:
        """The comparisons that could be made."""
        return tuple(each for each in (self.drift, self.missing_drift) if each is not None)

    def p_value(self, margin: float | None) -> float | None:
        """Return the p-value of any drift of the field; None if nothing could be compared.

        Texts have no distance. With a margin they fail if their own drift is proven; their missing values have a distance.
        """
        own = self.drift if margin is not None and self._is_of_texts else None
        p_values = [each.p_value for each in ((own,) if own else self.parts)]
        return min(1.0, len(p_values) * min(p_values)) if p_values else None

    def is_proven(self, alpha: float) -> bool:
        """Return whether any drift, even a small one, is proven."""
        return self.p_adjusted is not None and self.p_adjusted <= alpha

    def fails(self, alpha: float) -> bool:
        """Return whether the field has drifted: beyond the margin if there is one."""
        return self.state == "missed" if self.state is not None else self.is_proven(alpha)

    def decide(self, margin: float | None, alpha: float, family_size: int) -> DriftRow:
        """Return the row with its state against the margin, corrected for the number of fields; unchanged without a margin."""
        if margin is None or not self.parts:
            return self
        # Beyond the margin may be either of two; within it have to be both.
        size = family_size * len(self.parts)
        states = {
            decide_margin(each, margin, alpha=alpha, family_size=size)
            for each in self.parts
            if each.distance is not None
        }
        if "missed" in states:
            return replace(self, state="missed")
        if self._is_of_texts:
            return self
        return replace(self, state="undecided" if "undecided" in states else "met")

    def missing_text(self) -> str:
        """Return the shares of missing values: `5 % and 60 % of the values are missing`; empty if none is."""
        if self.missing_drift is None:
            return ""
        old, new = (100 * count / n for count, n in zip(self.missing, self.missing_drift.n, strict=True))
        return f"{old:.3g} % and {new:.3g} % of the values are missing"

    @property
    def _is_of_texts(self) -> bool:
        return self.drift is not None and self.drift.distance is None


_OWN = ("id", "input", "expected", "group")


def load_rows_of_file(path: Path) -> Sequence[Sample]:
    """Return the rows of a file as samples. Rows need neither an id nor an input. Raises DatasetError."""
    _, file_format = file_source(path)
    samples = pack_if_many(
        Sample(
            id=str(row.get("id", number)),
            input=row.get("input"),
            expected=row.get("expected"),
            group=row.get("group"),
            metadata={name: value for name, value in row.items() if name not in _OWN},
        )
        for number, row in file_format.read(path)
    )
    if not samples:
        raise DatasetError(f"dataset {str(path)!r} is empty: write at least one row")
    return samples


def tfidf_vectors(texts: Sequence[str]) -> sparse.csr_matrix:
    """Return a row of unit length for each text; 0 for a text without words.

    The weight of a word is tf (ln((1 + n) / (1 + df)) + 1), as scikit-learn's smooth idf.
    """
    words = [split_words(text) for text in texts]
    vocabulary = Vocabulary(words)
    encoded = vocabulary.encode(words)
    shape = (len(texts), max(len(vocabulary), 1))
    counts = sparse.csr_matrix((np.ones(len(encoded.words)), (encoded.texts, encoded.words)), shape=shape)
    counts.sum_duplicates()
    frequency = np.bincount(counts.indices, minlength=shape[1])
    weighted = counts @ sparse.diags(np.log((1 + len(texts)) / (1 + frequency)) + 1)
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags(1 / np.where(lengths > 0, lengths, 1)) @ weighted)


# A permuted test on 5,000 texts a side takes some seconds, and finds a shift of a few percent of the texts.
MOST_TEXTS = 5000

# New values that a row names.
MOST_NEW = 3

_NOT_COMPARED = ("id", "group")

Embed = Callable[[Sequence[str]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """The comparison of two datasets."""

    rows: tuple[DriftRow, ...]
    alpha: float
    margin: float | None
    seed: int
    left_out: tuple[int, int] = (0, 0)
    """Rows of both datasets that are left out, because one row of each group is compared."""
    only_old: tuple[str, ...] = ()
    only_new: tuple[str, ...] = ()
    """Fields that only one of the datasets has: they are missing in all rows of the other."""

    @property
    def failed(self) -> tuple[DriftRow, ...]:
        return tuple(row for row in self.rows if row.fails(self.alpha))


def compare_datasets(
    old: Sequence[Sample],
    new: Sequence[Sample],
    *,
    fields: Sequence[str] = (),
    margin: float | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    kinds: Mapping[str, FieldKind] | None = None,
    embed: Embed = tfidf_vectors,
) -> DriftReport:
    """Return the comparison of all fields of two datasets, or of those named. Raises MissingColumn for an unknown one.

    Values are compared with values, and shares of missing values with each other.

    `embed` returns a vector of length 1 for each text, shape (n, d).
    """
    sides = one_of_each_group(old, seed), one_of_each_group(new, seed)
    tables = Table(sides[0], fields), Table(sides[1], fields)
    names = [_compared_fields(table) for table in tables]
    # A field that only one of the datasets has is missing in all rows of the other.
    compared = list(fields) or list(dict.fromkeys([*names[0], *names[1]]))
    rows = [
        _compare([_column(table, name, optional=not fields) for table in tables], seed, (kinds or {}).get(name), embed)
        for name in compared
    ]
    adjusted = holm([row.p_value(margin) for row in rows], family_size=max(len(rows), 1))
    decided = [replace(row, p_adjusted=p) for row, p in zip(rows, adjusted, strict=True)]
    return DriftReport(
        rows=tuple(row.decide(margin, alpha, len(rows)) for row in decided),
        alpha=alpha,
        margin=margin,
        seed=seed,
        left_out=(len(old) - len(sides[0]), len(new) - len(sides[1])),
        only_old=tuple(name for name in names[0] if name not in names[1]) if not fields else (),
        only_new=tuple(name for name in names[1] if name not in names[0]) if not fields else (),
    )


def one_of_each_group(samples: Sequence[Sample], seed: int) -> Sequence[Sample]:
    """Return one sample of each group, drawn by a hash of its content; all samples if there are no groups.

    Samples that share a passage or a template are alike, and tests of independent rows would find drift between any two sets
    of groups.
    """
    if all(group is None for _, _, _, group, _ in iterate_fields(samples)):
        return samples
    drawn: dict[str | None, tuple[bytes, int]] = {}
    for position, (name, text, expected, group, metadata) in enumerate(iterate_fields(samples)):
        content = json.dumps([text, expected, metadata], sort_keys=True, default=repr)
        key = (hashlib.sha256(f"{seed}:{content}".encode()).digest(), position)
        drawn[group if group is not None else name] = min(drawn.get(group if group is not None else name, key), key)
    return pack_if_many(samples[position] for position in sorted(position for _, position in drawn.values()))


def _compared_fields(table: Table) -> list[str]:
    """Return the fields to compare; of a mapping, its keys."""
    names: list[str] = []
    for name in table.fields:
        if name in _NOT_COMPARED or not table.has(name):
            continue
        values = table.column(name).present_values
        keys = sorted({str(key) for value in values[:1000] if isinstance(value, Mapping) for key in value})
        names += [f"{name}.{key}" for key in keys if table.has(f"{name}.{key}")] or [name]
    return names


def _column(table: Table, name: str, *, optional: bool) -> Column:
    if optional and not table.has(name):
        return Column(name, [None] * len(table))
    return table.column(name)


def _compare(columns: Sequence[Column], seed: int, kind: FieldKind | None, embed: Embed) -> DriftRow:
    old, new = columns
    kind = kind or kind_of(columns)
    # Each field has draws of its own, so that adding a field does not change the others.
    seed = int.from_bytes(hashlib.sha256(f"{seed}:{old.name}".encode()).digest()[:4])
    row = DriftRow(
        field=old.name,
        kind=kind,
        drift=None,
        missing_drift=_compare_missing(old, new, seed),
        missing=(old.missing, new.missing),
    )
    try:
        if kind == "numbers":
            numbers = [column.numbers[~np.isnan(column.numbers)] for column in (old, new)]
            stability = stability_of_numbers(*numbers, seed=seed)
            return replace(row, drift=compare_numbers(*numbers, seed=seed), stability=stability)
        if kind == "categories":
            return _compare_categories(row, old, new, seed)
        return _compare_texts(row, old, new, seed, embed)
    except NotEnoughData as error:
        return replace(row, note=str(error))


def _compare_missing(old: Column, new: Column, seed: int) -> FieldDrift | None:
    """Return the comparison of the shares of missing values; None where none is missing, or all are."""
    if not (old.missing or new.missing) or not (len(old.present) or len(new.present)):
        return None
    return compare_categories(*([len(column.present), column.missing] for column in (old, new)), seed=seed)


def _compare_categories(row: DriftRow, old: Column, new: Column, seed: int) -> DriftRow:
    counters = [Counter(column.labels) for column in (old, new)]
    # Sorted, so that the order of rows does not change a permuted p-value.
    labels = sorted(set().union(*counters))
    counts = [[counter[label] for label in labels] for counter in counters]
    row = replace(row, stability=stability_of_categories(*counts, seed=seed), note=_new_values(*counters))
    if len(labels) == 1 and all(counters):
        return replace(row, drift=same_value(*(counter.total() for counter in counters)))
    return replace(row, drift=compare_categories(*counts, seed=seed))


def _new_values(old: Counter[str], new: Counter[str]) -> str:
    """Return the sentence on values that only the new dataset has, the most frequent first; empty without any."""
    values = sorted(((-count, label) for label, count in new.items() if label not in old)) if old else []
    if not values:
        return ""
    listed = ", ".join(f"{short_name(label)} ({-count:,})" for count, label in values[:MOST_NEW])
    more = f" and {len(values) - MOST_NEW:,} more" if len(values) > MOST_NEW else ""
    return f"{quantity(len(values), 'new value')}: {listed}{more}"


def _compare_texts(row: DriftRow, old: Column, new: Column, seed: int, embed: Embed) -> DriftRow:
    def draw(texts: Sequence[str]) -> list[str]:
        """Return the texts in an order that does not depend on that of the rows; of many, those drawn by hash."""
        if len(texts) <= MOST_TEXTS:
            return sorted(texts)
        key = {text: hashlib.sha256(f"{seed}:{text}".encode()).digest() for text in texts}
        return sorted(texts, key=lambda text: (key[text], text))[:MOST_TEXTS]

    texts = [draw(column.texts) for column in (old, new)]
    note = f"{MOST_TEXTS:,} texts a side, drawn" if max(len(old.texts), len(new.texts)) > MOST_TEXTS else ""
    vectors = embed([*texts[0], *texts[1]])
    return replace(row, drift=compare_vectors(vectors, len(texts[0]), seed=seed), note=note)


METHODS: dict[str, FieldKind | None] = {"auto": None, "ks": "numbers", "chi2": "categories", "mmd": "texts"}


@column_check
def expect_no_data_drift(
    column: str,
    baseline: Any,
    margin: float | None = None,
    alpha: float = 0.05,
    method: str = "auto",
    embeddings: bool = False,
) -> Check:
    """Expect that a field has not drifted since `baseline`, a file.

    Without a margin, proven drift at `alpha` fails, of the values or of the share of missing ones. With a margin on the
    distance (Kolmogorov-Smirnov's of numbers, total variation of categories and of missing values), a distance proven to be
    above it fails, and one that is proven neither way warns. `method` is "auto", "ks" (numbers), "chi2" (categories) or "mmd"
    (texts). With `embeddings`, texts are compared by MiniLM (extra [semantic]) instead of by their words.
    """
    check_share("alpha", alpha)
    check_choice("method", method, METHODS)
    check_flag("embeddings", embeddings)
    if embeddings and METHODS[method] not in (None, "texts"):
        raise SpecError(f'embeddings are of texts, and method is {method!r}; write method="mmd", or remove embeddings')
    if margin is not None:
        check_share("margin", margin)
    if not isinstance(baseline, str | Path):
        raise SpecError("baseline must be the path of a file, such as 'march.jsonl'")

    kind = METHODS[method]

    def bind(context: CheckContext) -> Finder:
        return lambda table: find_drift(table, context.folder / baseline)

    def find_drift(table: Table, path: Path) -> Finding:
        if not path.is_file():
            raise SpecError(f"{baseline} does not exist; correct baseline=")
        table.column(column)
        options: dict[str, Any] = {"margin": margin, "alpha": alpha, "kinds": {column: kind} if kind else {}}
        embed = open_embed() if embeddings else tfidf_vectors
        try:
            old = load_rows_of_file(path)
            [row] = compare_datasets(old, table.samples, fields=[column], embed=embed, **options).rows
        except MissingColumn as error:
            raise SpecError(f"in {baseline} {error}") from None
        if not row.parts:
            raise SpecError(f"the field cannot be compared: {row.note}")
        if margin is not None and row.drift is not None and row.drift.distance is None:
            raise SpecError("texts have no distance to compare with a margin; remove margin")
        return _drift_finding(row, margin, alpha)

    return Check(subject="", call="", find=bind(CheckContext()), files=(str(baseline),), shares_alpha=True, bind=bind)


def _drift_finding(row: DriftRow, margin: float | None, alpha: float) -> Finding:
    return Finding(
        message=drift_text(row, alpha, margin),
        checked=row.parts[0].n[1],
        missing=row.missing[1],
        is_met=not row.fails(alpha),
        is_open=row.state == "undecided",
        p_value=row.p_value(margin),
        adjust=lambda p, size: _drift_finding(replace(row, p_adjusted=p).decide(margin, alpha, size), margin, alpha),
    )


def drift_text(row: DriftRow, alpha: float, margin: float | None) -> str:
    """Return the facts about a field's drift."""
    head = "drift proven" if row.is_proven(alpha) else "no drift proven"
    if row.state is not None:
        head += f", {PLACES[row.state]} the margin {margin:g}"
    note = f"; {row.note}" if row.note else ""
    if row.missing_drift is None:
        assert row.drift is not None
        distance = _distance_text(row.drift, row, margin, alpha)
        return f"{head}{distance and f': {distance}'} ({_test_text(row.drift, row.p_adjusted)}){note}"
    facts = [f"{row.missing_text()} ({_part_text(row.missing_drift, row, margin, alpha)})"]
    if row.drift is not None:
        facts.insert(0, f"of the values: {_part_text(row.drift, row, margin, alpha)}")
    return f"{head} ({p_equals(row.p_adjusted)} for values and missing ones together); {'; '.join(facts)}{note}"


def _part_text(drift: FieldDrift, row: DriftRow, margin: float | None, alpha: float) -> str:
    distance = _distance_text(drift, row, margin, alpha)
    return f"{distance and f'{distance}, '}{_test_text(drift, drift.p_value)}"


def _test_text(drift: FieldDrift, p: float | None) -> str:
    return f"{drift.test}, {p_equals(p)}, n = {drift.n[0]:,} and {drift.n[1]:,}"


def _distance_text(drift: FieldDrift, row: DriftRow, margin: float | None, alpha: float) -> str:
    """Return a distance with the bound by which it is beyond the margin, or not; empty without a decision on it."""
    lower, upper = drift.lower(alpha), drift.upper(alpha)
    if row.state is None or margin is None or lower is None or upper is None:
        return ""
    is_beyond = row.state == "missed" and lower > margin
    bound = f"at least {lower:.3g}" if is_beyond else f"at most {upper:.3g}"
    return f"the distance is {drift.distance:.3g}, {bound}"
