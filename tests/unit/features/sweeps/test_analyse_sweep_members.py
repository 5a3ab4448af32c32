"""The members of a sweep on the choosing half: dropped ones, the winner, and settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from answer_builders import analysis_inputs, arm

from pytest_crucible import stats
from pytest_crucible.features.sweeps.records import ChoosingHalf, Sweep, SweepLook, SweepMember
from pytest_crucible.features.sweeps.sweep_members import _better_than, _Drop, compare_members
from pytest_crucible.records import Arm
from pytest_crucible.records.plan import HelperReplies

NAMES = ("a1", "a2", "b1", "b2")
SETTINGS = [{"lora.rank": rank, "seed": seed} for rank in (8, 32) for seed in (1, 2)]
RIGHT = np.random.default_rng(3).random((160, 4)) < [0.1, 0.4, 0.85, 0.9]
ORDER = list(range(159, -1, -1))


def make_sweep(drop: str = "proven") -> Sweep:
    return Sweep(
        family="tuned", test="t.py::t", by="ok", confirm=0.5, drop=drop, grid={"lora.rank": (8, 32), "seed": (1, 2)},
        members=tuple(SweepMember(name=name, settings=cell, identity=name) for name, cell in zip(NAMES, SETTINGS, strict=True)),
        choosing=160, choosing_sha256="", confirming=160, looks=(20, 40, 80),
    )  # fmt: skip


def make_half(*looks: SweepLook, groups=None) -> ChoosingHalf:
    inputs = analysis_inputs(*(arm(ok=column) for column in RIGHT.T.tolist()), groups=groups)
    arms = tuple(Arm(name=name, role="baseline", adapter=name, identity=name) for name in NAMES)
    replies = HelperReplies(
        plan=replace(inputs.plan, arms=arms),
        answers=inputs.answers,
        groups=inputs.groups,
        sample_ids=[],
        known_kinds={},
    )
    return ChoosingHalf(sweep=make_sweep(), replies=replies, looks=looks, winner="b2")


def compare(*looks: SweepLook, drop: str = "proven", groups=None):
    return compare_members(make_half(*looks, groups=groups), ORDER, make_sweep(drop), alpha=0.05)


DROPPED = SweepLook(samples=40, remaining=("a2", "b1", "b2"))


def test_without_drops_members_are_arms():
    table = compare().members
    ranks = stats.rank_arms(RIGHT.astype(float))

    assert [arm.ranks for arm in table.arms] == [(rank.best, rank.worst) for rank in ranks.ranks]
    assert (table.best, table.n) == ("b2", 160)


def test_a_dropped_member_is_compared_at_its_look():
    table = compare(DROPPED).members
    looked_at = RIGHT[ORDER[:40]].astype(float)
    comparisons = stats.rank_arms(looked_at, level=1 - 0.025 / 3).comparisons
    expected = stats.pairwise_intervals(comparisons, level=1 - 0.025 / 3, bounds=(0, 1))

    assert (table.arms[0].n, table.arms[0].lost) == (40, 0)
    assert table.arms[0].difference == pytest.approx(looked_at[:, 0].mean() - looked_at[:, 3].mean())
    assert table.arms[0].difference_interval.low == pytest.approx(expected.low[0, 3])
    # The others keep all their samples, with half of alpha.
    ranks = stats.rank_arms(RIGHT[:, 1:].astype(float), level=0.975)
    assert table.arms[1].difference == pytest.approx(RIGHT[:, 1].mean() - RIGHT[:, 3].mean())
    assert [arm.rank for arm in table.arms[1:]] == [rank.rank for rank in ranks.ranks]
    assert table.n == 160


def test_members_that_were_dropped_later_are_better_than_those_that_they_beat():
    """At the first look a1 is proven worse than b1 and b2, at the second a2 is."""
    table = compare(DROPPED, SweepLook(samples=80, remaining=("b1", "b2"))).members

    assert [arm.ranks for arm in table.arms] == [(3, 4), (3, 4), (1, 2), (1, 2)]
    assert table.not_proven_worse == ("b1", "b2")


def test_claims_follow_from_each_other():
    drops = {
        "a": _Drop(better=("b",), difference=None, interval=None),
        "b": _Drop(better=("c", "d"), difference=None, interval=None),
    }

    assert _better_than("a", drops) == {"b", "c", "d"}
    assert _better_than("c", drops) == set()


def test_the_last_member_is_not_better_than_one_that_was_hardly_worse():
    """Dropping claims less than a rank does: b1 was dropped, so it has no rank and is not among those that may be the best."""
    table = compare(SweepLook(samples=80, remaining=("b2",))).members

    assert [arm.ranks for arm in table.arms] == [(4, 4), (3, 4), None, (1, 2)]
    assert table.not_proven_worse == ("b2",)
    assert (table.best, table.arms[3].n, table.arms[3].rank) == ("b2", 80, 1)


def test_without_a_proof_a_dropped_member_keeps_its_possible_ranks():
    table = compare(SweepLook(samples=80, remaining=("b2",)), drop="half").members

    assert [arm.ranks[0] for arm in table.arms] == [4, 3, 1, 1]


def test_without_confirming_samples_means_have_the_intervals_of_the_verdicts():
    sweep = replace(make_sweep("none"), confirm=0.0)
    table = compare_members(make_half(), ORDER, sweep, alpha=0.05).members

    expected = stats.estimate(RIGHT[:, 3], alpha=0.05 / 4).interval
    assert (table.arms[3].interval.low, table.arms[3].interval.high) == pytest.approx((expected.low, expected.high))
    assert compare(drop="none").members.arms[3].interval.low > expected.low


def test_settings_leave_out_what_was_dropped():
    whole, left = compare().settings, compare(DROPPED).settings

    assert [(difference.level, difference.other) for difference in whole.means.differences] == [("32", "8")]
    assert (left.means.incomplete, left.means.differences, left.dropped) == (1, (), True)


def test_groups_are_one_unit_each():
    table = compare(groups=[f"g{k // 8}" for k in range(160)]).members

    assert table.clusters == 20


def test_a_metric_that_no_member_scored_has_no_members():
    assert compare_members(make_half(), ORDER, replace(make_sweep(), by="other"), alpha=0.05) is None
