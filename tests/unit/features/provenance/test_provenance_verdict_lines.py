from dataclasses import replace

import pytest
from experiment_builders import store_run

from pytest_crucible.features.provenance.load_verdict_facts import load_verdict_facts
from pytest_crucible.features.provenance.verdict_facts import Influence, LostFlip, Pairs
from pytest_crucible.features.provenance.verdict_lines import fragility_text, influence_text
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Contrast, MetricFacts, Sample
from pytest_crucible.runs.load_run import load_run, load_verdicts

FLAG = MetricFacts(name="accuracy", kind="binary", low=0.0, high=1.0)
SCORE = replace(FLAG, name="score", kind="bounded")
REGRESSION = Contrast(metric="accuracy", baseline="v1")
V2 = [True] * 168 + [False] * 72
V1 = [True] * 150 + [False] * 18 + [True] * 40 + [False] * 32


def facts_of(store, *, groups=None, metrics=(FLAG,), **arms):
    n = len(arms["v2"])
    samples = [Sample(id=f"q{k}", input=str(k), group=groups and groups[k]) for k in range(n)]
    store_run(store, "r1", samples, metric=metrics[0].name, metrics=metrics, **arms)
    return list(load_verdict_facts(store, load_run(store, "r1")).values())


def test_a_comparison_is_explained_line_by_line(store):
    [facts] = facts_of(store, v2=V2, v1=V1, contrasts=(REGRESSION,))

    assert (facts.numbers, facts.n, facts.lost) == ("-0.092 [-0.155, -0.029]", 240, 0)
    assert (facts.holm_position, facts.family_size) == (1, 1)
    assert facts.rule == "regression gate: missed when the arms are not alike (alpha 0.05) and v2's estimate is worse"
    assert facts.method == "exact unconditional: arms paired by id, no groups (p and interval)"
    assert facts.pairs == Pairs(both=150, only_candidate=18, only_baseline=40, neither=32)
    assert fragility_text(facts) == "7 answers: if v2 were right on 7 more, the arms would not be told apart"
    assert influence_text(facts.influence, is_of_pairs=True) == "q168, q169, q170 and 37 more"


def test_inputs_that_were_kept_are_not_read_again(store, monkeypatch):
    facts = facts_of(store, v2=V2, v1=V1, contrasts=(REGRESSION,))
    inputs = {}
    run = load_verdicts(store, "r1", lambda each: inputs.update({each.plan.nodeid: each}))
    monkeypatch.setattr("pytest_crucible.store.experiments._load", pytest.fail)

    assert list(load_verdict_facts(store, run, loaded=inputs).values()) == facts


def test_inputs_of_other_experiments_do_not_keep_these_from_being_read(store):
    facts = facts_of(store, v2=V2, v1=V1, contrasts=(REGRESSION,))
    inputs = []
    run = load_verdicts(store, "r1", inputs.append)

    assert list(load_verdict_facts(store, run, loaded={"another": inputs[0]}).values()) == facts


def test_the_place_of_a_p_value_among_those_of_the_session_is_counted_from_the_smallest(store):
    contrasts = (REGRESSION, replace(REGRESSION, baseline="v0"))

    facts = facts_of(store, v2=V2, v1=V1, v0=[True] * 240, contrasts=contrasts)

    assert [each.holm_position for each in facts] == [2, 1]


def test_groups_come_first_and_say_how_much_the_estimate_changes_without_them(store):
    [facts] = facts_of(store, v2=V2, v1=V1, contrasts=(REGRESSION,), groups=[f"g{k // 4}" for k in range(240)])

    text = influence_text(facts.influence, is_of_pairs=True)
    assert text.startswith("groups g42 (+0.0154 without it), g43 (+0.0154 without it)")
    assert fragility_text(facts).startswith("at most ")
    assert facts.method == "sign flips: arms paired by id, 60 groups (p); gaffke (interval)"


