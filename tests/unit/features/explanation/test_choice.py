"""The choice of samples, and options that an explanation cannot have."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.features.explanation.choice import ByScore, check_ids, check_options, parse_choice, rank_samples
from pytest_crucible.records.errors import SpecError

OPTIONS = {"segments": "paragraph", "explain_calls": 200, "explain": ("q1",), "compare": ()}


@pytest.mark.parametrize("text", ["worst:", "worst:0", "changed:x", "worst:-1"])
def test_a_number_of_samples_is_a_whole_one_from_1(text):
    with pytest.raises(SpecError, match="write a number of samples, such as"):
        parse_choice(text)


def test_samples_are_ranked_by_score_and_those_without_one_are_left_out():
    ours, theirs = np.array([0.5, np.nan, 0.1, 0.9]), np.array([0.5, 0.5, 0.2, 0.1])

    assert rank_samples([ours], "worst", "higher") == [2, 0, 3]
    assert rank_samples([ours], "worst", "lower") == [3, 0, 2]
    assert rank_samples([ours, theirs], "changed", "higher") == [3, 2, 0]


def test_an_unknown_id_names_the_one_with_the_same_letters():
    with pytest.raises(SpecError, match="did you mean 'q17'"):
        check_ids(["q71", ByScore("worst", 3)], ["q16", "q17", "q18"])
    check_ids(["q17"], ["q17"])


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"explain_calls": 0}, "--crucible-explain-calls=0: write a number of requests, such as 200"),
        (
            {"stages": "smoke: 2, full"},
            "--crucible-explain cannot be combined with crucible_stages: -o crucible_stages=",
        ),
        ({"resume": True}, "--crucible-explain cannot be combined with --crucible-resume: leave it out"),
        ({"explain": ("changed:2",)}, "--crucible-explain=changed:2 compares two arms; add --compare=NAME"),
    ],
)
def test_options_that_do_not_fit_are_refused(more, sentence):
    assert [text for is_wrong, text in check_options({**OPTIONS, **more}) if is_wrong] == [sentence]


def test_options_that_fit_pass():
    assert not any(is_wrong for is_wrong, _ in check_options(OPTIONS))
