"""The few things that records say of themselves."""

from __future__ import annotations

import dataclasses

import pytest
from strategies import COLUMNS, RECORDS

from pytest_crucible.records import Contrast, ModelCall, Outcome, Sample


@pytest.mark.parametrize(
    ("contrast", "subject"),
    [
        (Contrast(metric="accuracy", baseline="v1"), "accuracy: v2 vs v1"),
        (
            Contrast(metric="accuracy", baseline="v1", alternative="non-inferior", margin=0.05),
            "accuracy: v2 vs v1 non-inferior by 0.05",
        ),
        (Contrast(metric="accuracy", baseline="v1", alternative="superior"), "accuracy: v2 vs v1 superior"),
    ],
    ids=["regression", "non-inferior", "superior"],
)
def test_a_comparison_is_named_after_its_claim(contrast, subject):
    assert contrast.subject("v2") == subject


# An outcome and its calls are filled in while a unit runs.
@pytest.mark.parametrize(
    "kind", sorted({*RECORDS, *COLUMNS} - {Outcome, ModelCall}, key=str), ids=lambda kind: kind.__name__
)
def test_records_cannot_be_changed(kind):
    assert kind.__dataclass_params__.frozen


def test_samples_do_not_share_their_metadata():
    sample, other = Sample(id="a", input=1), Sample(id="b", input=2)

    assert sample.metadata is not other.metadata


def test_a_record_has_no_room_for_misspelt_fields():
    with pytest.raises(TypeError, match="exepcted"):
        dataclasses.replace(Sample(id="a", input=1), exepcted="x")
