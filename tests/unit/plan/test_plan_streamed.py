"""A plan tells whether its experiment is analysed in batches, and what that leaves undecided."""

from __future__ import annotations

import pytest
from plan_builders import plan_of

from pytest_crucible.measures.statistic import MOST_REPLIES
from pytest_crucible.plan.streamed import is_streamed, undecided_lines
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Contrast, MetricFacts

FACTS = (MetricFacts(name="score", kind="bounded", low=0, high=1),)


def test_the_replies_of_all_arms_and_repeats_count():
    assert not is_streamed(plan_of("v2", "v1", n=MOST_REPLIES // 4, repeats=2))
    assert is_streamed(plan_of("v2", "v1", n=MOST_REPLIES // 4 + 1, repeats=2))


@pytest.mark.parametrize(
    "fields", [{"look_alpha": 0.01}, {"rounds": 2, "repeats": 2}, {"selected": MOST_REPLIES}], ids=str
)
def test_what_needs_all_samples_at_once_is_analysed_in_memory(fields):
    assert not is_streamed(plan_of("v2", "v1", n=2 * MOST_REPLIES, **fields))


def test_measures_without_a_form_for_batches_are_named_before_the_first_request():
    targets = (parse_target("auroc(score) >= 0.7"), parse_target("score >= 0.7"))
    plan = plan_of("v2", "v1", n=MOST_REPLIES, metrics=FACTS, targets=targets)

    [line] = undecided_lines(plan)
    assert line.startswith("undecided: auroc(score) is not computed for so many replies: ")


def test_a_smaller_run_leaves_nothing_undecided():
    plan = plan_of("v2", "v1", n=50, metrics=FACTS, targets=(parse_target("auroc(score) >= 0.7"),),
                   contrasts=(Contrast(metric="score", baseline="v1"),))  # fmt: skip

    assert undecided_lines(plan) == []
