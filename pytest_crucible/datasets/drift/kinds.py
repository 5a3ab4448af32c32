"""The kind of a field, by which drift is tested: a rule over the pooled values, fixed before the datasets are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pytest_crucible.datasets.checks.columns import Column

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