def test_a_proof_that_changes_first_is_followed_by_the_state(store):
    [facts] = facts_of(store, v2=[True] * 50 + [False] * 10, targets=(parse_target("accuracy >= 0.5"),))

    first, second = fragility_text(facts).split("; ")
    assert first.endswith("it would not be proven")
    assert second == "21 answers: if v2 were wrong on 21 more, it would be missed"
    assert (
        facts.rule == "quality target: met when the estimate is >= 0.5; proven when the one-sided bound is (alpha 0.05)"
    )


def test_scores_move_to_their_best_or_worst(store):
    [facts] = facts_of(store, v2=[0.9, 0.8, 0.7], metrics=(SCORE,), targets=(parse_target("score >= 0.6"),))

    assert "1 answer: if 1 answer of v2 had the worst score, it would be missed" in fragility_text(facts)


def test_a_condition_is_fulfilled_or_not(store):
    [facts] = facts_of(
        store, v2=[0.9, 0.8, 0.2], metrics=(SCORE,), targets=(parse_target("rate(score >= 0.75) >= 0.5"),)
    )

    assert "1 answer: if 1 more answer of v2 did not fulfil score >= 0.75, it would be missed" in fragility_text(facts)


def test_lost_samples_that_matter_are_counted_and_others_are_said_not_to(store):
    [facts] = facts_of(store, v2=["lost", *[True] * 19], v1=[True] * 20, contrasts=(REGRESSION,))
    fragility = replace(
        facts.fragility,
        change=None,
        change_of_state=None,
        lost=LostFlip(samples=2, is_exact=False, of=3, is_better=False, state="missed", proven=False),
    )

    assert fragility_text(facts).endswith("; however the 1 lost sample turned out, it would be the same")
    assert fragility_text(replace(facts, fragility=fragility)) == (
        "no answers of one arm that turn one way change it; "
        "at most 2 of the 3 lost samples: if they turned out badly for the candidate, it would be missed, not proven"
    )


def test_a_metric_without_bounds_says_why_it_has_no_fragility(store):
    seconds = MetricFacts(name="seconds", kind="positive", low=0.0, direction="lower")
    [facts] = facts_of(store, v2=[1.0, 2.0], metrics=(seconds,), targets=(parse_target("seconds <= 3"),))

    assert fragility_text(facts) == "not defined: seconds has no bounds that an answer could move to"


def test_a_group_of_one_sample_has_the_name_of_the_sample():
    influence = Influence(unit="group", names=("q1", "g2"), sizes=(1, 3), changes=(0.5, 0.25))
    alone = Influence(unit="group", names=("q1", "q2"), sizes=(1, 1), changes=(0.5, 0.25))

    assert influence_text(influence, is_of_pairs=True) == "q1 (+0.5 without it), group g2 (+0.25 without it)"
    assert influence_text(alone, is_of_pairs=True) == "q1 (+0.5 without it), q2 (+0.25 without it)"


def test_pairs_that_agree_are_not_on_the_side_of_the_estimate():
    text = influence_text(Influence(unit="sample"), is_of_pairs=True)
    assert text == "none: no sample differs on the side of the estimate"


@pytest.mark.parametrize(
    ("influence", "text"),
    [
        (Influence(unit="sample"), "none: leaving out one sample never brings the estimate nearer to its limit"),
        (Influence(unit="sample", undefined="it has no scores"), "not defined: it has no scores"),
        (
            Influence(unit="sample", names=("q1", "q2"), sizes=(1, 1), changes=(0.5, 0.5), decides_alone=("q1", "q2")),
            "q1, q2; without q1 or q2 alone the state would be another one",
        ),
        (
            Influence(unit="sample", names=("\x1b[31mq",), sizes=(1,), changes=(0.5,), decides_alone=("\x1b[31mq",)),
            "\\x1b[31mq; without \\x1b[31mq alone the state would be another one",
        ),
    ],
)
def test_influence_in_words(influence, text):
    assert influence_text(influence, is_of_pairs=False) == text
