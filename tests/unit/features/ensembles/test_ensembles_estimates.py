"""Estimates and targets of ensembles and their members."""

from __future__ import annotations

from dataclasses import replace

from answer_builders import LOST, UNSCORED, analysis_inputs, reply_rows
from plan_builders import arms_of

from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.features.ensembles.section import ensemble_facts
from pytest_crucible.records import Analysis, Arm, ArmOutcomes, MetricFacts

EXACT = MetricFacts(name="exact", kind="binary", low=0.0, high=1.0)
V1, V2, TRIO = [True, True, False, False], [True, False, True, False], [True, True, True, False]


def answers(*, failures=None, lost=(), n=4, **scores) -> ArmOutcomes:
    """Metrics by name; `exact_v1` is exact[v1], and "none" a value that was not observed."""
    parts = {
        name.replace("_v1", "[v1]").replace("_v2", "[v2]"): reply_rows(
            [[LOST] if k in lost else [UNSCORED if values[k] == "none" else values[k]] for k in range(n)]
        )
        for name, values in scores.items()
    }
    first = next(iter(parts.values()))
    return replace(
        first,
        failures=[(failures or {}).get(k) for k in first.positions],
        scores={name: part.scores["m"] for name, part in parts.items()},
    )


def run_analysis(*arms: ArmOutcomes, targets=()) -> Analysis:
    trio = Arm(name="trio", role="candidate", adapter="ensemble:trio", identity="trio", members=("v1", "v2"))
    inputs = analysis_inputs(
        *arms, n=4, metrics=(EXACT, *ensemble_facts((EXACT,), ["v1", "v2"])), targets=targets, open_metrics=False,
        arms=(trio, *arms_of("", "v1")[1 : len(arms)]),
    )  # fmt: skip
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=0)


def test_what_only_an_ensemble_has_is_estimated_in_its_arm_alone():
    analysis = run_analysis(
        answers(exact=TRIO, exact_v1=V1, exact_v2=V2, consensus=[1.0, 0.5, 0.5, 1.0]), answers(exact=V1)
    )

    assert [(each.metric, each.arm, each.value) for each in analysis.estimates] == [
        ("exact", "trio", 0.75), ("exact", "v1", 0.5), ("consensus", "trio", 0.75), ("exact[v1]", "trio", 0.5),
        ("exact[v2]", "trio", 0.5),
    ]  # fmt: skip
    assert "cost_usd" not in analysis.kinds  # the price is unknown


def test_targets_may_be_about_consensus_and_members():
    analysis = run_analysis(
        answers(exact=TRIO, exact_v1=V1, consensus=[1.0, 0.5, 0.5, 1.0]),
        targets=["consensus >= 0.8", "exact[v1] >= 0.5"],
    )

    assert [(result.target.metric, result.estimate.value) for result in analysis.targets] == [
        ("consensus", 0.75),
        ("exact[v1]", 0.5),
    ]


def test_a_failure_of_the_ensemble_is_no_failure_of_its_members():
    analysis = run_analysis(
        answers(
            failures={3: "timeout"}, exact=[*TRIO[:3], "none"], exact_v1=[*V1[:3], "none"], exact_v2=[*V2[:3], "none"]
        )
    )
    values = {each.metric: each for each in analysis.estimates}

    assert (values["exact"].value, values["exact"].n) == (0.75, 4)
    assert (values["exact[v1]"].n, values["exact[v1]"].inapplicable, values["exact[v1]"].lost) == (3, 1, 0)


def test_a_sample_that_is_lost_is_lost_for_the_members_too():
    analysis = run_analysis(answers(lost=[3], exact=TRIO[:3], exact_v1=V1[:3], exact_v2=V2[:3]))
    values = {each.metric: each for each in analysis.estimates}

    assert (values["exact[v1]"].n, values["exact[v1]"].lost) == (3, 1)
