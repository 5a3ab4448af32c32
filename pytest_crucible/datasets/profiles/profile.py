"""The profile of a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.texts import is_clean
from pytest_crucible.datasets.overlap.duplicates import normalise_text
from pytest_crucible.datasets.profiles.associations import Association, associate_fields
from pytest_crucible.datasets.profiles.field import FieldProfile, profile_field
from pytest_crucible.records import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A summary of all fields of a dataset."""

    samples: int
    fields: tuple[FieldProfile, ...]
    associations: tuple[Association, ...]
    quality: Mapping[str, float | None]
    """Shares from 0 to 1, by name; None if a share is not defined. They measure different things, so there is no common score."""


QUALITY = {
    "complete": "fields that have a value, over all samples",
    "unique": "samples whose input no other sample has",
    "answered": "samples with an expected answer",
    "consistent": "answered samples whose input has one answer only",
    "clean": "inputs that are not empty, without control characters or signs of a wrong encoding",
    "of one type": "values of the most frequent type of their field",
}
"""Name of a share -> its denominator."""


def profile_samples(samples: Sequence[Sample]) -> Profile:
    """Return the profile of a dataset.

    >>> profile_samples([Sample(id="a", input="1 + 1", expected="2"), Sample(id="b", input="1 + 2")]).quality["answered"]
    0.5
    """
    table = Table(samples, names=("input",))
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


def _quality(table: Table, fields: Sequence[FieldProfile]) -> dict[str, float | None]:
    values = sum(len(table) - entry.missing for entry in fields)
    keys = [normalise_text(text) for text in table.column("input").texts]
    counts: dict[str, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    of_one_type = sum(max(entry.types.values(), default=0) for entry in fields)
    return {
        "complete": values / (len(table) * len(fields)),
        "unique": sum(counts[key] == 1 for key in keys) / len(table),
        **_answer_quality(table, keys),
        "clean": sum(map(is_clean, table.column("input").texts)) / len(table),
        "of one type": of_one_type / values if values else None,
    }


def _answer_quality(table: Table, keys: Sequence[str]) -> dict[str, float | None]:
    if not table.has("expected"):
        return {"answered": 0.0, "consistent": None}
    answers = table.column("expected")
    of_key: dict[str, set[str]] = {}
    for position, label in zip(answers.present.tolist(), answers.labels, strict=True):
        of_key.setdefault(keys[position], set()).add(label)
    consistent = sum(len(of_key[keys[position]]) == 1 for position in answers.present.tolist())
    answered = len(answers.present)
    return {"answered": answered / len(table), "consistent": consistent / answered if answered else None}
