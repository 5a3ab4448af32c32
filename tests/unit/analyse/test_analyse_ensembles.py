"""An arm that is an ensemble: what was observed of its members, and how far they differ."""

from __future__ import annotations

import pytest

from pytest_crucible import stats
from pytest_crucible.analyse.analysis import Given, analyse
from pytest_crucible.metrics.members import facts_of_ensemble
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Analysis,
    Answers,
    Arm,
    Fingerprint,
    Lost,
    MetricFacts,
    Plan,
    ScoreColumns,
)

EXACT = MetricFacts(name="exact", kind="binary", low=0.0, high=1.0)
WRONG = MetricFacts(name="wrong", kind="binary", low=0.0, high=1.0, direction="lower")
V1, V2, TRIO = [True, True, False, False], [True, False, True, False], [True, True, True, False]


def column(values, epochs=1) -> ScoreColumns:
    """Values by unit; "none" is one that was not observed."""
    kept = [k for k, value in enumerate(values) if value != "none"]
    return ScoreColumns(
        positions=[k // epochs for k in kept],
        epochs=[k % epochs for k in kept],
        values=[None if values[k] is None else float(values[k]) for k in kept],
        is_bool=[isinstance(values[k], bool) for k in kept],
    )


def answers(*, failures=None, lost=(), n=4, epochs=1, **scores) -> Answers:
    """Metrics by name; `exact_v1` is exact[v1]."""
    units = [k for k in range(n * epochs) if k not in lost]
    return Answers(
        positions=[k // epochs for k in units],
        epochs=[k % epochs for k in units],
        failures=[(failures or {}).get(k) for k in units],
        skipped=[False] * len(units),
        scores={
            name.replace("_v1", "[v1]").replace("_v2", "[v2]"): column(one, epochs) for name, one in scores.items()
        },
        lost=[Lost(0, k // epochs, k % epochs, None, "error") for k in lost],
    )


def analysed(*arms: Answers, metrics=(EXACT,), targets=(), groups=None, n=4, epochs=1) -> Analysis:
    plan = Plan(
        nodeid="t.py::t", path="t.py", line=1, dataset="d", dataset_sha256="d", planned=n, selected=n, groups=None,
        epochs=epochs, metrics=(*metrics, *facts_of_ensemble(metrics, ["v1", "v2"])), targets=tuple(map(parse_target, targets)),
        contrasts=(), open_metrics=False,
        arms=(
            Arm(name="trio", role="candidate", adapter="ensemble:trio", identity="trio", members=("v1", "v2")),
            *[Arm(name="v1", role="baseline", adapter="v1", identity="v1")][: len(arms) - 1],
        ),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
    )  # fmt: skip
    given = Given(plan=plan, answers=arms, groups=groups or [None] * n, finished=True, known_kinds={})
    return analyse(given, alpha=0.05, questions=0)[0]


def test_what_only_an_ensemble_has_is_estimated_in_its_arm_alone():
    one = analysed(answers(exact=TRIO, exact_v1=V1, exact_v2=V2, consensus=[1.0, 0.5, 0.5, 1.0]), answers(exact=V1))

    assert [(each.metric, each.arm, each.value) for each in one.estimates] == [
        ("exact", "trio", 0.75), ("exact", "v1", 0.5), ("consensus", "trio", 0.75), ("exact[v1]", "trio", 0.5),
        ("exact[v2]", "trio", 0.5),
    ]  # fmt: skip
    assert "cost_usd" not in one.kinds  # nobody knew the price


def test_targets_may_be_about_consensus_and_members():
    one = analysed(
        answers(exact=TRIO, exact_v1=V1, consensus=[1.0, 0.5, 0.5, 1.0]),
        targets=["consensus >= 0.8", "exact[v1] >= 0.5"],
    )

    assert [(result.target.metric, result.estimate.value) for result in one.targets] == [
        ("consensus", 0.75),
        ("exact[v1]", 0.5),
    ]


def test_a_failure_of_the_ensemble_is_no_failure_of_its_members():
    one = analysed(
        answers(
            failures={3: "timeout"}, exact=[*TRIO[:3], "none"], exact_v1=[*V1[:3], "none"], exact_v2=[*V2[:3], "none"]
        )
    )
    found = {each.metric: each for each in one.estimates}

    assert (found["exact"].value, found["exact"].n) == (0.75, 4)
    assert (found["exact[v1]"].n, found["exact[v1]"].inapplicable, found["exact[v1]"].lost) == (3, 1, 0)


def test_a_sample_that_is_lost_is_lost_for_the_members_too():
    one = analysed(answers(lost=[3], exact=TRIO[:3], exact_v1=V1[:3], exact_v2=V2[:3]))
    found = {each.metric: each for each in one.estimates}

    assert (found["exact[v1]"].n, found["exact[v1]"].lost) == (3, 1)


def test_the_members_stand_beside_the_ensemble():
    [found] = analysed(answers(exact=TRIO, exact_v1=V1, exact_v2=V2)).diversity
    [pair] = found.pairs

    assert (found.arm, found.metric, found.n, found.best, found.note) == ("trio", "exact", 4, "v1", "")
    assert {name: one.value for name, one in found.accuracies.items()} == {"v1": 0.5, "v2": 0.5}
    assert (found.oracle.value, found.ensemble.value) == (0.75, 0.75)
    assert (pair.first, pair.second, pair.n, pair.disagreement.value, pair.double_fault.value) == (
        "v1",
        "v2",
        4,
        0.5,
        0.25,
    )
    assert pair.error_correlation.value == 0.0
    assert found.oracle.interval == stats.wilson_interval(3, 4)


def test_of_a_metric_that_says_wrong_the_other_side_is_right():
    scores = {"exact": TRIO, "exact_v1": V1, "exact_v2": V2}
    flipped = {name.replace("exact", "wrong"): [not value for value in values] for name, values in scores.items()}
    found = analysed(answers(**scores, **flipped), metrics=(EXACT, WRONG)).diversity

    assert [one.metric for one in found] == ["exact", "wrong"]
    assert (found[0].oracle, found[0].pairs, found[0].best) == (found[1].oracle, found[1].pairs, found[1].best)


def test_a_member_that_was_not_asked_leaves_its_samples_out():
    [found] = analysed(answers(exact=TRIO, exact_v1=V1, exact_v2=["none", "none", True, False])).diversity

    assert (found.n, found.pairs[0].n) == (2, 2)
    assert found.note.startswith("only samples that every member answered")


def test_where_no_sample_was_answered_by_all_it_says_so():
    [found] = analysed(
        answers(exact=TRIO, exact_v1=[*V1[:2], "none", "none"], exact_v2=["none", "none", *V2[2:]])
    ).diversity

    assert (found.n, found.best, found.oracle.value, found.oracle.note) == (
        0,
        None,
        None,
        "no sample was answered by all",
    )


@pytest.mark.parametrize("scores", [{"exact": TRIO}, {"exact": TRIO, "exact_v1": V1}])
def test_without_two_members_scores_there_is_no_diversity(scores):
    assert analysed(answers(**scores)).diversity == ()


def test_repeats_and_groups_are_heeded():
    twice = {
        name: [value for value in values for _ in range(2)]
        for name, values in (("exact", TRIO), ("exact_v1", V1), ("exact_v2", V2))
    }
    [repeated] = analysed(answers(epochs=2, **twice), epochs=2).diversity
    many = {name: values * 6 for name, values in (("exact", TRIO), ("exact_v1", V1), ("exact_v2", V2))}
    [grouped] = analysed(answers(n=24, **many), n=24, groups=[f"g{k // 4}" for k in range(24)]).diversity

    assert (repeated.n, repeated.pairs[0].disagreement.value) == (4, 0.5)
    assert grouped.oracle.interval.method == "korn-graubard"
