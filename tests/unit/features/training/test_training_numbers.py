"""Targets on a training: their names, one number without an interval, a verdict that selection does not touch, their section."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_builders import analysis_inputs, arm, inputs_of

from pytest_crucible import SpecError
from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.features.training import numbers as training
from pytest_crucible.features.training.log import summarise_training
from pytest_crucible.gate import decide_verdicts
from pytest_crucible.plan.design import plan_metrics
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Arm, ArmTraining, Contrast, MetricFacts, TrainingResult
from pytest_crucible.records.serialize import to_plain

ACCURACY = MetricFacts(name="accuracy", kind="binary", low=0, high=1)
OWN = MetricFacts(name="final_loss", kind="bounded", low=0, high=10)
"""A metric of the suite with the name of a training's number."""


def planned_metrics(*facts, targets=(), contrasts=(), open_metrics=False):
    comparisons = [Contrast(metric=name, baseline="") for name in contrasts]
    return plan_metrics(facts, list(map(parse_target, targets)), comparisons, open_metrics=open_metrics)


def refusal(*facts, **target) -> str:
    with pytest.raises(SpecError) as caught:
        planned_metrics(*facts, **target)
    return str(caught.value)


@pytest.mark.parametrize("name", TrainingResult.__dataclass_fields__)
def test_every_number_of_a_training_can_have_a_target(name):
    assert planned_metrics(ACCURACY, targets=[f"{name} <= 1"]) == (ACCURACY,)


def misspelt(text: str, name: str) -> tuple[str, str]:
    return text, f"names metric {text.split()[0]!r}: did you mean {name!r}? this experiment has accuracy"


def statistic(text: str, plain: str) -> tuple[str, str]:
    name = plain.split()[0]
    return text, f"asks for a statistic of {name!r}, which is one number of the candidate's training: write {plain!r}"


def impossible(text: str, low: str, high: str) -> tuple[str, str]:
    name, _, value = text.split()
    sentence = (
        f"asks for {value}, but {name!r} lies between {low} and {high}: write a value in that range, a percentage as a "
    )
    return text, f"{sentence}fraction"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        misspelt("loss_reducton >= 0.95", "loss_reduction"),
        misspelt("reduction >= 0.95", "loss_reduction"),
        misspelt("converged_steps < 500", "convergence_steps"),
        misspelt("gradient_norm_finite == 1", "gradient_norms_finite"),
        misspelt("train_steps < 500", "training_steps"),
        statistic("p95(final_loss) <= 0.5", "final_loss <= 0.5"),
        statistic("count(training_steps) < 500", "training_steps < 500"),
        statistic("rate(final_loss <= 0.5) >= 0.9", "final_loss <= 0.5"),
        impossible("loss_reduction >= 95", "-inf", "1"),
        impossible("training_steps < 0", "1", "inf"),
        impossible("gradient_norms_finite == 2", "0", "1"),
        impossible("largest_gradient_norm <= -1", "0", "inf"),
    ],
)
def test_invalid_targets_are_refused(text, sentence):
    assert refusal(ACCURACY, targets=[text]) == f"target {text!r} {sentence}"


def test_trainings_cannot_be_compared():
    assert refusal(ACCURACY, contrasts=["final_loss"]) == (
        "ab_compare('final_loss') names a number of the training, of which each arm has one, so that nothing can be "
        "tested: judge it with quality_target, or compare on a metric"
    )


def test_a_metric_of_the_same_name_goes_first():
    assert planned_metrics(OWN, targets=["p95(final_loss) <= 9"], contrasts=["final_loss"]) == (OWN,)
    assert "lies between 0 and 10" in refusal(OWN, targets=["final_loss <= 11"])


def test_scores_of_a_function_may_have_any_name():
    assert planned_metrics(targets=["p95(final_loss) <= 9"], contrasts=["final_loss"], open_metrics=True) == ()


def test_a_suite_may_have_a_target_on_its_training_alone():
    assert [metric.name for metric in planned_metrics(targets=["final_loss <= 0.5"])] == ["passed"]


# -- one training ---------------------------------------------------------------------------------------------------

