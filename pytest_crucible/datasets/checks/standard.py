"""The standard set: the checks that `crucible data check` runs on a dataset."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_crucible.datasets.check import Check, number_subjects
from pytest_crucible.datasets.checks.answers import (
    FEW_LABELS,
    expect_answer_not_in_prompt,
    expect_balanced_answer_key,
    expect_length_not_to_predict_label,
)
from pytest_crucible.datasets.checks.labels import (
    expect_group_share_below,
    expect_no_duplicates,
    expect_one_answer_per_input,
)
from pytest_crucible.datasets.checks.texts import expect_clean_text, expect_no_canaries, expect_no_secrets
from pytest_crucible.datasets.columns import Table
from pytest_crucible.records import Sample
from pytest_crucible.records.data_checks import CheckResult

# Keys of multiple choice: letters, or the places of the choices.
_CHOICE = re.compile(r"\(?[A-J]\)?|\d")


def run_standard(samples: Sequence[Sample]) -> tuple[CheckResult, ...]:
    """Return the results of the standard set."""
    table = Table(samples, names=("input",))
    return number_subjects([check.run(table) for check in standard_checks(table)])


def standard_checks(table: Table) -> list[Check]:
    """Return the checks of the standard set that apply to a table: those on answers and groups need them.

    Near duplicates, answers in prompts, lengths and large groups only warn: a dataset may have them for a reason.
    """
    return [
        expect_clean_text(),
        expect_no_duplicates(near=None),
        expect_no_duplicates(severity="warn"),
        expect_no_canaries(),
        expect_no_secrets(),
        *_answer_checks(table),
        *([expect_group_share_below(severity="warn")] if _has_groups(table) else []),
    ]


def _answer_checks(table: Table) -> Iterator[Check]:
    if not table.has("expected"):
        return
    yield expect_one_answer_per_input()
    yield expect_answer_not_in_prompt(severity="warn")
    labels = set(table.column("expected").labels)
    if 2 <= len(labels) <= FEW_LABELS:
        if all(map(_CHOICE.fullmatch, labels)):
            yield expect_balanced_answer_key()
        yield expect_length_not_to_predict_label(severity="warn")


def _has_groups(table: Table) -> bool:
    return table.has("group") and len(set(table.column("group").labels)) > 1
