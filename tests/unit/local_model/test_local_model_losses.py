"""Losses are what their formulas say, and so are their derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tiny_model import SHAPE, tiny_engine

from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.losses import LOSSES, find_loss

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


FORMULAS = {one.__name__: one for one in (cross_entropy, importance_sampling, ppo, cispo, dro)}


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
def test_what_is_set_counts(name, config, settings):
    loss, *_ = LOSSES[name](LOGPROBS, POLICY, config)

    assert loss == pytest.approx(sum(by_formula(name, **settings)), rel=1e-12)
    assert loss != pytest.approx(sum(by_formula(name)), rel=1e-6)


def test_thresholds_may_differ_by_position():
    thresholds = {"clip_low_threshold": np.full(COUNT, 0.5), "clip_high_threshold": np.full(COUNT, 1.5)}

    by_position, *_ = LOSSES["ppo"](LOGPROBS, POLICY | thresholds)

    assert by_position == pytest.approx(sum(by_formula("ppo", low=0.5, high=1.5)), rel=1e-12)


def test_clipping_stops_the_gradient_where_it_would_go_too_far():
    inputs = {"logprobs": np.log([0.1, 0.1, 0.4, 0.4]), "advantages": np.array([1.0, -1.0, 1.0, -1.0])}

    _, derivative, _, _ = LOSSES["ppo"](np.log([0.2, 0.2, 0.2, 0.2]), inputs)

    assert derivative.tolist() == pytest.approx([0.0, 2.0, -0.5, 0.0])


def test_an_impossible_target_that_does_not_count_is_no_loss():
    loss, derivative, _, _ = LOSSES["cross_entropy"](np.array([-np.inf, -1.0]), {"weights": np.array([0.0, 1.0])})

    assert (loss, derivative.tolist()) == (1.0, [0.0, -1.0])


def test_an_unknown_loss_is_refused_with_those_that_there_are():
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
def test_on_the_policys_own_samples_every_policy_loss_pulls_the_same_way(name):
    trainer = tiny_engine().trainer(LoraSpec(rank=2))
    data = policy_data(trainer)
    weighted = [
        Datum(one.tokens, {"target_tokens": one.inputs["target_tokens"], "weights": one.inputs["advantages"]})
        for one in data
    ]

    found = trainer.forward_backward(data, name).gradients
    plain = trainer.forward_backward(weighted, "cross_entropy").gradients

    for part in plain:
        np.testing.assert_allclose(
            found[part], plain[part], rtol=2e-3, atol=1e-4 * np.abs(plain["layers.0.up.B"]).max()
        )
