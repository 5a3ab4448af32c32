import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from answer_builders import LOST
from fragility_judge import FLAG, SCORE, ask_first, decide_run, fewest_by_trying_all, inputs_of_rows, turn
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_crucible.analyse.analysis import score_table
from pytest_crucible.features.provenance.fragility import measure_fragility
from pytest_crucible.features.provenance.movable import undefined_reason
from pytest_crucible.features.provenance.questions import ask
from pytest_crucible.features.provenance.rough_decision import count_pairs
from pytest_crucible.features.provenance.what_if import Question
from pytest_crucible.records import Contrast, MetricFacts
from pytest_crucible.stats import compare, holm

REGRESSION = Contrast(metric="m", baseline="v1")
CLAIMS = (
    REGRESSION,
    replace(REGRESSION, alternative="non-inferior", margin=0.3),
    replace(REGRESSION, alternative="superior"),
    replace(REGRESSION, alternative="superior", margin=0.1),
    replace(REGRESSION, alternative="equivalent", margin=0.7),
    replace(REGRESSION, relevant=0.4),
)
TARGETS = ("m >= 0.5", "m <= 0.3", "m > 0.6", "m == 1", "rate(m >= 0.5) >= 0.6")


def pairs(both, only_v2, only_v1, neither):
    """The scores of v2 and v1 on so many pairs."""
    v2 = [[True]] * (both + only_v2) + [[False]] * (only_v1 + neither)
    v1 = [[True]] * both + [[False]] * only_v2 + [[True]] * only_v1 + [[False]] * neither
    return v2, v1


def flags(draw, n, repeats=1, lost=0.0):
    rate = draw.random()
    return [[LOST if draw.random() < lost else draw.random() < rate for _ in range(repeats)] for _ in range(n)]


def flips_of(item):
    fragility = measure_fragility(item.question)
    return fragility.change, fragility.change_of_state


def expect_the_fewest_of_all_sets(arms, metric, best, worst, settings=None, **facts):
    item = ask_first(inputs_of_rows(*arms, metric=metric, **facts), **(settings or {}))
    assert item.question is not None, item.undefined
    fragility = measure_fragility(item.question)
    for only_state, flip in ((False, fragility.change), (True, fragility.change_of_state)):
        fewest = fewest_by_trying_all(
            arms, metric=metric, best=best, worst=worst, only_state=only_state, settings=settings, **facts
        )
        assert (None if flip is None else flip.answers) == fewest
        assert flip is None or flip.is_exact


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.subject("v2"))
def test_paired_answers_are_as_fragile_as_trying_all_sets_shows(claim):
    draw = random.Random(claim.subject("v2"))
    for family_size in (1, 2):
        n = draw.randint(4, 6)
        settings = {"family_size": family_size}
        expect_the_fewest_of_all_sets((flags(draw, n), flags(draw, n)), FLAG, True, False, settings, contrasts=(claim,))


@pytest.mark.parametrize("target", TARGETS)
def test_targets_are_as_fragile_as_trying_all_sets_shows(target):
    draw = random.Random(target)
    for strict in (False, True):
        expect_the_fewest_of_all_sets(
            (flags(draw, 7),), FLAG, True, False, settings={"strict": strict}, targets=(target,)
        )


def test_arms_with_lost_answers_are_as_fragile_as_trying_all_sets_shows():
    draw = random.Random(0)
    for _ in range(2):
        expect_the_fewest_of_all_sets(
            (flags(draw, 6, lost=0.2), flags(draw, 6)), FLAG, True, False, contrasts=(REGRESSION,)
        )


def test_groups_are_as_fragile_as_trying_all_sets_shows():
    arms = [[flag] for flag in (False, False, False, True, False, False)], [[True]] * 6
    expect_the_fewest_of_all_sets(arms, FLAG, True, False, contrasts=(REGRESSION,), groups=[*"aabbcd"])
    expect_the_fewest_of_all_sets(arms[:1], FLAG, True, False, targets=("m <= 0.3",), groups=[*"aabbcd"])


def test_arms_with_samples_of_their_own_are_as_fragile_as_trying_all_sets_shows():
    draw = random.Random(3)
    arms = flags(draw, 7), flags(draw, 7)
    expect_the_fewest_of_all_sets(arms, FLAG, True, False, contrasts=(replace(REGRESSION, unpaired=True),))


