"""An arm that is an ensemble: what was observed of its members, and how far they differ."""

from __future__ import annotations

from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.features.ensembles.section import ensemble_facts
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Analysis, Arm, ArmOutcomes, Fingerprint, Lost, MetricFacts, Plan, ScoreColumns, Unit

EXACT = MetricFacts(name="exact", kind="binary", low=0.0, high=1.0)
WRONG = MetricFacts(name="wrong", kind="binary", low=0.0, high=1.0, direction="lower")
V1, V2, TRIO = [True, True, False, False], [True, False, True, False], [True, True, True, False]


def column(values, repeats=1) -> ScoreColumns:
    """Values by unit; "none" is one that was not observed."""
    kept_positions = [k for k, value in enumerate(values) if value != "none"]
    return ScoreColumns(
        positions=[k // repeats for k in kept_positions],
        repeats=[k % repeats for k in kept_positions],
        values=[None if values[k] is None else float(values[k]) for k in kept_positions],
        is_bool=[isinstance(values[k], bool) for k in kept_positions],
    )


def answers(*, failures=None, lost=(), n=4, repeats=1, **scores) -> ArmOutcomes:
    """Metrics by name; `exact_v1` is exact[v1]."""
    units = [k for k in range(n * repeats) if k not in lost]
    return ArmOutcomes(
        positions=[k // repeats for k in units],
        repeats=[k % repeats for k in units],
        failures=[(failures or {}).get(k) for k in units],
        skipped=[False] * len(units),
        scores={
            name.replace("_v1", "[v1]").replace("_v2", "[v2]"): column(score, repeats) for name, score in scores.items()
        },
        lost=[Lost(Unit(k // repeats, 0, 0, k % repeats), None, "error") for k in lost],
    )


def run_analysis(*arms: ArmOutcomes, metrics=(EXACT,), targets=(), groups=None, n=4, repeats=1) -> Analysis:
    plan = Plan(
        nodeid="t.py::t", path="t.py", line=1, dataset="d", dataset_sha256="d", planned=n, selected=n, groups=None,
        repeats=repeats, metrics=(*metrics, *ensemble_facts(metrics, ["v1", "v2"])), targets=tuple(map(parse_target, targets)),
        contrasts=(), open_metrics=False,
        arms=(
            Arm(name="trio", role="candidate", adapter="ensemble:trio", identity="trio", members=("v1", "v2")),
            *[Arm(name="v1", role="baseline", adapter="v1", identity="v1")][: len(arms) - 1],
        ),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
    )  # fmt: skip
    analysis_inputs = AnalysisInputs(
        plan=plan, answers=arms, groups=groups or [None] * n, finished=True, known_kinds={}
    )
    return analyse(analysis_inputs, score_table(analysis_inputs), alpha=0.05, family_size=0)


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
