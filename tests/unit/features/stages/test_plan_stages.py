"""Stages as they are written, the alpha of each, and the samples that they have."""

from __future__ import annotations

import pytest

from pytest_crucible.features.stages.definition import parse_stages, stage_alpha, stage_length, stage_number
from pytest_crucible.records.errors import SpecError


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("smoke: 100, dev: 20", 'crucible_stages = "smoke: 100, dev: 20": stages must grow, for example "smoke: 20, '),
        ("smoke: 20, dev: 20, full", "stages must grow"),
        ("smoke, full", "stages must grow"),
        ("smoke: 0, full", "stages must grow"),
        (
            "smoke: 20, dev: 100",
            'the last stage has all samples: write it without a number, for example "smoke: 20, dev',
        ),
        ("smoke: 20, smoke: 30, full", "two stages are named 'smoke'"),
        ("smoke: many, full", "'smoke: many' is not a stage: write a name and a number"),
        ("smoke: 20,, full", "'' is not a stage"),
        ("20, full", "'20' is not a stage"),
    ],
)
def test_stages_that_cannot_be_run_are_refused(text, sentence):
    with pytest.raises(SpecError) as caught:
        parse_stages(text)

    assert sentence in str(caught.value)


def test_an_unknown_stage_is_answered_with_the_nearest():
    stages = parse_stages("smoke: 20, full")

    assert stage_number(stages, "full", "--crucible-until=full") == 1
    with pytest.raises(SpecError, match=r"did you mean 'smoke'. the stages are smoke, full"):
        stage_number(stages, "smok", "--crucible-until=smok")
    with pytest.raises(SpecError, match=r"^--crucible-until=smoke needs stages: set crucible_stages"):
        stage_number((), "smoke", "--crucible-until=smoke")


@pytest.mark.parametrize("stages", [1, 2, 3, 6])
def test_the_stages_spend_alpha_together(stages):
    spent = [stage_alpha(0.05, stages, number) for number in range(stages)]

    assert sum(spent) == pytest.approx(0.05)
    assert spent[-1] >= 0.04


def test_a_stage_ends_with_a_whole_group_or_with_the_data():
    order, groups = [3, 2, 1, 0], ["a", "b", "b", None]

    assert [stage_length(order, groups, size) for size in (1, 2, 3, 9, None)] == [1, 3, 3, 4, 4]
