"""Adam is Adam: against its definition written out number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.local_model.losses import Adam, AdamParams

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
    before = {name: one.copy() for name, one in values.items()}
    gradients = [{name: random.normal(size=one.shape) for name, one in values.items()} for _ in range(5)]

    for one in gradients:
        adam.step(values, one, params)

    for name in values:
        expected = [
            reference(value, [one[name].flat[at] for one in gradients], params)
            for at, value in enumerate(before[name].flat)
        ]
        np.testing.assert_allclose(values[name].ravel(), expected, rtol=1e-9, atol=1e-12)
    assert adam.steps == 5


def test_decay_is_decoupled_from_the_gradient():
    values = {"x": np.array([2.0, -4.0])}

    Adam().step(values, {"x": np.zeros(2)}, AdamParams(learning_rate=0.1, weight_decay=0.5))

    assert values["x"].tolist() == pytest.approx([1.9, -3.8])


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

    assert {one["x"].dtype for one in (values, adam.first, adam.second)} == {np.dtype("float32")}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_gradients_that_are_not_finite_move_nothing(value):
    values, adam = {"a": np.ones(2), "b": np.ones(1)}, Adam()
    adam.step(values, {"a": np.ones(2), "b": np.ones(1)}, AdamParams())
    before = [one.copy() for one in (*values.values(), *adam.first.values(), *adam.second.values())]

    with pytest.raises(ValueError, match="the gradients are not finite"):
        adam.step(values, {"a": np.ones(2), "b": np.array([value])}, AdamParams())

    after = (*values.values(), *adam.first.values(), *adam.second.values())
    assert adam.steps == 1
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


def test_no_gradient_at_all_moves_nothing():
    values = {"x": np.ones(2)}

    metrics = Adam().step(values, {"x": np.zeros(2)}, AdamParams(grad_clip_norm=1.0))

    assert (values["x"].tolist(), metrics) == ([1.0, 1.0], {"grad_norm:mean": 0.0})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"learning_rate": -1e-4}, "learning_rate must be 0 or more, not -0.0001"),
        ({"learning_rate": math.nan}, "learning_rate must be 0 or more, not nan"),
        ({"weight_decay": math.inf}, "weight_decay must be 0 or more"),
        ({"beta2": 1.0}, "beta1 and beta2 must be below 1, not 0.9 and 1.0"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        AdamParams(**settings)
