"""Regularizers: values and gradients against finite differences and torch, and their place in a step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_builders import ROWS, make_recipe, train_recipe

from pytest_crucible.features.training.log import TrainingStopped
from pytest_crucible.features.training.losses import penalise
from pytest_crucible.features.training.regularizers import (
    L1,
    L2,
    Consistency,
    ElasticNet,
    Entropy,
    GradientPenalty,
    KLDivergence,
    Orthogonality,
    ReplyTokens,
    Term,
)
from pytest_crucible.features.training.resumable import pass_digest
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.losses import AdamParams

CASES = [
    L1(0.3), L1(0.3, of="probabilities"), L2(0.3), L2(0.3, of="probabilities", center="mean"), L2(0.3, center=-2.0),
    ElasticNet(0.3, l1_ratio=0.2), ElasticNet(0.3, of="probabilities"), Entropy(0.3, mode="maximise"),
    Entropy(0.3, mode="minimise"), KLDivergence(0.3), KLDivergence(0.3, direction="reverse"),
    KLDivergence(0.3, direction="symmetric"), Consistency(0.3), Consistency(0.3, metric="l1"),
    Consistency(0.3, metric="cosine"), Consistency(0.3, metric="kl"), Orthogonality(0.3),
    GradientPenalty(0.3), GradientPenalty(0.3, target_norm=0.0),
]  # fmt: skip
LOSSES = {"importance_sampling": {}, "ppo": {}, "dro": {"beta": 0.3}}
WITH_LOSSES = [
    (regularizer, loss)
    for regularizer in CASES
    for loss in (LOSSES if isinstance(regularizer, GradientPenalty) else ("importance_sampling",))
]
LENGTHS = (5, 5, 3, 3)
"""Tokens of the rows that count; each row has 2 more that do not."""


def rows(seed: int = 0) -> tuple[list[Datum], list[dict[str, np.ndarray]]]:
    """Rows as policy losses take them, with log-probabilities in double precision."""
    draw, data, outputs = np.random.default_rng(seed), [], []
    for length in LENGTHS:
        counted = np.arange(length + 2) >= 2
        inputs = {
            "target_tokens": draw.integers(0, 9, length + 2),
            "logprobs": draw.uniform(-3, -0.1, length + 2),
            "advantages": np.where(counted, draw.normal(size=length + 2), 0.0),
            "reference_logprobs": draw.uniform(-3, -0.1, length + 2),
        }
        data.append(Datum([1] * (length + 2), inputs))
        # Ratios to the policy that sampled are below and above both thresholds of ppo.
        outputs.append({"logprobs": inputs["logprobs"] + draw.uniform(-0.5, 0.5, length + 2)})
    return data, outputs


def tokens_of(data, outputs, loss="importance_sampling") -> ReplyTokens:
    return ReplyTokens(data, outputs, loss, LOSSES[loss])


def move(outputs, at: int, by: float):
    """The outputs with one counted log-probability changed."""
    ends = np.cumsum(LENGTHS)
    row = int(np.searchsorted(ends, at, side="right"))
    changed = [{"logprobs": output["logprobs"].copy()} for output in outputs]
    changed[row]["logprobs"][2 + at - (ends[row] - LENGTHS[row])] += by
    return changed


@pytest.mark.parametrize(("regularizer", "loss"), WITH_LOSSES, ids=str)
def test_a_derivative_is_that_of_the_value(regularizer, loss):
    data, outputs = rows()
    term = regularizer.evaluate(tokens_of(data, outputs, loss))

    step = 1e-6
    assert term.derivative.shape == (sum(LENGTHS),)
    for at in range(sum(LENGTHS)):
        up, down = (regularizer.evaluate(tokens_of(data, move(outputs, at, by), loss)).value for by in (step, -step))
        assert term.derivative[at] == pytest.approx((up - down) / (2 * step), abs=1e-5), at


def _of_torch(torch, regularizer, loss, logprobs, data):
    """The same terms written with torch, from the formulas of the docstrings."""
    x = logprobs
    if getattr(regularizer, "of", "") == "probabilities":
        x = x.exp()
    reference = torch.tensor(np.concatenate([datum.inputs["reference_logprobs"][2:] for datum in data]))
    parts = torch.split(logprobs, LENGTHS)
    twins = list(zip(parts[::2], parts[1::2], strict=True))
    functional = torch.nn.functional

    def divergence(first, second):
        return (first.exp() * (first - second)).sum()

    match regularizer:
        case L1():
            return x.abs().sum()
        case L2():
            return (x - (x.mean() if regularizer.center == "mean" else regularizer.center)).pow(2).sum()
        case ElasticNet():
            return regularizer.l1_ratio * x.abs().sum() + (1 - regularizer.l1_ratio) * x.pow(2).sum()
        case Entropy():
            return (-(x.exp() * x).sum()) * (1 if regularizer.mode == "minimise" else -1)
        case KLDivergence():
            both = divergence(x, reference), divergence(reference, x)
            return {"forward": both[0], "reverse": both[1], "symmetric": sum(both) / 2}[regularizer.direction]
        case Consistency():
            distances = {
                "l2": lambda first, second: (first - second).pow(2).sum(),
                "l1": lambda first, second: (first - second).abs().sum(),
                "cosine": lambda first, second: 1 - functional.cosine_similarity(first, second, dim=0),
                "kl": lambda first, second: (divergence(first, second) + divergence(second, first)) / 2,
            }
            return sum(distances[regularizer.metric](*both) for both in twins)
        case Orthogonality():
            padded = torch.stack([functional.pad(part, (0, max(LENGTHS) - len(part))) for part in parts])
            gram = functional.normalize(padded, dim=1) @ functional.normalize(padded, dim=1).T
            return (gram - torch.diag(torch.diagonal(gram))).pow(2).sum()
        case GradientPenalty():
            old, advantages = (
                torch.tensor(np.concatenate([datum.inputs[name][2:] for datum in data]))
                for name in ("logprobs", "advantages")
            )
            ratio = (logprobs - old).exp()
            total = {
                "importance_sampling": -(ratio * advantages).sum(),
                "ppo": -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).sum(),
                "dro": -(logprobs * advantages - 0.15 * (logprobs - old).pow(2)).sum(),
            }[loss]
            (gradient,) = torch.autograd.grad(total, logprobs, create_graph=True)
            return (gradient.norm() - regularizer.target_norm).pow(2)


def test_torch_finds_the_same():
    torch = pytest.importorskip("torch")
    for regularizer, loss in WITH_LOSSES:
        data, outputs = rows(seed=1)
        term = regularizer.evaluate(tokens_of(data, outputs, loss))
        logprobs = torch.tensor(np.concatenate([output["logprobs"][2:] for output in outputs]), requires_grad=True)
        value = _of_torch(torch, regularizer, loss, logprobs, data)
        (derivative,) = torch.autograd.grad(value, logprobs)

        assert term.value == pytest.approx(value.item(), rel=1e-4), regularizer
        np.testing.assert_allclose(term.derivative, derivative.numpy(), 1e-4, 1e-8, err_msg=f"{regularizer} {loss}")


@given(st.floats(0, 10), st.floats(0, 10))
def test_terms_add_up_with_their_weights(first, second):
    tokens = tokens_of(*rows())
    both, terms = penalise(tokens, [L2(first), KLDivergence(second)])
    single = [penalise(tokens, [regularizer]) for regularizer in (L2(first), KLDivergence(second))]

    assert sum(terms.values()) == pytest.approx(sum(sum(metrics.values()) for _, metrics in single))
    for at, row in enumerate(both):
        expected = sum(data[at].inputs["weights"] for data, _ in single)
        np.testing.assert_allclose(row.inputs["weights"], expected, rtol=1e-5, atol=1e-5)


def test_a_term_that_is_twice_there_counts_twice():
    tokens = tokens_of(*rows())

    assert penalise(tokens, [L1(1.0), L1(2.0)])[1] == pytest.approx(penalise(tokens, [L1(3.0)])[1])


def test_tokens_count_by_their_mask_weights_or_advantages():
    targets, three = np.arange(3), np.array([1.0, 0.0, 1.0])
    outputs = [{"logprobs": np.array([-1.0, -2.0, -3.0])}]
    for name, second in (("mask", {"advantages": 1 - three}), ("weights", {}), ("advantages", {"logprobs": three})):
        inputs = {"target_tokens": targets, name: three, **second}
        tokens = ReplyTokens([Datum([1, 2, 3], inputs)], outputs, "ppo", {})
        assert tokens.logprobs.tolist() == [-1.0, -3.0]
        assert tokens.weigh(np.array([5.0, 7.0]))[0].inputs["weights"].tolist() == [-5.0, 0.0, -7.0]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: L1(-1.0), r"l1 has weight = -1.0: write a number of at least 0"),
        (lambda: L2(1.0, center=float("nan")), r"l2 has center = nan: write a number, or 'mean'"),
        (lambda: ElasticNet(1.0, l1_ratio=2.0), r"elastic_net has l1_ratio = 2.0: write a number from 0 to 1"),
        (lambda: L1(1.0, of="weights"), r"l1 has of = 'weights': write 'logprobs' or 'probabilities'"),
        (lambda: Entropy(1.0, mode="max"), r"entropy has mode = 'max': write 'maximise' or 'minimise'"),
        (lambda: KLDivergence(1.0, direction="up"), r"kl_divergence has direction = 'up': write 'forward' or"),
        (lambda: Consistency(1.0, metric="mse"), r"consistency has metric = 'mse': write 'l2' or 'l1' or"),
        (lambda: GradientPenalty(1.0, target_norm=-1), r"gradient_penalty has target_norm = -1: write a number"),
    ],
)
def test_invalid_settings(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("regularizer", "count", "sentence"),
    [
        (KLDivergence(0.1), 2, "no log-probabilities of a reference: train on data = trainer.with_reference"),
        (Consistency(0.1), 3, "compares rows in pairs, and the batch has 3: give both twins"),
        (GradientPenalty(0.1), 2, "cross_entropy has no curvature"),
    ],
)
def test_batches_that_a_regularizer_cannot_be_computed_of(trainer, regularizer, count, sentence):
    with pytest.raises(TrainingStopped, match=sentence):
        trainer.step(trainer.datums(ROWS)[:count], regularizers=[regularizer])


@pytest.mark.parametrize("terms", [L1(0.1), ["l1"], "l1", [None]])
def test_regularizers_must_be_a_list_of_regularizers(trainer, terms):
    with pytest.raises(TypeError, match=r"write a list of those in pytest_crucible.features.training.regularizers"):
        trainer.step(trainer.datums(ROWS)[:2], regularizers=terms)


def test_twins_have_one_completion(trainer):
    data = trainer.datums([{"prompt": "1?", "completion": "five"}, {"prompt": "2?", "completion": "five five"}])

    with pytest.raises(
        TrainingStopped, match=r"rows 1 and 2 of the batch, in which \d+ and \d+ tokens count: give both"
    ):
        trainer.step(data, regularizers=[Consistency(0.1)])


def test_preferences_take_no_regularizers(trainer):
    pairs = trainer.preferences([{"prompt": "1?", "chosen": "five", "rejected": "six"}])

    with pytest.raises(TrainingStopped, match="'dpo' has a reference of its own and takes no regularizers"):
        trainer.step(pairs, loss="dpo", regularizers=[L1(0.1)])


# -- in a step ------------------------------------------------------------------------------------------------------


def test_the_gradients_are_those_of_loss_and_terms_together(trainer):
    """Moved along a direction, the total changes as its gradients say."""
    data = trainer.with_reference(trainer.datums(ROWS)[:4])
    trainer.step(data, learning_rate=1e-2, regularizers=[L2(0.05)])  # away from zero factors, and from the reference
    terms = [KLDivergence(0.5), Entropy(0.2, mode="maximise"), Consistency(0.3), Orthogonality(0.4)]
    result = trainer.forward_backward(data, "cross_entropy", regularizers=terms)
    draw, step = np.random.default_rng(0), 1e-3
    along = {name: draw.normal(size=values.shape) for name, values in trainer.adapter.factors.items()}

    def total(by: float) -> float:
        factors = {
            name: (values + by * along[name]).astype(np.float32) for name, values in trainer.adapter.factors.items()
        }
        trainer._trainer.use(replace(adapter, factors=factors))
        changed = trainer.forward_backward(data, "cross_entropy", regularizers=terms, forward_only=True)
        trainer._trainer.use(adapter)
        return changed.metrics["total:sum"]

    adapter = trainer.adapter
    expected = sum(float((result.gradients[name] * along[name]).sum()) for name in along)
    assert (total(step) - total(-step)) / (2 * step) == pytest.approx(expected, rel=1e-2)
    assert result.metrics["total:sum"] == pytest.approx(
        result.loss + sum(result.metrics[f"{term.name}:sum"] for term in terms)
    )
    assert trainer.log.losses[0] > 0


def test_a_reference_holds_the_model_where_it_was(trainer, engine, tmp_path):
    def distance(weight: float) -> float:
        follower = type(trainer)(engine, trainer.spec, folder=tmp_path)
        data = follower.with_reference(follower.datums(ROWS)[:4])
        for _ in range(12):
            follower.step(data, learning_rate=1e-2, regularizers=[KLDivergence(weight)])
        result = follower.forward_backward(data, "cross_entropy", regularizers=[KLDivergence(1.0)], forward_only=True)
        return result.metrics["kl_divergence:sum"]

    assert distance(3.0) < 0.5 * distance(0.0)


def test_the_starting_model_is_the_reference(trainer):
    data = trainer.with_reference(trainer.datums(ROWS)[:2])
    result = trainer.forward_backward(data, "cross_entropy", regularizers=[KLDivergence(1.0)], forward_only=True)
    trainer.step(data, regularizers=[KLDivergence(1.0)])

    assert result.metrics["kl_divergence:sum"] == pytest.approx(0.0, abs=1e-7)
    with pytest.raises(ValueError, match="call with_reference before"):
        trainer.with_reference(data)
    assert trainer.step(data) > 0  # also without a term that reads it


def test_terms_are_part_of_the_log_and_of_the_batch_that_a_resumed_training_repeats(trainer):
    data = trainer.datums(ROWS)[:2]
    trainer.step(data, regularizers=[L1(0.1)])

    assert trainer.log.settings["regularizers"] == {"L1(weight=0.1, of='logprobs')"}
    digests = {pass_digest(data, "cross_entropy", {}, terms) for terms in ((), (L1(0.1),), (L1(0.2),))}
    assert len(digests) == 3
    # A reference is computed again after an interruption.
    others = [replace(row, inputs={**row.inputs, "reference_logprobs": np.ones(len(row.tokens))}) for row in data]
    assert pass_digest(others, "cross_entropy", {}) == pass_digest(data, "cross_entropy", {})


class Doubled:
    """A regularizer of a recipe's own."""

    name, weight = "doubled", 0.5

    def __repr__(self) -> str:
        return "Doubled()"

    def evaluate(self, tokens: ReplyTokens) -> Term:
        return Term(2 * float(tokens.logprobs.sum()), np.full(len(tokens.logprobs), 2.0))


