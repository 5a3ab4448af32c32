"""Targets on a training: one number, no interval, a verdict that selection and losses do not touch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.features.training.log import summarise_training
from pytest_crucible.gate import decide_verdicts
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Arm, ArmOutcomes, ArmTraining, Fingerprint, MetricFacts, Plan, ScoreColumns

LOSSES = (2.0, 1.0, 0.5, 0.1, 0.1, 0.1)
TRAINED = Arm(
    name="v2",
    role="candidate",
    adapter="local:v2",
    identity="2",
    training=summarise_training(LOSSES, [3.0, 1.0, 1, 1, 1, 1]),
)
RECORDED = Arm(name="old", role="candidate", adapter="recorded:old", identity="1")


def plan(*targets: str, arm: Arm = TRAINED, decide="point", **facts) -> Plan:
    options = {
        "nodeid": "t.py::t", "path": "t.py", "line": 1, "dataset": "d", "dataset_sha256": "d", "planned": 2,
        "selected": 2, "groups": None, "repeats": 1, "metrics": (), "open_metrics": True, "contrasts": (),
        "fingerprint": Fingerprint(dataset="", function="", metrics="", sampling=""),
    }  # fmt: skip
    parsed = tuple(parse_target(text, decide=decide) for text in targets)
    return Plan(arms=(arm,), targets=parsed, **{**options, **facts})


def verdicts(training_plan: Plan, scores=None, *, finished=True, strict=False, answered=2):
    columns = {
        name: ScoreColumns(positions=(0, 1), repeats=(0, 0), values=values, is_bool=(False, False))
        for name, values in (scores or {}).items()
    }
    positions = tuple(range(answered))
    answers = ArmOutcomes(
        positions=positions, repeats=(0,) * answered, failures=(None,) * answered, skipped=(False,) * answered,
        scores=columns, lost=(),
    )  # fmt: skip
    analysis_inputs = AnalysisInputs(
        plan=training_plan, answers=(answers,), groups=(None, None), finished=finished, known_kinds={}
    )
    analysis = analyse(analysis_inputs, score_table(analysis_inputs), alpha=0.05, family_size=0)
    return analysis, decide_verdicts([analysis], alpha=0.05, strict=strict, family_size=0)


@pytest.mark.parametrize(
    ("text", "state", "value"),
    [
        ("loss_reduction >= 0.95", "met", 0.95),
        ("loss_reduction > 0.95", "missed", 0.95),
        ("training_steps < 500", "met", 6),
        ("convergence_steps < 4", "missed", 4),
        ("final_loss <= 0.5", "met", 0.1),
        ("first_loss <= 0.5", "missed", 2.0),
        ("largest_gradient_norm <= 10", "met", 3.0),
        ("gradient_norms_finite == 1", "met", 1),
    ],
)
@pytest.mark.parametrize("decide", ["point", "bound"])
def test_a_number_of_the_training_decides(text, state, value, decide):
    analysis, (verdict,) = verdicts(plan(text, decide=decide), strict=decide == "bound")

    [target] = analysis.targets
    assert (verdict.state, verdict.proven, verdict.suite_error) == (state, False, False)
    assert target.estimate.value == pytest.approx(value)
    assert (target.estimate.n, target.estimate.interval, target.estimate.statistic) == (1, None, "training")
    assert verdict.reason == "another seed may give another number"


@pytest.mark.parametrize("name", ["training_steps", "convergence_steps", "gradient_norms_finite"])
def test_whole_numbers_stay_whole(name):
    value = verdicts(plan(f"{name} >= 1"))[0].targets[0].estimate.value

    assert type(value) is int


def test_without_a_known_training_it_is_open_and_says_why():
    analysis, (verdict,) = verdicts(plan("loss_reduction >= 0.95", arm=RECORDED))

    assert (verdict.state, verdict.suite_error) == ("undecided", False)
    assert analysis.targets[0].estimate.n == 0
    assert verdict.reason == (
        "nothing is known of a training of old (recorded): there is one where a recipe made the adapter, or lineage.json "
        "lies beside its checkpoint"
    )


@pytest.mark.parametrize(
    ("text", "losses", "reason"),
    [
        ("convergence_steps < 9", (1.0, 2.0), "the loss was not reduced: 1 to 2"),
        (
            "convergence_steps < 9",
            (4.0, 3.0, 2.0, 1.0),
            "the loss was still changing in the last fifth of 4 steps",
        ),
        ("loss_reduction >= 0.5", (-1.0, -2.0), "the first loss is -1: no share of it can be told"),
    ],
)
def test_a_number_that_is_not_defined_leaves_it_open(text, losses, reason):
    arm = replace(TRAINED, training=summarise_training(losses, [1.0]))

    (verdict,) = verdicts(plan(text, arm=arm))[1]
    assert (verdict.state, verdict.reason) == ("undecided", reason)


def test_what_was_selected_cut_short_or_lost_does_not_touch_it():
    for how in ({"planned": 9}, {}):
        (verdict,) = verdicts(plan("final_loss <= 0.5", **how), finished=bool(how), answered=1)[1]
        assert verdict.state == "met"


def test_what_was_scored_goes_before_a_training_of_the_same_name():
    analysis, (verdict,) = verdicts(plan("final_loss >= 5"), {"final_loss": (7.0, 9.0)})

    assert (verdict.state, analysis.targets[0].estimate.value, analysis.targets[0].estimate.n) == ("met", 8.0, 2)


def test_what_was_declared_and_never_scored_is_no_training_either():
    own = MetricFacts(name="final_loss", kind="bounded", low=0, high=10)

    (verdict,) = verdicts(plan("final_loss <= 5", metrics=(own,), open_metrics=False))[1]
    assert verdict.state == "undecided"
    assert "training" not in verdict.reason


def test_targets_keep_their_order():
    training_plan = plan("final_loss <= 1", "score >= 0", "training_steps < 9")

    assert [entry.subject for entry in verdicts(training_plan, {"score": (1.0, 1.0)})[1]] == [
        target.text for target in training_plan.targets
    ]


# -- several trainings ----------------------------------------------------------------------------------------------


def arm_of(*finals: float, norms=((3.0, 1.0),)) -> Arm:
    """An arm that was trained once for each final loss, from a first one of 2."""
    trainings = tuple(
        ArmTraining(
            name=f"v2-seed{seed}", seed=seed, identity=str(seed),
            result=summarise_training([2.0, final], list(norms[seed % len(norms)])),
        )
        for seed, final in enumerate(finals)
    )  # fmt: skip
    return replace(TRAINED, training=None, trainings=trainings)


def test_of_several_trainings_the_geometric_mean_is_judged_with_an_interval_over_trainings():
    analysis, (verdict,) = verdicts(plan("loss_reduction >= 0.9", arm=arm_of(0.02, 0.04, 0.08)))

    estimate = analysis.targets[0].estimate
    # scipy: exp(mean(log(x)) -+ t.ppf(.975, 2) * std(log(x), ddof=1) / sqrt(3)) of x = .01, .02, .04, taken from 1
    assert estimate.value == pytest.approx(0.98)
    assert (estimate.interval.low, estimate.interval.high) == pytest.approx((0.88811, 0.99643), abs=1e-4)
    assert (estimate.n, estimate.method) == (3, "t of logarithms over 3 trainings")
    assert (verdict.state, verdict.proven) == ("met", True)
    assert verdict.reason == "one-sided bound 0.936 >= target 0.9; n counts trainings"


@pytest.mark.parametrize(
    ("text", "strict", "state", "proven"),
    [
        ("loss_reduction >= 0.97", False, "met", False),
        ("loss_reduction >= 0.97", True, "undecided", False),
        ("loss_reduction >= 0.999", True, "missed", True),
        ("final_loss <= 0.2", True, "met", True),
        # Those of a policy may be negative: then the numbers themselves are averaged.
        ("training_steps == 2", True, "met", False),
        ("training_steps < 9", True, "met", False),
        ("gradient_norms_finite == 1", True, "met", False),
        ("largest_gradient_norm <= 10", True, "met", False),
    ],
)
def test_proof_is_asked_of_what_varies_from_seed_to_seed(text, strict, state, proven):
    (verdict,) = verdicts(plan(text, arm=arm_of(0.02, 0.04, 0.08)), strict=strict)[1]

    assert (verdict.state, verdict.proven) == (state, proven)


def test_losses_of_a_policy_are_averaged_as_they_are():
    analysis, _ = verdicts(plan("final_loss <= 5", arm=arm_of(-1.0, 2.0, 5.0)))

    estimate = analysis.targets[0].estimate
    assert (estimate.value, estimate.method) == (2.0, "t over 3 trainings")
    # R: t.test(c(-1, 2, 5))$conf.int
    assert (estimate.interval.low, estimate.interval.high) == pytest.approx((-5.452413, 9.452413))


def test_an_interval_ends_where_the_number_does():
    analysis, _ = verdicts(plan("loss_reduction >= 0.5", arm=arm_of(0.0, 0.1, 1.0)))

    estimate = analysis.targets[0].estimate
    assert estimate.method == "t over 3 trainings"
    assert estimate.interval.high == 1.0


@pytest.mark.parametrize(
    ("finals", "facts", "method", "reason"),
    [
        ((0.02, 0.04), {}, "geometric mean of 2 trainings", "another seed may give another number: 3 trainings have an interval"),
        ((0.02, 0.04, 0.08), {"fixed": ("trainings",)}, "geometric mean of 3 trainings", "of these 3 trainings alone"),
        ((0.02, 0.02, 0.02), {}, "mean of 3 trainings", "another seed may give another number"),
    ],
)  # fmt: skip
def test_without_an_interval_the_mean_decides_as_the_number_of_one_training_does(finals, facts, method, reason):
    training_plan = plan("loss_reduction >= 0.9", arm=arm_of(*finals), **facts)
    analysis, (verdict,) = verdicts(training_plan, strict=True)

    estimate = analysis.targets[0].estimate
    assert (estimate.interval, estimate.n, estimate.method) == (None, len(finals), method)
    assert (verdict.state, verdict.proven, verdict.reason) == ("met", False, reason)


def test_a_share_of_trainings_has_no_interval():
    arm = arm_of(0.02, 0.04, 0.08)
    broken = replace(arm.trainings[0], result=replace(arm.trainings[0].result, gradient_norms_finite=False))
    analysis, (verdict,) = verdicts(
        plan("gradient_norms_finite == 1", arm=replace(arm, trainings=(broken, *arm.trainings[1:])))
    )

    assert analysis.targets[0].estimate.value == pytest.approx(2 / 3)
    assert (verdict.state, analysis.targets[0].estimate.interval) == ("missed", None)


def test_a_number_that_one_training_lacks_leaves_the_target_open():
    (verdict,) = verdicts(plan("convergence_steps < 9", arm=arm_of(0.02, 4.0, 0.08)))[1]

    assert (verdict.state, verdict.reason) == (
        "undecided", "the loss was still changing in the last fifth of 2 steps",
    )  # fmt: skip