def test_repeats_are_as_fragile_as_trying_all_sets_shows():
    draw = random.Random(4)
    arms = flags(draw, 4, repeats=2), flags(draw, 4, repeats=2)
    expect_the_fewest_of_all_sets(arms[:1], FLAG, True, False, targets=("m >= 0.5",))
    expect_the_fewest_of_all_sets(
        arms, FLAG, True, False, contrasts=(replace(REGRESSION, alternative="non-inferior", margin=0.6),)
    )


def test_scores_are_as_fragile_as_trying_all_sets_shows():
    draw = random.Random(1)
    arms = [[[round(draw.random(), 2)] for _ in range(5)] for _ in range(2)]
    claim = replace(REGRESSION, alternative="non-inferior", margin=0.3)
    expect_the_fewest_of_all_sets(arms, SCORE, 1.0, 0.0, contrasts=(claim,))
    expect_the_fewest_of_all_sets(arms[:1], SCORE, 1.0, 0.0, targets=("m >= 0.5",))


@pytest.mark.parametrize("table", [(150, 18, 40, 32), (800, 119, 180, 220), (60, 9, 20, 11), (500, 70, 61, 30)])
def test_the_named_answers_change_a_verdict_and_one_less_does_not(table):
    arms = pairs(*table)
    item = ask_first(inputs_of_rows(*arms, metric=FLAG, contrasts=(REGRESSION,)))
    assert item.question is not None
    flip = measure_fragility(item.question).change_of_state
    assert flip is not None

    def state(names):
        places = [(int(name.removeprefix("q")), 0) for name in names]
        number = ("v2", "v1").index(flip.arm)
        changed = [turn(rows, places, flip.is_better) if k == number else rows for k, rows in enumerate(arms)]
        return decide_run(inputs_of_rows(*changed, metric=FLAG, contrasts=(REGRESSION,))).verdicts[0].state

    assert len(set(flip.samples)) == flip.answers
    assert state(flip.samples) == flip.state != item.verdict.state
    assert all(state(flip.samples[:k] + flip.samples[k + 1 :]) == item.verdict.state for k in (0, flip.answers - 1))


@settings(max_examples=25)
@given(
    table=st.tuples(*[st.integers(0, 25)] * 4).filter(lambda table: sum(table) >= 8),
    claim=st.sampled_from(CLAIMS),
    family_size=st.integers(1, 3),
)
def test_turning_the_named_answers_gives_the_named_verdict(table, claim, family_size):
    arms = pairs(*table)
    item = ask_first(inputs_of_rows(*arms, metric=FLAG, contrasts=(claim,)), family_size=family_size)
    assert item.question is not None
    fragility = measure_fragility(item.question)

    for flip in filter(None, (fragility.change, fragility.change_of_state)):
        places = [(int(name.removeprefix("q")), 0) for name in flip.samples]
        number = ("v2", "v1").index(flip.arm)
        changed = [turn(rows, places, flip.is_better) if k == number else rows for k, rows in enumerate(arms)]
        run = decide_run(inputs_of_rows(*changed, metric=FLAG, contrasts=(claim,)), family_size=family_size)
        verdict = run.verdicts[0]
        assert flip.answers == len(places) >= 1
        assert (verdict.state, verdict.proven) == (flip.state, flip.proven) != (item.verdict.state, item.verdict.proven)


def test_the_p_values_of_other_claims_stay_as_they_are():
    v2, v1 = pairs(60, 5, 19, 16)
    v0 = [[k % 7 != 0] for k in range(100)]
    contrasts = (REGRESSION, replace(REGRESSION, baseline="v0"))
    item = ask_first(inputs_of_rows(v2, v1, v0, metric=FLAG, contrasts=contrasts), family_size=2)
    assert item.question is not None
    other = item.analysis.comparisons[1].p_value

    def is_missed(gained, lost):
        p_value = compare(
            [1] * gained + [0] * lost + [1] * (100 - gained - lost), [0] * gained + [1] * (100 - gained)
        ).p_value
        return gained < lost and holm([p_value, other], family_size=2)[0] <= 0.05

    flip = measure_fragility(item.question).change_of_state

    assert is_missed(5, 19)
    fewest = next(k for k in range(1, 20) if any(not is_missed(5 + more, 19 - k + more) for more in range(k + 1)))
    assert (flip.answers, flip.state) == (fewest, "met")


