"""Settings as tables, a sentence and JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_crucible.features.sweeps.sweep_members import SettingMeans, setting_document, setting_note, setting_tables
from pytest_crucible.stats import LevelDifference, LevelMean, MarginalMeans
from pytest_crucible.stats.interval import Interval


def make_interval(low: float, high: float) -> Interval:
    return Interval(low=low, high=high, level=0.95, method="t")


MEAN = LevelMean(
    setting="hyperparameters.steps", level="9", mean=0.5, interval=make_interval(0.4, 0.6), trainings=6, cells=2
)
PAIR = LevelDifference(
    setting="hyperparameters.steps", level="90", other="9", difference=-0.2, interval=make_interval(-0.3, -0.1), p_value=0.001,
    p_adjusted=0.002, trainings=12, cells=2,
)  # fmt: skip
OTHER = replace(PAIR, setting="lora.rank", level="32", other="8", p_adjusted=0.4)
MEANS = MarginalMeans(means=(MEAN,), differences=(PAIR, OTHER), cells=6, incomplete=0, n=100, level=0.95)
RESULT = SettingMeans(metric="right", means=MEANS)


def test_the_tables_count_trainings():
    levels, differences = setting_tables(RESULT)

    assert levels.heads == ("setting", "mean right [95 %]", "trainings")
    assert levels.rows[0].cells == ("steps = 9", "0.500 [0.400, 0.600]", "6")
    assert levels.note == "Trainings and samples (100) both count in the intervals."
    assert differences.heads == ("setting", "difference in right [95 %]", "trainings", "p (Holm, 2)")
    assert differences.rows[0].cells == ("steps: 90 vs 9", "-0.200 [-0.300, -0.100]", "12", "0.002")


def test_settings_of_one_last_part_keep_their_keys():
    means = replace(MEANS, differences=(PAIR, replace(OTHER, setting="trainer.steps")))

    assert setting_tables(replace(RESULT, means=means))[1].rows[1].cells[0] == "trainer.steps: 32 vs 8"


def test_left_out_combinations_are_counted():
    means = replace(MEANS, incomplete=2, without_means=("rank",))
    [levels, _] = setting_tables(replace(RESULT, means=means, dropped=True))

    assert levels.note.endswith(
        "2 of 6 combinations left out: a member was dropped by its scores. No mean of rank: no combination has all levels."
    )


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (RESULT, "settings by right: steps = 9 is better than 90: +0.200 [+0.100, +0.300]"),
        (
            replace(RESULT, means=replace(MEANS, differences=(OTHER,))),
            "settings by right: no difference between levels is proven",
        ),
        (
            replace(RESULT, means=replace(MEANS, differences=())),
            "settings by right: no claim: no two levels were run to the end beside the same other settings",
        ),
        (SettingMeans(metric="right", reason="one training"), "settings by right: no claim: one training"),
    ],
)
def test_the_sentence_names_what_is_proven(result, text):
    assert setting_note(result).text == text


def test_the_document_has_means_and_differences():
    document = setting_document(RESULT)

    assert document["means"] == [{
        "setting": "hyperparameters.steps", "level": "9", "value": 0.5, "low": 0.4, "high": 0.6, "trainings": 6, "combinations": 2,
    }]  # fmt: skip
    assert document["differences"][0] == {
        "setting": "hyperparameters.steps", "level": "90", "other": "9", "difference": -0.2, "low": -0.3, "high": -0.1,
        "p_value": 0.001, "p_adjusted": 0.002, "trainings": 12, "combinations": 2,
    }  # fmt: skip
    assert (document["n"], document["combinations"], document["incomplete"], document["reason"]) == (100, 6, 0, "")


def test_without_a_claim_there_are_no_tables():
    nothing = SettingMeans(metric="right", reason="one training")

    assert setting_tables(nothing) == ()
    assert setting_document(nothing)["differences"] == []
