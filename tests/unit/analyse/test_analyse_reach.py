"""A metric's declared reach in the analysis and its verdicts: bounds, lost samples, and a sample that refutes it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from answer_builders import analysis_inputs, arm, reply_rows

from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.analyse.stopping import in_order, settled_after, stop_early
from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.stats import gaffke_bound

N = 60
SHARE = MetricFacts(name="quality", kind="bounded", low=0.0, high=1.0, reach=0.25)
NUMBER = MetricFacts(name="quality", kind="unbounded", reach=0.25)
COST = MetricFacts(name="quality", kind="bounded", low=0.0, high=1.0, reach=0.25, direction="lower")
RIGHT = MetricFacts(name="right", kind="binary", low=0.0, high=1.0)
RNG = np.random.default_rng(5)
V1 = RNG.uniform(0.3, 0.6, N).round(3)
V2 = V1 + np.clip(RNG.normal(0.05, 0.05, N), -0.2, 0.2).round(3)
CLAIMS = {
    "regression": {},
    "margin": {"margin": 0.02},
    "superior": {"alternative": "superior"},
    "superior by": {"alternative": "superior", "margin": 0.01},
    "equivalent": {"alternative": "equivalent", "margin": 0.1},
    "relevant": {"relevant": 0.02},
}


def inputs(facts=SHARE, ours=V2, theirs=V1, claims=({"margin": 0.02},), *, groups=None, more=(), metadata=()):
    """Two arms that are compared by `quality`, with each of the claims, and by `right`."""
    right = [k % 3 > 0 for k in range(len(ours))]
    contrasts = [replace(parse_contrast("quality", **claim), baseline="v1") for claim in claims]
    contrasts += [replace(parse_contrast("right"), baseline="v1"), *more]
    run_inputs = analysis_inputs(
        arm(quality=list(ours), right=right),
        arm(quality=list(theirs), right=right),
        metrics=(facts, RIGHT),
        contrasts=contrasts,
        groups=groups,
    )
    return replace(run_inputs, sample_ids=[f"q{k}" for k in range(len(ours))], expected=[None] * N, metadata=metadata)


def run_analysis(run_inputs, alpha=0.05):
    return analyse(run_inputs, score_table(run_inputs), alpha=alpha, family_size=2)


def decide(analysis, alpha=0.05):
    adjusted = adjust_p_values([analysis], family_size=2)
    return decide_verdicts(adjusted, alpha=alpha, strict=False, family_size=2)


def first(run_inputs):
    return run_analysis(run_inputs).comparisons[0], decide(run_analysis(run_inputs))[0]


def with_value(values, place, value):
    return [value if k == place else entry for k, entry in enumerate(values)]


# -- bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("facts", [SHARE, NUMBER, COST])
def test_the_bounds_are_those_of_differences_within_the_reach(facts):
    comparison, _ = first(inputs(facts))
    differences = (V2 - V1) * (1 if facts.direction == "higher" else -1)
    lower, upper = (
        gaffke_bound(differences, end=end, alpha=0.05, side=side) for side, end in (("lower", -0.25), ("upper", 0.25))
    )

    assert (comparison.evidence.observed.lower, comparison.evidence.observed.upper) == pytest.approx((lower, upper))
    assert comparison.beyond_reach is comparison.suggested_reach is None


def test_a_reach_decides_where_the_range_alone_does_not():
    with_reach, without = (
        first(inputs(facts, claims=[CLAIMS["superior"]])) for facts in (SHARE, replace(SHARE, reach=None))
    )

    assert (with_reach[1].state, with_reach[1].proven) == ("met", True)
    assert without[1].state == "undecided"
    assert with_reach[0].difference == without[0].difference
    assert with_reach[0].p_value == without[0].p_value, "the test of alikeness needs no bounds"


def test_groups_are_bounded_by_the_reach_too():
    groups = [f"g{k // 3}" for k in range(N)]
    narrow, wide = (first(inputs(facts, groups=groups))[0] for facts in (SHARE, replace(SHARE, reach=None)))

    assert wide.evidence.observed.lower < narrow.evidence.observed.lower < narrow.difference
    assert narrow.clusters == N // 3


@pytest.mark.parametrize("measure", ["rate(quality >= 0.5)", "p50(quality)"])
def test_other_statistics_of_the_metric_do_not_use_it(measure):
    more = [replace(parse_contrast(measure, margin=0.3), baseline="v1")]
    rows = [run_analysis(inputs(facts, more=more)).comparisons[-1] for facts in (SHARE, replace(SHARE, reach=None))]

    assert rows[0] == rows[1]


# -- lost samples -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("facts", [SHARE, NUMBER, COST])
@pytest.mark.parametrize("arms_that_lost", [(True, False), (False, True), (True, True)])
def test_a_lost_sample_changed_by_the_reach_at_most(facts, arms_that_lost):
    ours, theirs = (
        with_value(arm, 0, "lost") if lost else arm for arm, lost in zip((V2, V1), arms_that_lost, strict=True)
    )
    evidence = first(inputs(facts, ours, theirs))[0].evidence
    rest = float(np.sum((V2 - V1)[1:])) * (1 if facts.direction == "higher" else -1)

    assert (evidence.worst.value, evidence.best.value) == pytest.approx(((rest - 0.25) / N, (rest + 0.25) / N))
    assert evidence.worst.lower < evidence.observed.lower


def test_a_lost_sample_lies_within_the_range_where_that_is_narrower():
    theirs = with_value(V1, 0, 0.1)
    evidence = first(inputs(SHARE, with_value(V2, 0, "lost"), theirs))[0].evidence

    assert evidence.worst.value == pytest.approx((float(np.sum((V2 - V1)[1:])) - 0.1) / N)


def test_without_bounds_and_reach_a_lost_sample_could_be_anything():
    comparison, verdict = first(inputs(replace(NUMBER, reach=None), with_value(V2, 0, "lost")))

    assert comparison.evidence.worst.lower is None
    assert verdict.state == "undecided"
    assert first(inputs(NUMBER, with_value(V2, 0, "lost")))[1].state == "met"


# -- a sample beyond the reach ------------------------------------------------------------------------------------


@pytest.mark.parametrize("facts", [SHARE, NUMBER, COST])
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_sample_beyond_the_reach_leaves_every_claim_of_the_metric_undecided(facts, claim):
    run_inputs = inputs(facts, with_value(V2, 17, 0.98), with_value(V1, 17, 0.36), claims=[CLAIMS[claim]])
    comparison, verdict = first(run_inputs)
    plain = first(replace(run_inputs, plan=replace(run_inputs.plan, metrics=(replace(facts, reach=None), RIGHT))))[0]
    sign = "+" if facts.direction == "higher" else "-"

    assert (verdict.state, verdict.proven) == ("undecided", False)
    assert (
        f"sample 'q17' changed by {sign}0.62, more than the declared reach 0.25 (against v1): nothing is decided by 'quality'"
        in verdict.reason
    )
    assert replace(comparison, beyond_reach=None) == replace(plain, suggested_reach=None), "nothing is lost"
    assert comparison.pairs == N
    assert decide(run_analysis(run_inputs))[-1].state == "met", "another metric is untouched"


def test_the_number_of_samples_beyond_is_named():
    ours = with_value(with_value(with_value(V2, 3, 0.9), 4, 0.91), 5, 0.92)
    _, verdict = first(inputs(SHARE, ours, with_value(with_value(with_value(V1, 3, 0.2), 4, 0.2), 5, 0.2)))

    assert (
        "sample 'q5' changed by +0.72, more than the declared reach 0.25 (against v1, and so did 2 other samples)"
        in verdict.reason
    )


def test_a_change_of_exactly_the_reach_is_within_it():
    comparison, verdict = first(inputs(SHARE, with_value(V2, 17, 0.8), with_value(V1, 17, 0.55)))

    assert comparison.beyond_reach is None
    assert verdict.state == "met"


def test_a_failed_sample_has_the_worst_value_and_may_be_beyond():
    run_inputs = inputs(SHARE)
    failed = replace(arm(quality=list(V2), right=[True] * N, failures={9: "refused"}), lost=run_inputs.answers[0].lost)
    _, verdict = first(replace(run_inputs, answers=(failed, run_inputs.answers[1])))

    assert verdict.state == "undecided"
    assert "sample 'q9' changed by -" in verdict.reason


def test_repeats_are_averaged_before_the_change_is_taken():
    """One repeat that moves by 0.4 moves the mean of two by 0.2; two that do refute the reach."""

    def with_second_repeat(values, second):
        return reply_rows([list(pair) for pair in zip(values, second, strict=True)], "quality")

    def with_changes(*changes):
        run_inputs = inputs(SHARE)
        plan = replace(run_inputs.plan, repeats=2, contrasts=run_inputs.plan.contrasts[:1])
        ours = (with_value(V1, 7, V1[7] + change) for change in changes)
        return replace(run_inputs, plan=plan, answers=(with_second_repeat(*ours), with_second_repeat(V1, V1)))

    assert first(with_changes(0.35, 0.0))[0].beyond_reach is None
    assert first(with_changes(0.35, 0.35))[0].beyond_reach.change == pytest.approx(0.35)


def test_a_sample_of_one_slice_refutes_the_reach_for_all_slices():
    by = By((Field("topic"),))
    contrasts = [
        replace(parse_contrast("quality", margin=0.02), baseline="v1", by=by, slice=name, slice_size=N // 2)
        for name in ("a", "b")
    ]
    metadata = [{"topic": "ab"[k % 2]} for k in range(N)]
    run_inputs = inputs(
        SHARE, with_value(V2, 17, 0.98), with_value(V1, 17, 0.36), claims=(), more=contrasts, metadata=metadata
    )
    comparisons = run_analysis(run_inputs).comparisons

    samples = [comparison.beyond_reach and comparison.beyond_reach.sample for comparison in comparisons]
    assert samples == [None, "q17", "q17"]
    assert [verdict.state for verdict in decide(run_analysis(run_inputs))] == ["met", "undecided", "undecided"]


# -- looks --------------------------------------------------------------------------------------------------------


def looking(facts, ours=V2, theirs=V1, claim=None):
    run_inputs = inputs(facts, ours, theirs, claims=[claim or {"margin": 0.1}])
    return replace(run_inputs, plan=replace(run_inputs.plan, look_alpha=0.05, contrasts=run_inputs.plan.contrasts[:1]))


ORDER = list(range(N - 1, -1, -1))


def test_looks_end_sooner_with_a_reach_also_without_bounds():
    ends = [settled_after(looking(facts), ORDER, 0.05) for facts in (SHARE, NUMBER, replace(SHARE, reach=None))]

    assert ends[0] == ends[1] < N
    assert ends[2] is None or ends[2] > ends[0]


def test_a_sample_beyond_the_reach_keeps_looks_from_ending_and_leaves_the_claim_undecided():
    end = settled_after(looking(SHARE), ORDER, 0.05)
    before, after = ORDER[end - 2], ORDER[end + 1]
    soon = looking(SHARE, with_value(V2, before, 0.98), with_value(V1, before, 0.36))
    late = looking(SHARE, with_value(V2, after, 0.98), with_value(V1, after, 0.36))

    assert settled_after(soon, ORDER, 0.05) is None
    assert settled_after(late, ORDER, 0.05) == end, "what arrives later does not move an end"
    for run_inputs, state in ((soon, "undecided"), (late, "met")):
        stopped = stop_early(run_inputs, ORDER, 0.05)
        table = in_order(score_table(stopped), stopped.looked_at, 0.05)
        analysis = analyse(stopped, table, alpha=0.05, family_size=2)
        assert [verdict.state for verdict in decide(analysis)] == [state]


def test_looks_count_a_lost_sample_at_the_reach():
    lost = with_value(V2, 59, "lost")
    ends = [settled_after(looking(facts, lost), ORDER, 0.05) for facts in (SHARE, NUMBER)]

    assert ends[0] == ends[1]
    assert settled_after(looking(SHARE), ORDER, 0.05) < ends[0] < N


# -- the suggestion -----------------------------------------------------------------------------------------------


PLAIN = replace(SHARE, reach=None)


def suggestion(claim, facts=PLAIN, ours=V2, theirs=V1):
    comparison, verdict = first(inputs(facts, ours, theirs, claims=[claim]))
    return comparison.suggested_reach, verdict


@pytest.mark.parametrize("facts", [replace(SHARE, reach=None), replace(NUMBER, reach=None)])
@pytest.mark.parametrize("claim", ["superior", "superior by", "margin"])
def test_an_open_claim_names_the_reach_that_would_decide(facts, claim):
    reach, verdict = suggestion({**CLAIMS[claim]} if claim != "margin" else {"margin": 0.001}, facts)
    largest = float(np.abs(V2 - V1).max())

    assert verdict.state == "undecided"
    assert 2 * largest <= reach < 2 * largest * 1.1
    assert verdict.reason.count("reach=") == 1
    assert f"declare reach={reach:g} before the next run" in verdict.reason
    with_it, _ = first(inputs(replace(facts, reach=reach), claims=[CLAIMS[claim]]))
    assert with_it.evidence.observed.lower > 0.0


def test_nothing_is_suggested_where_it_would_not_decide_or_nothing_is_open():
    noisy = V1 + np.where(np.arange(N) % 2, 0.3, -0.3) + 0.01

    assert suggestion(CLAIMS["superior"], ours=np.clip(noisy, 0, 1))[0] is None
    assert suggestion({"margin": 0.3})[0] is None, "met by the range alone"
    assert suggestion({}, theirs=V2, ours=V2)[0] is None
    assert suggestion(CLAIMS["superior"], facts=SHARE)[0] is None, "it has a reach"
    assert suggestion(CLAIMS["superior"], ours=V1, theirs=V2)[0] is not None, "proven worse is a decision, too"


def test_arms_that_are_equal_have_no_reach_that_would_decide_and_no_error():
    endless = MetricFacts(name="quality", kind="unbounded")

    assert suggestion(CLAIMS["superior"], facts=endless, theirs=V1, ours=V1)[0] is None


def test_an_unproven_miss_names_the_reach_that_would_prove_it():
    reach, verdict = suggestion({}, ours=V1, theirs=V2)

    assert (verdict.state, verdict.proven) == ("missed", False)
    assert "is not proven" in verdict.reason
    assert verdict.reason.endswith("differences like these would then prove it")
    assert first(inputs(replace(SHARE, reach=reach), V1, V2, claims=[{}]))[1].proven


def test_a_suggestion_leaves_room_for_the_margin():
    """A margin at or beyond the reach could never be exceeded, and is refused."""
    flat = V1 + np.where(np.arange(N) % 2, 0.01, -0.01)
    reach, _ = suggestion({"alternative": "equivalent", "margin": 0.03}, ours=flat)

    assert reach is not None
    assert reach > 0.03


def test_a_suggestion_holds_for_the_lost_samples():
    few, many = (suggestion(CLAIMS["superior"], ours=["lost"] * lost + list(V2[lost:])) for lost in (1, 20))

    assert few[0] is not None
    assert many[0] is None
    assert math.isfinite(few[0])