def test_a_recipe_may_have_a_regularizer_of_its_own(trainer):
    """Log-probabilities themselves, added once, cancel cross-entropy."""
    result = trainer.forward_backward(trainer.datums(ROWS)[:2], "cross_entropy", regularizers=[Doubled()])

    assert result.metrics["total:sum"] == pytest.approx(0.0, abs=1e-4)
    assert trainer.optim_step(AdamParams())["grad_norm:mean"] < 1e-3


def by_regularizers(trainer):
    data = trainer.with_reference(trainer.datums(ROWS))
    for step in trainer.steps(6):
        trainer.step(trainer.batch(step, data, 2), learning_rate=1e-2, regularizers=[KLDivergence(0.5), L2(0.01)])


def test_a_training_with_a_reference_resumes(engine, tmp_path):
    recipe = replace(make_recipe(engine, by_regularizers), save_every=2)

    def stop(log):
        if len(log.losses) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(recipe, tmp_path / "one", watch=stop)
    resumed, _ = train_recipe(recipe, tmp_path / "one")
    whole, _ = train_recipe(recipe, tmp_path / "whole")

    assert resumed.lineage.adapter_sha256 == whole.lineage.adapter_sha256
    assert resumed.lineage.hyperparameters["regularizers"] == [
        "KLDivergence(weight=0.5, direction='forward')", "L2(weight=0.01, of='logprobs', center=0.0)",
    ]  # fmt: skip
