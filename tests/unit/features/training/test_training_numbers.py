"""Targets on a training: their names, one number without an interval, a verdict that selection does not touch, their section."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
from answer_builders import arm, inputs_of

from pytest_crucible import SpecError
from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.features.training import numbers as training
from pytest_crucible.features.training.log import summarise_training
from pytest_crucible.gate import decide_verdicts
from pytest_crucible.plan.design import plan_metrics
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Arm,
    ArmOutcomes,
    ArmTraining,
    Contrast,
    Fingerprint,
    MetricFacts,
    Plan,
    ScoreColumns,
    TrainingResult,
)
from pytest_crucible.records.serialize import to_plain

ACCURACY = MetricFacts(name="accuracy", kind="binary", low=0, high=1)


def refusals_for(*facts, targets=(), compared=(), open_metrics=False):
    return plan_metrics(
        facts,
        [parse_target(text) for text in targets],
        [Contrast(metric=name, baseline="") for name in compared],
        open_metrics=open_metrics,
    )


def refusal(*facts, **target) -> str:
    with pytest.raises(SpecError) as caught:
        refusals_for(*facts, **target)
    return str(caught.value)


@pytest.mark.parametrize("name", TrainingResult.__dataclass_fields__)
def test_every_number_of_a_training_can_be_judged(name):
    assert refusals_for(ACCURACY, targets=[f"{name} <= 1"]) == (ACCURACY,)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("loss_reducton >= 0.95", "loss_reduction"),
        ("reduction >= 0.95", "loss_reduction"),
        ("converged_steps < 500", "convergence_steps"),
        ("gradient_norm_finite == 1", "gradient_norms_finite"),
        ("train_steps < 500", "training_steps"),
    ],
)
def test_a_misspelt_name_is_found_with_the_nearest_one(text, meant):
    name = text.split()[0]

    assert refusal(ACCURACY, targets=[text]) == (
        f"target {text!r} names metric {name!r}: did you mean {meant!r}? this experiment has accuracy"
    )


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("p95(final_loss) <= 0.5", "final_loss <= 0.5"),
        ("count(training_steps) < 500", "training_steps < 500"),
        ("rate(final_loss <= 0.5) >= 0.9", "final_loss <= 0.5"),
    ],
)
def test_it_is_one_number_of_which_there_is_no_statistic(text, instead):
    name = instead.split()[0]

    assert refusal(ACCURACY, targets=[text]) == (
        f"target {text!r} asks for a statistic of {name!r}, which is one number of the candidate's training: "
        f"write {instead!r}"
    )


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("loss_reduction >= 95", "-inf", "1"),
        ("training_steps < 0", "1", "inf"),
        ("gradient_norms_finite == 2", "0", "1"),
        ("largest_gradient_norm <= -1", "0", "inf"),
    ],
)
def test_a_value_that_it_can_never_have_is_a_slip(text, low, high):
    name, _, value = text.split()

    assert refusal(ACCURACY, targets=[text]) == (
        f"target {text!r} asks for {value}, but {name!r} lies between {low} and {high}: write a value in that range, "
        "a percentage as a fraction"
    )


def test_trainings_cannot_be_compared():
    assert refusal(ACCURACY, compared=["final_loss"]) == (
        "ab_compare('final_loss') names a number of the training, of which each arm has one, so that nothing can be "
        "tested: judge it with quality_target, or compare on a metric"
    )


def test_a_metric_of_the_same_name_goes_first():
    own = MetricFacts(name="final_loss", kind="bounded", low=0, high=10)

    assert refusals_for(own, targets=["p95(final_loss) <= 9"], compared=["final_loss"]) == (own,)
    assert "lies between 0 and 10" in refusal(own, targets=["final_loss <= 11"])


def test_what_a_function_scores_by_itself_may_have_any_name():
    assert refusals_for(targets=["p95(final_loss) <= 9"], compared=["final_loss"], open_metrics=True) == ()


def test_a_training_alone_may_be_judged():
    assert [refusal.name for refusal in refusals_for(targets=["final_loss <= 0.5"])] == ["passed"]


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


SHORT = summarise_training([2.0, 1.0, 1.0], [3.0, 1.0, 1.0])


def inputs_with_target(target: str):
    """Inputs of an experiment whose candidate was trained, with one target."""
    inputs = inputs_of(arm(a=[1.0, 0.0]), arm(a=[1.0, 0.0]), targets=[target])
    candidate, baseline = inputs.plan.arms
    arms = (dataclasses.replace(candidate, training=SHORT), baseline)
    return dataclasses.replace(inputs, plan=dataclasses.replace(inputs.plan, arms=arms))


def test_without_a_known_training_there_is_nothing_to_show():
    assert training.compute(inputs_of(arm(a=[1.0]))) is None


@pytest.mark.parametrize(("target", "notes"), [("loss_reduction >= 0.4", 1), ("a >= 0.4", 0)])
def test_a_target_on_a_training_is_called_one_of_many(target, notes):
    result = training.compute(inputs_with_target(target))
    view = training.view(result, ())

    assert [note.text for note in view.notes] == notes * [
        "v2 was trained once, in 3 steps: another seed may give other numbers"
    ]
    assert to_plain(view.document) == {"v2": {
        "training_steps": 3, "first_loss": 2.0, "final_loss": 1.0, "loss_reduction": 0.5, "convergence_steps": 2,
        "largest_gradient_norm": 3.0, "gradient_norms_finite": True,
    }}  # fmt: skip