TRAINED = Arm(
    name="v2", role="candidate", adapter="local:v2", identity="2",
    training=summarise_training((2.0, 1.0, 0.5, 0.1, 0.1, 0.1), [3.0, 1.0, 1, 1, 1, 1]),
)  # fmt: skip
RECORDED = Arm(name="old", role="candidate", adapter="recorded:old", identity="1")


def decide(*targets: str, candidate=TRAINED, scores=None, mode="point", finished=True, strict=False, **facts):
    """Return the analysis of two samples, and its verdicts."""
    inputs = analysis_inputs(arm(**(scores or {"m": [1.0, 0.0]})), **facts)
    parsed = tuple(parse_target(text, decide=mode) for text in targets)
    inputs = replace(inputs, plan=replace(inputs.plan, arms=(candidate,), targets=parsed), finished=finished)
    analysis = analyse(inputs, score_table(inputs), alpha=0.05, family_size=0)
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
@pytest.mark.parametrize("mode", ["point", "bound"])
def test_a_number_of_the_training_decides(text, state, value, mode):
    analysis, (verdict,) = decide(text, mode=mode, strict=mode == "bound")

    estimate = analysis.targets[0].estimate
    assert (verdict.state, verdict.proven, verdict.suite_error) == (state, False, False)
    assert estimate.value == pytest.approx(value)
    assert type(estimate.value) is type(value)
    assert (estimate.n, estimate.interval, estimate.statistic) == (1, None, "training")
    assert verdict.reason == "another seed may give another number"


@pytest.mark.parametrize(
    ("text", "candidate", "reason"),
    [
        ("convergence_steps < 9", (1.0, 2.0), "the loss was not reduced: 1 to 2"),
        ("convergence_steps < 9", (4.0, 3.0, 2.0, 1.0), "the loss was still changing in the last fifth of 4 steps"),
        ("loss_reduction >= 0.5", (-1.0, -2.0), "the first loss is -1: no share of it can be told"),
        (
            "loss_reduction >= 0.95",
            RECORDED,
            "nothing is known of a training of old (recorded): there is one where a recipe made the adapter, or lineage.json "
            "lies beside its checkpoint",
        ),
    ],
)
def test_an_unknown_number_leaves_the_target_undecided(text, candidate, reason):
    if candidate is not RECORDED:
        candidate = replace(TRAINED, training=summarise_training(candidate, [1.0]))
    analysis, (verdict,) = decide(text, candidate=candidate)

    assert (verdict.state, verdict.suite_error, verdict.reason) == ("undecided", False, reason)
    assert analysis.targets[0].estimate.n == (candidate is not RECORDED)


def test_a_selection_or_an_interruption_does_not_change_the_verdict():
    for facts in ({"planned": 9}, {"finished": False}, {"scores": {"m": ["lost", 1.0]}}):
        assert decide("final_loss <= 0.5", **facts)[1][0].state == "met"


def test_scores_and_declared_metrics_of_the_same_name_go_first():
    analysis, (verdict,) = decide("final_loss >= 5", scores={"final_loss": [7.0, 9.0]})
    assert (verdict.state, analysis.targets[0].estimate.value, analysis.targets[0].estimate.n) == ("met", 8.0, 2)

    (verdict,) = decide("final_loss <= 5", metrics=[OWN], open_metrics=False)[1]
    assert verdict.state == "undecided"
    assert "training" not in verdict.reason


def test_targets_keep_their_order():
    targets = ("final_loss <= 1", "score >= 0", "training_steps < 9")

    assert tuple(entry.subject for entry in decide(*targets, scores={"score": [1.0, 1.0]})[1]) == targets


# -- several trainings ----------------------------------------------------------------------------------------------


def trained_arm(*finals: float) -> Arm:
    """Return an arm that was trained once for each final loss, from a first one of 2."""
    results = [summarise_training([2.0, final], [3.0, 1.0]) for final in finals]
    trainings = [
        ArmTraining(name=f"v2-seed{seed}", seed=seed, identity=str(seed), result=result)
        for seed, result in enumerate(results)
    ]
    return replace(TRAINED, training=None, trainings=tuple(trainings))


THREE = trained_arm(0.02, 0.04, 0.08)