def test_no_smaller_number_of_pairs_changes_a_verdict_however_it_is_split():
    item = ask_first(inputs_of_rows(*pairs(150, 18, 40, 32), metric=FLAG, contrasts=(REGRESSION,)))
    fewer = measure_fragility(item.question).change.answers - 1

    for mended in range(fewer + 1):
        # Pairs that only v1 got right and now both, and pairs that neither got right and now v2 alone.
        table = 150 + mended, 18 + fewer - mended, 40 - mended, 32 - fewer + mended
        run = decide_run(inputs_of_rows(*pairs(*table), metric=FLAG, contrasts=(REGRESSION,)))
        assert run.verdicts[0].state == "missed"


def test_one_answer_is_the_fewest():
    item = ask_first(inputs_of_rows([[0.8]] * 15 + [[0.2]] * 15, metric=SCORE, targets=("m >= 0.5",)))
    assert [(flip.answers, flip.is_exact) for flip in flips_of(item)] == [(1, True)] * 2


def test_where_the_estimate_decides_scores_have_an_exact_number_at_any_size():
    item = ask_first(inputs_of_rows([[k / 40] for k in range(40)], metric=SCORE, targets=("m >= 0.6",)))
    flip = measure_fragility(item.question).change_of_state
    # The mean is 19.5 / 40, and 24 / 40 is needed: the worst five gain 1, 0.975 and so on.
    assert (flip.answers, flip.is_exact, flip.samples) == (5, True, ("q0", "q1", "q2", "q3", "q4"))


def test_groups_of_one_sample_are_exchangeable_so_that_all_sets_can_be_tried():
    rows, groups = [[True]] * 22 + [[False]] * 8, [f"g{min(k, 27)}" for k in range(30)]
    facts = {"metric": FLAG, "targets": ("m >= 0.6",), "groups": groups}
    item = ask_first(inputs_of_rows(rows, **facts), strict=True)
    flip = measure_fragility(item.question).change

    assert item.verdict.state == "undecided"
    assert flip.is_exact
    turned = [(int(name.removeprefix("q")), 0) for name in flip.samples]
    assert decide_run(inputs_of_rows(turn(rows, turned, True), **facts), strict=True).verdicts[0].state == flip.state


def test_answers_in_different_slices_are_not_exchangeable():
    inputs = inputs_of_rows([[k % 3 == 0] for k in range(60)], metric=FLAG, targets=("gap(m by sex) <= 0.2",))
    item = ask_first(replace(inputs, expected=[None] * 60, metadata=[{"sex": "mf"[k % 2]} for k in range(60)]))

    assert not any(flip.is_exact for flip in flips_of(item))


def test_an_equality_may_be_met_by_one_number_of_answers_alone():
    item = ask_first(inputs_of_rows([[True]] * 55 + [[False]] * 5, metric=FLAG, targets=("m == 0.5",)))
    flip = measure_fragility(item.question).change_of_state
    assert (flip.answers, flip.is_better, flip.state, flip.is_exact) == (25, False, "met", True)


def test_more_answers_may_leave_an_equivalent_range_at_its_other_end():
    claim = replace(REGRESSION, alternative="equivalent", margin=0.05)
    item = ask_first(inputs_of_rows(*pairs(20, 35, 0, 5), metric=FLAG, contrasts=(claim,)))
    flip = measure_fragility(item.question).change_of_state
    # v2 wrong on 20 that both had right, and on 4 that it alone had right: more pairs disagree, and the bounds are wider.
    run = decide_run(inputs_of_rows(*pairs(0, 31, 20, 9), metric=FLAG, contrasts=(claim,)))

    assert run.verdicts[0].state == "undecided" != item.verdict.state
    assert flip.answers <= 24


@pytest.mark.parametrize(("margin", "is_better"), [(0.2, True), (0.23, False), (0.25, False)])
def test_lost_samples_are_counted_until_the_worst_or_best_values_of_the_verdict_change_it(margin, is_better):
    v2, v1 = pairs(40, 2, 8, 10)
    # The last one was wrong in v1: it may turn out better, and the others worse.
    gone = [0, 1, 2, 55]
    claim = replace(REGRESSION, alternative="non-inferior", margin=margin)

    def decide(positions, value):
        rows = [[value] if k in gone else v2[k] for k in positions]
        verdict = decide_run(
            inputs_of_rows(rows, [v1[k] for k in positions], metric=FLAG, contrasts=(claim,))
        ).verdicts[0]
        return verdict.state, verdict.proven

    others = [k for k in range(60) if k not in gone]
    order = list(reversed(gone)) if is_better else gone
    decisions = [decide(sorted(others + order[:bad]), is_better) for bad in range(5)]
    fewest = next(bad for bad, decision in enumerate(decisions) if decision != decisions[0])
    lost_rows = [[LOST] if k in gone else row for k, row in enumerate(v2)]
    item = ask_first(inputs_of_rows(lost_rows, v1, metric=FLAG, contrasts=(claim,)))

    lost = measure_fragility(item.question).lost

    assert (lost.samples, lost.of, lost.is_better) == (fewest, 4, is_better)
    assert (lost.state, lost.proven) == decisions[fewest]


