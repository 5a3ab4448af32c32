"""Replies of several sessions become repeats of their samples, each once."""

from __future__ import annotations

from answer_builders import arm

from pytest_crucible.analyse.pool import Part, fill_repeats, pool_answers, pool_arms
from pytest_crucible.analyse.scores import scores
from pytest_crucible.records import Look, MetricFacts

OK = MetricFacts(name="a", kind="binary", low=0.0, high=1.0)
ALL = frozenset({(0, 0), (1, 0)})


def test_repeats_are_renumbered_and_averaged():
    pooled = pool_answers([Part(arm(a=[True, True]), ALL), Part(arm(a=[True, False]), ALL)], 1)

    assert sorted(zip(pooled.positions, pooled.repeats, strict=True)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert scores(OK, pooled, samples=2, repeats=2).values.tolist() == [1.0, 0.5]


def test_a_reply_that_is_not_new_is_left_out_and_its_sample_has_fewer_repeats():
    pooled = fill_repeats(
        pool_answers([Part(arm(a=[True, True]), ALL), Part(arm(a=[False, False]), frozenset({(1, 0)}))], 1), 2
    )
    means = scores(OK, pooled, samples=2, repeats=2)

    assert means.values.tolist() == [1.0, 0.5]
    assert not means.lost.any()


def test_a_lost_reply_stays_lost():
    pooled = pool_answers([Part(arm(a=["lost", True]), frozenset({(1, 0)})), Part(arm(a=[True, True]), ALL)], 1)
    means = scores(OK, pooled, samples=2, repeats=2)

    assert means.lost.tolist() == [True, False]
    assert (means.low[0], means.values[0], means.high[0]) == (0.5, 1.0, 1.0)


def test_each_session_that_brought_replies_is_a_round():
    """The second session copies all of its replies, and the third those of the baseline."""
    new, none = Part(arm(a=[True, False]), ALL), Part(arm(a=[True, False]), frozenset())
    look = Look(number=2, replies=(), since="")
    own, both = (pool_arms([[new, none, new], baseline], look) for baseline in ([new, none, none], [new, none, new]))

    assert (own.rounds, own.repeats, own.is_paired, own.look.sessions) == (2, 2, False, (2, 1))
    assert (both.rounds, both.is_paired, both.look.sessions) == (2, True, (2, 2))
    # A sample without a reply in a session is skipped there.
    assert own.answers[1].skipped == [False, False, True, True]
