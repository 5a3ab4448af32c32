"""The texts of answers: true whichever arm is ahead, grammatical in every state, one line in print, and sound HTML."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pytest_crucible.stats import compare, estimate
from pytest_crucible.stats.number_format import with_interval

WRONG_FIRST, RIGHT_FIRST = [0, 0, 0, 0, 0, 1, 0, 0, 1, 0], [1, 1, 1, 0, 1, 1, 1, 0, 1, 1]
FASTER = np.arange(1.0, 25.0)
SLOWER = FASTER * (1.2 + 0.01 * (np.arange(24) % 5))
MANY_FASTER, MANY_SLOWER = np.tile(FASTER, 40), np.tile(SLOWER, 40)
UNCLEAR = np.where(np.arange(24) % 2, FASTER * 1.5, FASTER / 1.4)
STATES = [
    (
        compare(RIGHT_FIRST, WRONG_FIRST),
        "On 10 pairs the candidate's rate is 0.600 higher than the baseline's (95 % interval from 0.111 to 0.878, "
        "p = 0.021): the candidate is higher, at an error rate of 5 %.",
    ),
    (
        compare(WRONG_FIRST, RIGHT_FIRST),
        "On 10 pairs the candidate's rate is 0.600 lower than the baseline's (95 % interval from -0.878 to -0.111, "
        "p = 0.021): the candidate is lower, at an error rate of 5 %.",
    ),
    (
        compare(RIGHT_FIRST, WRONG_FIRST, False),
        "On 10 + 10 samples the candidate's rate is 0.600 higher than the baseline's (95 % interval from 0.127 to 0.885, "
        "p = 0.012): the candidate is higher, at an error rate of 5 %.",
    ),
    (
        compare(RIGHT_FIRST, WRONG_FIRST, alternative="less", alpha=0.1),
        "On 10 pairs the candidate's rate is 0.600 higher than the baseline's (90 % interval from -1.000 to 0.812, "
        "p = 1.000): that the candidate is lower is not shown.",
    ),
    (
        compare(SLOWER, FASTER, kind="unbounded", alternative="greater"),
        "On 24 pairs the candidate's mean is 2.8 higher than the baseline's (95 % interval from 2.2 upwards, "
        "p = 1e-04): the arms differ, at an error rate of 5 %; that the candidate's mean is higher is not shown.",
    ),
    (
        compare(FASTER, SLOWER, kind="unbounded", alternative="less"),
        "On 24 pairs the candidate's mean is 2.8 lower than the baseline's (95 % interval up to -2.2, p = 1e-04): "
        "the arms differ, at an error rate of 5 %; that the candidate's mean is lower is not shown.",
    ),
    (
        compare([1, 0, 1], [1, 0, 1]),
        "On 3 pairs the candidate's rate is the same as the baseline's (95 % interval from -0.708 to 0.708, p = 1.000): "
        "which of the two is higher is not shown.",
    ),
    (
        compare([4.5], [2.5]),
        "On 1 pair the candidate's mean is 2.0 higher than the baseline's; no interval can be given (1 pair: "
        "a comparison needs at least 2).",
    ),
    (
        compare([1.5] * 8, [1.0] * 8, kind="unbounded", margin=0.2),
        "On 8 pairs the candidate's mean is 0.500 higher than the baseline's; no interval can be given (the values do not "
        "vary, and unobserved values have no declared bounds), p = 0.008: the arms differ, at an error rate of 5 %; "
        "that the candidate's mean is higher is not shown. Whether it is worse by 0.2 is undecided (higher is better).",
    ),
    (
        compare([0.0] * 8, [1.0] * 8, False, kind="bounded", bounds=(0, 1), margin=0.2),
        "On 8 + 8 samples the candidate's mean is 1.000 lower than the baseline's (95 % interval from -1.000 to -0.438, "
        "p = 2e-04): the candidate is lower, at an error rate of 5 %. It is worse by more than 0.2 (higher is better).",
    ),
    (
        compare([2.0, 1.0] * 3, [1.0, 2.0] * 3, clusters=["a"] * 6),
        "On 6 pairs in 1 cluster the candidate's mean is the same as the baseline's; no interval can be given (1 cluster: "
        "a cluster-robust interval needs at least 5), p = 1.000: which of the two is higher is not shown.",
    ),
    (
        compare(RIGHT_FIRST, WRONG_FIRST, margin=0.1),
        "On 10 pairs the candidate's rate is 0.600 higher than the baseline's (95 % interval from 0.111 to 0.878, "
        "p = 0.021): the candidate is higher, at an error rate of 5 %. It is not worse by 0.1 or more (higher is better).",
    ),
    (
        compare(RIGHT_FIRST, WRONG_FIRST, margin=0.1, direction="lower"),
        "On 10 pairs the candidate's rate is 0.600 higher than the baseline's (95 % interval from 0.111 to 0.878, "
        "p = 0.021): the candidate is higher, at an error rate of 5 %. It is worse by more than 0.1 (lower is better).",
    ),
    (
        compare(MANY_SLOWER, MANY_FASTER, estimand="ratio", margin=0.1, direction="lower"),
        "On 960 pairs the candidate's geometric mean is 1.2191 times the baseline's (95 % interval from 1.2182 to 1.2200, "
        "p <1e-15): the candidate is higher, at an error rate of 5 %. It is above 1.1 times the baseline's (lower is better).",
    ),
    (
        compare(MANY_FASTER, MANY_SLOWER, estimand="ratio", margin=0.1),
        "On 960 pairs the candidate's geometric mean is 0.8203 times the baseline's (95 % interval from 0.8197 to 0.8209, "
        "p <1e-15): the candidate is lower, at an error rate of 5 %. It is below 0.9091 times the baseline's (higher is "
        "better).",
    ),
    (
        compare(MANY_SLOWER, MANY_FASTER, estimand="ratio", margin=0.5, direction="lower"),
        "On 960 pairs the candidate's geometric mean is 1.2191 times the baseline's (95 % interval from 1.2182 to 1.2200, "
        "p <1e-15): the candidate is higher, at an error rate of 5 %. It is below 1.5 times the baseline's (lower is better).",
    ),
    (
        compare(UNCLEAR, FASTER, estimand="ratio", margin=0.1, direction="lower"),
        "On 24 pairs the candidate's geometric mean is 1.035 times the baseline's (95 % interval from 0.882 to 1.215, "
        "p = 0.660): which of the two is higher is not shown. Whether it is above 1.1 times the baseline's is undecided "
        "(lower is better).",
    ),
    (estimate([1, 1, 0, 1]), "The rate of 4 samples is 0.750, with a 95 % interval from 0.301 to 0.954."),
    (estimate([1], alpha=0.1), "The rate of 1 sample is 1.000, with a 90 % interval from 0.270 to 1.000."),
    (
        estimate([2.5, 2.5]),
        "The mean of 2 samples is 2.5; no interval can be given (the values do not vary, and unobserved values have no "
        "declared bounds).",
    ),
    (
        estimate(FASTER, clusters=np.arange(24) // 4),
        "The mean of 24 samples in 6 clusters is 12, with a 95 % interval from 5 to 20.",
    ),
]


@pytest.mark.parametrize(("result", "sentence"), STATES, ids=[sentence[:60] for _, sentence in STATES])
def test_every_state_has_its_sentence(result, sentence):
    assert result.sentence == sentence


@pytest.mark.parametrize("result", [result for result, _ in STATES], ids=range(len(STATES)))
def test_every_state_prints_on_one_line_and_says_how_it_was_found(result):
    line = str(result)

    assert "\n" not in line
    assert line.endswith(f"({result.method})")
    assert with_interval(result.estimate, result.interval).partition(" ")[0] in line
    assert ("no interval" in line) == (result.interval is None)
    assert not re.search(r"None|nan|\s\s", line + result.sentence)


# -- true for all data --------------------------------------------------------------------------------------------