def test_a_metric_without_bounds_has_no_fragility():
    seconds = MetricFacts(name="m", kind="positive", low=0.0, direction="lower")
    item = ask_first(inputs_of_rows([[1.0], [2.0]], [[2.0], [3.0]], metric=seconds, contrasts=(REGRESSION,)))

    assert item.question is not None
    assert measure_fragility(item.question).undefined == "m has no bounds that an answer could move to"


@pytest.mark.parametrize("statistic", ["gap", "ratio", "worst"])
def test_a_comparison_of_the_extremes_of_slices_is_not_searched(statistic):
    """A session with 400 pairs waited minutes for it: as many sizes of a set have to be tried as there are answers."""
    question = SimpleNamespace(measure=replace(REGRESSION, statistic=statistic), facts=FLAG)

    reason = undefined_reason(question)  # type: ignore[arg-type]  # its parts
    assert reason.startswith(f"two arms are compared by the {statistic} of slices")


def test_a_verdict_that_a_hook_has_amended_has_no_fragility():
    inputs = inputs_of_rows(*pairs(10, 1, 2, 3), metric=FLAG, contrasts=(REGRESSION,))
    run = decide_run(inputs)
    waived = replace(run.verdicts[0], state="missed")

    item = ask(replace(run, verdicts=(waived,)), waived, inputs, score_table(inputs))

    assert item.question is None
    assert item.undefined == "the gate, asked again, decides it otherwise than its session did"


def test_a_search_of_few_sets_finds_a_number_at_most():
    draw = random.Random(0)
    arms = [[[round(draw.random(), 2)] for _ in range(8)] for _ in range(2)]
    claim = replace(REGRESSION, alternative="non-inferior", margin=0.1)
    question = ask_first(inputs_of_rows(*arms, metric=SCORE, contrasts=(claim,))).question
    of_all, of_few = measure_fragility(question), measure_fragility(question, most_sets=1)

    assert (of_all.change.answers, of_all.change.is_exact) == (4, True)
    assert (of_few.change.answers, of_few.change.is_exact) == (5, False)


@pytest.mark.slow
def test_fewer_sets_are_tried_where_a_decision_weighs_all_evidence(monkeypatch):
    draw, decide_on, decisions = random.Random(0), Question.decide_on, {}
    arms = [[[round(0.3 * draw.random() + 0.6 * arm, 2)] for _ in range(12)] for arm in range(2)]
    for unpaired in (False, True):
        tables = decisions.setdefault(unpaired, [])
        monkeypatch.setattr(
            Question,
            "decide_on",
            lambda question, *changed, tables=tables: tables.append(1) or decide_on(question, *changed),
        )
        claim = replace(REGRESSION, unpaired=unpaired)
        measure_fragility(ask_first(inputs_of_rows(*arms, metric=SCORE, contrasts=(claim,))).question, most_sets=40)

    assert len(decisions[False]) > 4 * 40
    assert len(decisions[True]) < 40


def test_many_scores_have_a_number_at_most():
    draw = random.Random(7)
    arms = [[[round(draw.random(), 3)] for _ in range(40)] for _ in range(2)]
    arms[0] = [[score * 0.6] for [score] in arms[1]]
    item = ask_first(inputs_of_rows(*arms, metric=SCORE, contrasts=(REGRESSION,)))
    flip = measure_fragility(item.question).change_of_state

    assert item.verdict.state == "missed"
    assert not flip.is_exact
    assert flip.arm == "v2"
    assert flip.is_better


def test_pairs_are_counted_as_right_where_a_lower_value_is_better():
    fault = replace(FLAG, direction="lower")
    item = ask_first(inputs_of_rows(*pairs(5, 2, 3, 4), metric=fault, contrasts=(REGRESSION,)))

    assert count_pairs(item.question) == (4, 3, 2, 14)
