"""The loss of whole sequences: one ratio for each, and the gradient of every token's own log-probability."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from tiny_model import tiny_engine

from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.losses import LOSSES

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
    return {name: one[at] for name, one in inputs.items()}


@settings(max_examples=choose_examples(40))
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(0, 2**32))
def test_it_is_the_published_formula_sequence_by_sequence(lengths, seed):
    logprobs, inputs = drawn(lengths, seed)
    loss, derivative, outputs, _ = GSPO(logprobs, inputs, CLIP, lengths)

    ends = np.cumsum(lengths)
    places = [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    wanted = [one for at in places for one in plainly(logprobs[at], part(inputs, at))]
    np.testing.assert_allclose(outputs["elementwise_loss"], wanted, rtol=1e-12)
    assert loss == pytest.approx(sum(wanted), rel=1e-12)
    for at in places:
        ahead, behind = (
            np.array(plainly(logprobs[at], part(inputs, at), moved=np.full(at.stop - at.start, step)))
            for step in (1e-6, -1e-6)
        )
        np.testing.assert_allclose(derivative[at], (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-8)


def test_torch_finds_the_same():
    torch = pytest.importorskip("torch")
    logprobs, inputs = drawn([12], seed=5)
    target = torch.tensor(logprobs, requires_grad=True)
    reference, advantages, mask = (
        torch.tensor(inputs[name]) for name in ("logprobs", "advantages", "sequence_ratio_mask")
    )
    mean = (target.detach() - reference)[mask != 0].mean()
    ratio = torch.exp(mean + target - target.detach())
    loss = -torch.minimum(ratio * advantages, ratio.clamp(0.9, 1.1) * advantages).sum()
    loss.backward()
    found, derivative, _, _ = GSPO(logprobs, inputs, CLIP, [12])

    assert found == pytest.approx(loss.item(), rel=1e-12)
    np.testing.assert_allclose(derivative, target.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_a_sequence_is_judged_by_itself_whatever_stands_beside_it():
    trainer = tiny_engine().trainer(LoraSpec(rank=2))
    data = []
    for length in (5, 9):
        _, inputs = drawn([length], seed=length)
        tokens = np.arange(length) + 3
        data.append(Datum(tokens.tolist(), {**inputs, "target_tokens": tokens + 1}))
    together = trainer.forward_backward(data, "gspo", CLIP)
    alone = [trainer.forward_backward([one], "gspo", CLIP) for one in data]

    assert together.loss == pytest.approx(sum(one.loss for one in alone), rel=1e-5)
    for name, gradient in together.gradients.items():
        np.testing.assert_allclose(gradient, sum(one.gradients[name] for one in alone), rtol=2e-4, atol=1e-6)


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
def test_what_it_needs_is_told(changes, config, sentence):
    logprobs, inputs = drawn([3], seed=0)
    given_inputs = {name: one for name, one in (inputs | changes).items() if one is not None}
    with pytest.raises(ValueError, match=sentence):
        GSPO(logprobs, given_inputs, config, [3])
