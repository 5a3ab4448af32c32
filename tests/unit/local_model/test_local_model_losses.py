"""Losses and Adam are what their formulas say, and so are the derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from tiny_model import SHAPE, tiny_engine

from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.losses import LOSSES, Adam, AdamParams, NotFinite, find_loss

RANDOM = np.random.default_rng(8)
COUNT = 200
LOGPROBS = -RANDOM.exponential(1.5, COUNT)
WEIGHTS = RANDOM.uniform(-1, 2, COUNT)
POLICY = {"logprobs": LOGPROBS + RANDOM.normal(0, 0.8, COUNT), "advantages": RANDOM.normal(0, 1, COUNT)}
INPUTS = {name: {"weights": WEIGHTS} if name == "cross_entropy" else POLICY for name in LOSSES}


def cross_entropy(p, weight, **_):
    return -weight * math.log(p)


def importance_sampling(p, q, advantage, **_):
    return -p / q * advantage


def ppo(p, q, advantage, low=0.8, high=1.2, **_):
    return -min(p / q * advantage, min(max(p / q, low), high) * advantage)


def cispo(p, q, advantage, low=0.0, high=4.0, **_):
    return -min(max(p / q, low), high) * math.log(p) * advantage


def dro(p, q, advantage, beta=0.05, **_):
    return -(math.log(p) * advantage - beta / 2 * math.log(p / q) ** 2)


FORMULAS = {formula.__name__: formula for formula in (cross_entropy, importance_sampling, ppo, cispo, dro)}


def by_formula(name, logprobs=LOGPROBS, **settings):
    rows = zip(logprobs, WEIGHTS, POLICY["logprobs"], POLICY["advantages"], strict=True)
    return [
        FORMULAS[name](math.exp(p), weight=weight, q=math.exp(q), advantage=advantage, **settings)
        for p, weight, q, advantage in rows
    ]


def test_every_loss_of_single_positions_has_its_formula_here():
    assert set(FORMULAS) == {name for name, loss in LOSSES.items() if not loss.of_sequences}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_loss_is_its_published_formula(name):
    loss, _, outputs, metrics = LOSSES[name](LOGPROBS, INPUTS[name])

    np.testing.assert_allclose(outputs["elementwise_loss"], by_formula(name), rtol=1e-12)
    assert loss == pytest.approx(sum(by_formula(name)), rel=1e-12)
    assert metrics == {"loss:sum": loss}
    assert outputs["logprobs"] is LOGPROBS


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - {"cispo"}))
def test_the_derivative_is_the_central_difference(name):
    _, derivative, _, _ = LOSSES[name](LOGPROBS, INPUTS[name])

    ahead, behind = (np.array(by_formula(name, LOGPROBS + step)) for step in (1e-6, -1e-6))
    np.testing.assert_allclose(derivative, (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-8)


def test_the_derivative_of_cispo_takes_the_clipped_ratio_as_constant():
    _, derivative, _, _ = LOSSES["cispo"](LOGPROBS, POLICY, {"clip_low_threshold": 0.5, "clip_high_threshold": 1.5})

    ratio = np.clip(np.exp(LOGPROBS - POLICY["logprobs"]), 0.5, 1.5)
    np.testing.assert_allclose(derivative, -ratio * POLICY["advantages"], rtol=1e-12)
    assert {0.5, 1.5} <= set(ratio.tolist())


@pytest.mark.parametrize(
    ("name", "config", "settings"),
    [
        ("ppo", {"clip_low_threshold": 0.5, "clip_high_threshold": 1.5}, {"low": 0.5, "high": 1.5}),
        ("ppo", {"clip_low_threshold": 0.9}, {"low": 0.9}),
        ("cispo", {"clip_high_threshold": 1.1}, {"high": 1.1}),
        ("dro", {"beta": 2.0}, {"beta": 2.0}),
    ],
)
def test_settings_change_the_loss(name, config, settings):
    loss, *_ = LOSSES[name](LOGPROBS, POLICY, config)

    assert loss == pytest.approx(sum(by_formula(name, **settings)), rel=1e-12)
    assert loss != pytest.approx(sum(by_formula(name)), rel=1e-6)
    if "low" in settings and "high" in settings:
        by_position = {name: np.full(COUNT, value) for name, value in config.items()}
        assert LOSSES[name](LOGPROBS, POLICY | by_position)[0] == pytest.approx(loss, rel=1e-12)


def test_clipping_stops_the_gradient_where_it_would_go_too_far():
    inputs = {"logprobs": np.log([0.1, 0.1, 0.4, 0.4]), "advantages": np.array([1.0, -1.0, 1.0, -1.0])}

    _, derivative, _, _ = LOSSES["ppo"](np.log([0.2, 0.2, 0.2, 0.2]), inputs)

    assert derivative.tolist() == pytest.approx([0.0, 2.0, -0.5, 0.0])


def test_an_impossible_target_that_does_not_count_is_no_loss():
    loss, derivative, _, _ = LOSSES["cross_entropy"](np.array([-np.inf, -1.0]), {"weights": np.array([0.0, 1.0])})

    assert (loss, derivative.tolist()) == (1.0, [0.0, -1.0])


def test_an_unknown_loss_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown loss 'grpo'; use one of cross_entropy, .*, ppo, cispo, dro, gspo"):
        find_loss("grpo")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "stable_reinforce",
            r"needs what only the hosted service records while it samples .* its formula is not published \(.*\)",
        ),
        ("custom", "was traced for the hosted service: forward_backward_custom with a function works here as well"),
    ],
)
def test_a_loss_that_only_tinker_has_says_why(name, why):
    with pytest.raises(ValueError, match=f"loss '{name}' .*{why}; use one of cross_entropy, "):
        find_loss(name)


@pytest.mark.parametrize(
    ("name", "inputs", "config", "sentence"),
    [
        ("ppo", {"logprobs": POLICY["logprobs"]}, {}, "ppo needs logprobs and advantages; advantages is missing"),
        ("cross_entropy", {}, {}, "cross_entropy needs weights; weights is missing"),
        ("cross_entropy", {"weights": WEIGHTS, "mask": WEIGHTS}, {}, "cross_entropy does not use mask"),
        ("cross_entropy", {"weights": WEIGHTS[:-1]}, {}, r"weights has shape \(199,\), the targets have \(200,\)"),
        ("dro", POLICY, {"betta": 1.0}, "dro has no setting betta; it has beta"),
        ("cross_entropy", {"weights": WEIGHTS}, {"beta": 1.0}, "cross_entropy has no setting beta; it has nothing"),
    ],
)
def test_wrong_inputs_and_settings_are_refused(name, inputs, config, sentence):
    with pytest.raises(ValueError, match=sentence):
        LOSSES[name](LOGPROBS, inputs, config)


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if loss.counted_by])
def test_positions_that_do_not_count_add_nothing(name):
    """The model is not run to its end there: a loss that had a gradient at such a position would lose it."""
    loss, zeros = LOSSES[name], np.arange(COUNT) % 3 == 0
    inputs = {key: INPUTS[name].get(key, np.ones(COUNT)) for key in loss.needs}
    inputs = {key: np.where(zeros, 0, values) if key in loss.counted_by else values for key, values in inputs.items()}
    config = dict.fromkeys(loss.required, 1.0)

    _, derivative, outputs, _ = loss(LOGPROBS, inputs, config)

    np.testing.assert_array_equal(loss.find_counted(inputs, COUNT), ~zeros)
    assert not derivative[zeros].any()
    assert not outputs["elementwise_loss"][zeros].any()


def policy_data(trainer, change: float = 0.0) -> list[Datum]:
    """Three rows whose `logprobs` are the trainer's own, moved by so much."""
    random = np.random.default_rng(1)
    data = []
    for length in (9, 14, 11):
        tokens = random.integers(0, SHAPE.vocabulary, length + 1)
        own = trainer.engine.sampler().logprobs(tokens.tolist()).logprobs[1:]
        advantages = random.normal(size=length)
        inputs = {"target_tokens": tokens[1:], "logprobs": own + change, "advantages": advantages}
        data.append(Datum(tokens[:-1].tolist(), inputs))
    return data


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "cispo", "dro"])
def test_policy_losses_have_equal_gradients_on_samples_of_the_policy_itself(name):
    trainer = tiny_engine().trainer(LoraSpec(rank=2))
    data = policy_data(trainer)
    weighted = [
        Datum(row.tokens, {"target_tokens": row.inputs["target_tokens"], "weights": row.inputs["advantages"]})
        for row in data
    ]

    result = trainer.forward_backward(data, name).gradients
    plain = trainer.forward_backward(weighted, "cross_entropy").gradients

    for part in plain:
        np.testing.assert_allclose(
            result[part], plain[part], rtol=2e-3, atol=1e-4 * np.abs(plain["layers.0.up.B"]).max()
        )