def test_of_several_trainings_the_geometric_mean_has_an_interval_over_trainings():
    analysis, (verdict,) = decide("loss_reduction >= 0.9", candidate=THREE)

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
def test_only_numbers_that_vary_from_seed_to_seed_need_a_proof(text, strict, state, proven):
    (verdict,) = decide(text, candidate=THREE, strict=strict)[1]

    assert (verdict.state, verdict.proven) == (state, proven)


def test_negative_losses_are_averaged_as_they_are_and_an_interval_ends_where_the_number_does():
    negative = decide("final_loss <= 5", candidate=trained_arm(-1.0, 2.0, 5.0))[0].targets[0].estimate
    bounded = decide("loss_reduction >= 0.5", candidate=trained_arm(0.0, 0.1, 1.0))[0].targets[0].estimate

    assert negative.value == 2.0
    assert negative.method == bounded.method == "t over 3 trainings"
    # R: t.test(c(-1, 2, 5))$conf.int
    assert (negative.interval.low, negative.interval.high) == pytest.approx((-5.452413, 9.452413))
    assert bounded.interval.high == 1.0


@pytest.mark.parametrize(
    ("finals", "facts", "method", "reason"),
    [
        ((0.02, 0.04), {}, "geometric mean of 2 trainings", "another seed may give another number: 3 trainings have an interval"),
        ((0.02, 0.04, 0.08), {"fixed": ("trainings",)}, "geometric mean of 3 trainings", "of these 3 trainings alone"),
        ((0.02, 0.02, 0.02), {}, "mean of 3 trainings", "another seed may give another number"),
    ],
)  # fmt: skip
def test_without_an_interval_the_mean_decides_as_the_number_of_one_training_does(finals, facts, method, reason):
    analysis, (verdict,) = decide("loss_reduction >= 0.9", candidate=trained_arm(*finals), strict=True, **facts)

    estimate = analysis.targets[0].estimate
    assert (estimate.interval, estimate.n, estimate.method) == (None, len(finals), method)
    assert (verdict.state, verdict.proven, verdict.reason) == ("met", False, reason)


def test_a_share_of_trainings_has_no_interval():
    first, *others = THREE.trainings
    broken = replace(first, result=replace(first.result, gradient_norms_finite=False))
    analysis, (verdict,) = decide("gradient_norms_finite == 1", candidate=replace(THREE, trainings=(broken, *others)))

    assert analysis.targets[0].estimate.value == pytest.approx(2 / 3)
    assert (verdict.state, analysis.targets[0].estimate.interval) == ("missed", None)


def test_a_number_that_one_training_lacks_leaves_the_target_undecided():
    (verdict,) = decide("convergence_steps < 9", candidate=trained_arm(0.02, 4.0, 0.08))[1]

    assert verdict.state == "undecided"
    assert verdict.reason == "the loss was still changing in the last fifth of 2 steps"


# -- the section ----------------------------------------------------------------------------------------------------


def test_without_a_known_training_there_is_no_section():
    assert training.compute(inputs_of(arm(a=[1.0]))) is None


@pytest.mark.parametrize(("target", "count"), [("loss_reduction >= 0.4", 1), ("a >= 0.4", 0)])
def test_a_target_on_one_training_has_a_warning(target, count):
    inputs = inputs_of(arm(a=[1.0, 0.0]), arm(a=[1.0, 0.0]), targets=[target])
    candidate, baseline = inputs.plan.arms
    trained = replace(candidate, training=summarise_training([2.0, 1.0, 1.0], [3.0, 1.0, 1.0]))
    view = training.view(training.compute(replace(inputs, plan=replace(inputs.plan, arms=(trained, baseline)))), ())

    sentence = "v2 was trained once, in 3 steps: another seed may give other numbers"
    assert [note.text for note in view.notes] == count * [sentence]
    assert to_plain(view.document) == {"v2": {
        "training_steps": 3, "first_loss": 2.0, "final_loss": 1.0, "loss_reduction": 0.5, "convergence_steps": 2,
        "largest_gradient_norm": 3.0, "gradient_norms_finite": True,
    }}  # fmt: skip
