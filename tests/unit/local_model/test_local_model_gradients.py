"""Gradients are exact: against central differences in double precision, and against torch where there is one."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_model import SHAPE, tiny_data, tiny_weights

from base_model.gradients import Batch, log_likelihood, loss_and_gradients, next_token_batch
from pytest_crucible.local_model.checkpoints import Adapter, LoraSpec
from pytest_crucible.local_model.config import Shape, Weights
from pytest_crucible.local_model.losses import find_loss
from pytest_crucible.local_model.model import Folded
from pytest_crucible.local_model.training import train

STEP = 1e-6
NAMES = list(SHAPE.of_weights)
SPEC = LoraSpec(rank=3, seed=1)
FACTORS = list(SPEC.of_factors(SHAPE))


def a_batch(rows: int = 3, positions: int = 90, seed: int = 0) -> Batch:
    """Longer than a block of attention; a third of the positions counts, each with its own weight."""
    random = np.random.default_rng(seed)
    size = (rows, positions)
    tokens, targets = random.integers(0, SHAPE.vocabulary, (2, *size))
    return Batch(tokens, targets, random.random(size) * (random.random(size) < 0.3))


def direction(size: tuple[int, ...], seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size)


def an_adapter(dtype: type[np.floating] = np.float64) -> Adapter:
    """An adapter that already changes something: B is not 0."""
    random = np.random.default_rng(3)
    factors = Adapter.initial(SPEC, SHAPE).factors
    return Adapter(
        SPEC, {name: (array + 0.02 * random.normal(size=array.shape)).astype(dtype) for name, array in factors.items()}
    )


@pytest.fixture(scope="module")
def weights() -> Weights:
    return tiny_weights(dtype=np.float64)


@pytest.fixture(scope="module")
def gradients(weights) -> Weights:
    return loss_and_gradients(weights, SHAPE, a_batch())[1]


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_of_every_weight_is_its_central_difference(weights, gradients, name):
    along = direction(weights[name].shape)

    ahead, behind = (
        log_likelihood({**weights, name: weights[name] + step * along}, SHAPE, a_batch()) for step in (STEP, -STEP)
    )

    assert (gradients[name] * along).sum() == pytest.approx(-(ahead - behind) / (2 * STEP), rel=2e-6, abs=1e-6)


def test_there_is_a_gradient_for_every_weight_and_no_other(weights, gradients):
    assert {name: array.shape for name, array in gradients.items()} == SHAPE.of_weights


def train_adapter(adapter: Adapter, weights: Weights, *, backwards: bool = True):
    folded = Folded.of(adapter.merge_into(weights), SHAPE)
    loss = find_loss("cross_entropy")
    return train(adapter, weights, folded, SHAPE, tiny_data(length=80), loss, {}, backwards=backwards)


@pytest.fixture(scope="module")
def adapter_gradients(weights) -> Weights:
    return train_adapter(an_adapter(), weights).gradients


@pytest.mark.parametrize("name", FACTORS)
def test_the_gradient_of_every_factor_is_its_central_difference(weights, adapter_gradients, name):
    adapter = an_adapter()
    along = direction(adapter.factors[name].shape)

    ahead, behind = (
        train_adapter(
            Adapter(SPEC, {**adapter.factors, name: adapter.factors[name] + step * along}), weights, backwards=False
        ).loss
        for step in (STEP, -STEP)
    )

    assert (adapter_gradients[name] * along).sum() == pytest.approx((ahead - behind) / (2 * STEP), rel=2e-6, abs=1e-6)


def test_padding_changes_nothing(weights):
    rows = [[5, 6, 7, 8, 9], [3, 4], [1, 2, 3]]

    together = loss_and_gradients(weights, SHAPE, next_token_batch(rows, pad=SHAPE.vocabulary - 2))
    alone = [loss_and_gradients(weights, SHAPE, next_token_batch([row], pad=0)) for row in rows]

    assert together[0] == pytest.approx(sum(loss for loss, _ in alone), rel=1e-12)
    for name in NAMES:
        np.testing.assert_allclose(
            together[1][name], sum(gradients[name] for _, gradients in alone), rtol=1e-9, atol=1e-12
        )


def test_a_position_cannot_see_what_comes_after_it(weights):
    batch = a_batch()
    changed = batch.tokens.copy()
    changed[:, 50:] = 7
    early = np.where(np.arange(90) < 50, batch.weights, 0)

    losses = [log_likelihood(weights, SHAPE, Batch(tokens, batch.targets, early)) for tokens in (batch.tokens, changed)]

    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


@pytest.mark.parametrize("names", [NAMES, FACTORS])
def test_single_precision_is_close_to_double(weights, gradients, adapter_gradients, names):
    single = {name: array.astype(np.float32) for name, array in weights.items()}
    if names is NAMES:
        computed, exact = loss_and_gradients(single, SHAPE, a_batch())[1], gradients
    else:
        computed, exact = train_adapter(an_adapter(np.float32), single).gradients, adapter_gradients

    for name in names:
        assert computed[name].dtype == np.float32
        assert np.abs(computed[name] - exact[name]).max() < 1e-4 * np.abs(exact[name]).max()


def test_a_batch_that_counts_nothing_is_refused(weights):
    batch = a_batch()

    with pytest.raises(ValueError, match="no position"):
        loss_and_gradients(weights, SHAPE, Batch(batch.tokens, batch.targets, 0 * batch.weights))


def test_a_row_beyond_the_context_is_refused(weights):
    with pytest.raises(ValueError, match="a row of 161 tokens is longer than the context of 160"):
        loss_and_gradients(weights, SHAPE, a_batch(positions=161))


def test_a_batch_of_unequal_parts_is_refused():
    batch = a_batch()

    with pytest.raises(ValueError, match="must be of one shape"):
        Batch(batch.tokens, batch.targets[:, :-1], batch.weights)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("names", [NAMES, FACTORS])
def test_torch_finds_the_same(weights, dtype, names):
    torch = pytest.importorskip("torch")
    arguments = {name: array.astype(dtype) for name, array in weights.items()}
    adapter = an_adapter(np.dtype(dtype).type)
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in (arguments | adapter.factors).items()}
    if names is NAMES:
        batch = a_batch()
        loss, computed = loss_and_gradients(arguments, SHAPE, batch)
        used = {name: leaves[name] for name in NAMES} | {"unembedding": leaves["embedding"].T}
        expected = _torch_loss(torch, used, SHAPE, batch.tokens, batch.targets, batch.weights)
    else:
        result = train_adapter(adapter, arguments)
        loss, computed = result.loss, result.gradients
        used = _torch_merged(leaves, adapter.spec)
        expected = sum(
            _torch_loss(torch, used, SHAPE, [row.tokens], [row.inputs["target_tokens"]], [row.inputs["weights"]])
            for row in tiny_data(length=80)
        )
    expected.backward()

    assert loss == pytest.approx(expected.item(), rel=1e-5)
    worst = max(_relative(computed[name], leaves[name].grad.numpy()) for name in names)
    print(f"worst relative difference of {len(names)} gradients in {dtype}: {worst:.1e}")
    assert worst < (1e-4 if dtype == "float32" else 1e-10)


def _relative(computed: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(computed - expected).max() / np.abs(expected).max())


def _torch_merged(leaves, spec: LoraSpec):
    merged = {name: leaves[name].detach() for name in NAMES}
    merged["unembedding"] = leaves["embedding"].detach().T
    for name in spec.matrices(SHAPE):
        merged[name] = merged[name] + spec.scale * leaves[f"{name}.A"] @ leaves[f"{name}.B"]
    return merged


def _torch_loss(torch, weights, shape: Shape, tokens, targets, counted):
    """The model written once more, as plainly as torch allows."""
    x = weights["embedding"][torch.as_tensor(np.array(tokens))]
    rows, positions, width = x.shape

    def norm(values, gain):
        return values * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + 1e-6) * gain

    pairs = shape.head // 2
    angles = torch.arange(positions)[:, None] * 10_000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    def rotate(values):
        even, odd = values[..., 0::2], values[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def heads(values):
        return values.view(rows, positions, shape.heads, shape.head).transpose(1, 2)

    for layer in range(shape.layers):
        own = {name.rpartition(".")[2]: array for name, array in weights.items() if name.startswith(f"layers.{layer}.")}
        query, key, value = (norm(x, own["attention_norm"]) @ own["qkv"]).split(width, -1)
        before = torch.cat([key[:, :1], key[:, :-1]], 1)
        key = key + own["smear"] * (before - key)
        scores = rotate(heads(query)) @ rotate(heads(key)).transpose(2, 3) / shape.head**0.5
        future = torch.ones(positions, positions, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, -torch.inf).softmax(-1) @ heads(value)
        x = x + mixed.transpose(1, 2).reshape(rows, positions, width) @ own["out"]
        x = x + torch.relu(norm(x, own["mlp_norm"]) @ own["up"]).pow(2) @ own["down"]
    logprobs = (norm(x, weights["norm"]) @ weights["unembedding"]).log_softmax(-1)
    chosen = logprobs.gather(2, torch.as_tensor(np.array(targets))[..., None])[..., 0]
    return -(chosen * torch.as_tensor(np.array(counted)).to(x.dtype)).sum()