GSPO = LOSSES["gspo"]
CLIP = {"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}


def drawn(lengths: list[int], seed: int, spread: float = 0.3) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    count = sum(lengths)
    logprobs = -random.exponential(1.5, count)
    mask = (random.random(count) < 0.6).astype(float)
    mask[np.cumsum([0, *lengths[:-1]])] = 1.0  # each sequence has one
    inputs = {
        "logprobs": logprobs + random.normal(0, spread, count),
        "advantages": random.normal(0, 1, count),
        "sequence_ratio_mask": mask,
    }
    return logprobs, inputs


def plainly(logprobs, inputs, low=0.9, high=1.1, *, moved=None) -> list[float]:
    """The published formula for one sequence; `moved` are changes of log p after the ratio was taken."""
    counted = [k for k, mark in enumerate(inputs["sequence_ratio_mask"]) if mark]
    ratio = math.exp(sum(logprobs[k] - inputs["logprobs"][k] for k in counted) / len(counted))
    losses = []
    for k, advantage in enumerate(inputs["advantages"]):
        own = ratio * math.exp(0.0 if moved is None else moved[k])
        losses.append(-min(own * advantage, min(max(own, low), high) * advantage))
    return losses


def part(inputs, at):
    return {name: values[at] for name, values in inputs.items()}


@settings(max_examples=choose_examples(40))
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(0, 2**32))
def test_gspo_is_its_published_formula_for_each_sequence(lengths, seed):
    logprobs, inputs = drawn(lengths, seed)
    loss, derivative, outputs, _ = GSPO(logprobs, inputs, CLIP, lengths)

    ends = np.cumsum(lengths)
    places = [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    expected = [loss for at in places for loss in plainly(logprobs[at], part(inputs, at))]
    np.testing.assert_allclose(outputs["elementwise_loss"], expected, rtol=1e-12)
    assert loss == pytest.approx(sum(expected), rel=1e-12)
    for at in places:
        ahead, behind = (
            np.array(plainly(logprobs[at], part(inputs, at), moved=np.full(at.stop - at.start, step)))
            for step in (1e-6, -1e-6)
        )
        np.testing.assert_allclose(derivative[at], (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-8)


def test_a_sequence_is_judged_by_itself_whatever_stands_beside_it():
    trainer = tiny_engine().trainer(LoraSpec(rank=2))
    data = []
    for length in (5, 9):
        _, inputs = drawn([length], seed=length)
        tokens = np.arange(length) + 3
        data.append(Datum(tokens.tolist(), {**inputs, "target_tokens": tokens + 1}))
    together = trainer.forward_backward(data, "gspo", CLIP)
    alone = [trainer.forward_backward([row], "gspo", CLIP) for row in data]

    assert together.loss == pytest.approx(sum(result.loss for result in alone), rel=1e-5)
    for name, gradient in together.gradients.items():
        np.testing.assert_allclose(gradient, sum(result.gradients[name] for result in alone), rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "config", "sentence"),
    [
        ({}, {}, "gspo needs values for clip_low_threshold and clip_high_threshold"),
        ({}, {"clip_low_threshold": 0.9}, "gspo needs values for clip_high_threshold"),
        ({}, {"beta": 1.0}, "gspo has no setting beta; it has clip_low_threshold, clip_high_threshold"),
        ({"sequence_ratio_mask": np.zeros(3)}, CLIP, "sequence_ratio_mask marks no token of a sequence"),
        ({"sequence_ratio_mask": None}, CLIP, "sequence_ratio_mask is missing"),
    ],
)
def test_invalid_inputs_of_gspo_are_refused(changes, config, sentence):
    logprobs, inputs = drawn([3], seed=0)
    inputs = {name: values for name, values in (inputs | changes).items() if values is not None}
    with pytest.raises(ValueError, match=sentence):
        GSPO(logprobs, inputs, config, [3])


RATES = st.floats(1e-5, 0.5)
SHARES = st.floats(0, 0.999)


def reference(value, gradients, params):
    """Kingma & Ba's algorithm 1, with Loshchilov & Hutter's decay, of one number."""
    first = second = 0.0
    for step, gradient in enumerate(gradients, 1):
        first = params.beta1 * first + (1 - params.beta1) * gradient
        second = params.beta2 * second + (1 - params.beta2) * gradient**2
        ahead = (first / (1 - params.beta1**step)) / (math.sqrt(second / (1 - params.beta2**step)) + params.eps)
        value = value - params.learning_rate * (ahead + params.weight_decay * value)
    return value


@given(RATES, SHARES, SHARES, st.sampled_from([1e-12, 1e-8, 1e-3]), st.floats(0, 0.3), st.integers(0, 99))
def test_steps_are_those_of_the_definition(rate, beta1, beta2, eps, decay, seed):
    params = AdamParams(rate, beta1, beta2, eps, decay)
    random = np.random.default_rng(seed)
    values, adam = {"a": random.normal(size=(2, 3)), "b": random.normal(size=4)}, Adam()
    before = {name: array.copy() for name, array in values.items()}
    gradients = [{name: random.normal(size=array.shape) for name, array in values.items()} for _ in range(5)]

    for gradient in gradients:
        adam.step(values, gradient, params)

    for name in values:
        expected = [
            reference(value, [gradient[name].flat[at] for gradient in gradients], params)
            for at, value in enumerate(before[name].flat)
        ]
        np.testing.assert_allclose(values[name].ravel(), expected, rtol=1e-9, atol=1e-12)
    assert adam.steps == 5


def test_decay_is_decoupled_from_the_gradient():
    values = {"x": np.array([2.0, -4.0])}

    metrics = Adam().step(
        values, {"x": np.zeros(2)}, AdamParams(learning_rate=0.1, weight_decay=0.5, grad_clip_norm=1.0)
    )

    assert values["x"].tolist() == pytest.approx([1.9, -3.8])
    assert metrics == {"grad_norm:mean": 0.0}


@pytest.mark.parametrize(("limit", "scale"), [(0.0, 1), (10.0, 1), (5.0, 1), (2.5, 0.5)])
def test_gradients_are_clipped_together(limit, scale):
    gradients = {"a": np.array([3.0, 0.0]), "b": np.array([[4.0]])}
    values, clipped = {"a": np.zeros(2), "b": np.zeros((1, 1))}, Adam()

    metrics = clipped.step(values, gradients, AdamParams(grad_clip_norm=limit))

    assert metrics == {"grad_norm:mean": 5.0}
    assert clipped.first["a"][0] == pytest.approx(0.1 * 3 * scale)
    assert clipped.second["b"][0, 0] == pytest.approx(0.05 * (4 * scale) ** 2)


def test_single_precision_stays_single():
    values = {"x": np.ones(3, np.float32)}
    adam = Adam()

    adam.step(values, {"x": np.ones(3, np.float32)}, AdamParams(weight_decay=0.1, grad_clip_norm=0.5))

    assert {arrays["x"].dtype for arrays in (values, adam.first, adam.second)} == {np.dtype("float32")}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_gradients_that_are_not_finite_move_nothing(value):
    values, adam = {"a": np.ones(2), "b": np.ones(1)}, Adam()
    adam.step(values, {"a": np.ones(2), "b": np.ones(1)}, AdamParams())
    before = [array.copy() for array in (*values.values(), *adam.first.values(), *adam.second.values())]

    with pytest.raises(ValueError, match="the gradients are not finite"):
        adam.step(values, {"a": np.ones(2), "b": np.array([value])}, AdamParams())

    after = (*values.values(), *adam.first.values(), *adam.second.values())
    assert adam.steps == 1
    assert all((array == other).all() for array, other in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"learning_rate": -1e-4}, "learning_rate must be 0 or more, not -0.0001"),
        ({"learning_rate": math.nan}, "learning_rate must be 0 or more, not nan"),
        ({"weight_decay": math.inf}, "weight_decay must be 0 or more"),
        ({"beta2": 1.0}, "beta1 and beta2 must be below 1, not 0.9 and 1.0"),
    ],
)
def test_invalid_sampling_parameters_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        AdamParams(**settings)


def test_a_step_to_weights_that_are_not_finite_changes_nothing():
    values, adam = {"x": np.array([1.0, 2.0])}, Adam()
    adam.step(values, {"x": np.array([5.0, 1.0])}, AdamParams(learning_rate=0.1))
    before = values["x"].copy(), adam.first["x"].copy(), adam.second["x"].copy()

    with pytest.raises(NotFinite, match="the step made weights that are not finite"):
        adam.step(values, {"x": np.array([1.0, 1.0])}, AdamParams(learning_rate=1e308, weight_decay=1e308))

    assert adam.steps == 1
    for past, value in zip(before, (values["x"], adam.first["x"], adam.second["x"]), strict=True):
        np.testing.assert_array_equal(past, value)
