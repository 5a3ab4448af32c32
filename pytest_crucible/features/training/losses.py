"""The loss of one batch: its passes through the model, its regularizers, and direct preference optimisation.

    loss = -sum(log sigmoid(beta * margin))
    margin = (log p(chosen) - log q(chosen)) - (log p(rejected) - log q(rejected))

p is the model in training and q the reference, the model that training starts from; log p is the sum over the tokens of a reply.
Rafailov et al. 2023, "Direct preference optimization", equation 7. The paper takes the mean over the pairs; this is a sum, as
Tinker's losses are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.datasets.training_rows import read_row
from pytest_crucible.features.training.encoding import Encoder, encode_reply, make_datum, number_rows
from pytest_crucible.features.training.regularizers import (
    ADDED,
    REFERENCE,
    Array,
    Regularizer,
    ReplyTokens,
    drop_inputs,
)
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.losses import NotFinite
from pytest_crucible.local_model.training import GradientResult, add_gradients
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import DatasetError

DPO, LOSS = "dpo", "loss:sum"
BETA = 0.1
"""The usual strength of the pull towards the reference."""
_EXPECTED = "write 'prompt', 'chosen' and 'rejected', as crucible export --what dpo does"


@dataclass(frozen=True, slots=True)
class Preference:
    """Two replies to one prompt, of which the first is better."""

    chosen: Datum
    rejected: Datum
    reference: float = 0.0
    """log q(chosen) - log q(rejected) under the reference."""


@dataclass(frozen=True, slots=True)
class DpoLoss:
    """The loss of some pairs, and its derivative by the log-probability of each chosen reply."""

    loss: float
    slopes: NDArray[np.float64]
    """Derivatives by the chosen replies' log-probabilities; those by the rejected replies have the opposite sign."""
    margins: NDArray[np.float64]

    @property
    def metrics(self) -> dict[str, float]:
        """Return loss, mean margin, and the share of pairs that the model prefers more than the reference does."""
        return {
            LOSS: self.loss,
            "margin:mean": float(self.margins.mean()),
            "accuracy:mean": float((self.margins > 0).mean()),
        }


def encode_preferences(
    rows: Path | Iterable[Mapping[str, Any]], encoder: Encoder, context: int | None
) -> list[Preference]:
    """Return one preference a row, in any format of `crucible export --what dpo`. The reference is not known yet.

    Raises DatasetError, with the row, for a row without two replies and for one longer than the context.
    """
    encoded = [_encode(where, row, encoder, context) for where, row in number_rows(rows)]
    if not encoded:
        raise DatasetError(f"the preferences to train on are empty: {_EXPECTED}")
    return encoded


def sides(pairs: Sequence[Preference]) -> list[Datum]:
    """Return both replies of each pair, the chosen one first."""
    return [datum for pair in pairs for datum in (pair.chosen, pair.rejected)]


def reply_logprobs(data: Sequence[Datum], outputs: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """Return the log-probability of each reply, from those of its tokens."""
    sums = [
        float(np.dot(np.asarray(output["logprobs"], np.float64), datum.inputs["weights"]))
        for datum, output in zip(data, outputs, strict=True)
    ]
    return np.asarray(sums)


def with_reference(pairs: Sequence[Preference], logprobs: NDArray[np.float64]) -> list[Preference]:
    """Return the pairs with the reference's log-probabilities of both replies of each."""
    return [
        replace(pair, reference=float(chosen - rejected))
        for pair, chosen, rejected in zip(pairs, logprobs[::2], logprobs[1::2], strict=True)
    ]


def dpo_loss(logprobs: NDArray[np.float64], pairs: Sequence[Preference], beta: float) -> DpoLoss:
    """Return the loss of pairs whose replies have these log-probabilities.

    >>> pair = Preference(Datum([1]), Datum([1]), reference=-1.0)
    >>> result = dpo_loss(np.array([-2.0, -1.0]), [pair], beta=0.1)
    >>> round(result.loss, 4), result.slopes.tolist()
    (0.6931, [-0.05])
    """
    margins = logprobs[::2] - logprobs[1::2] - np.asarray([pair.reference for pair in pairs])
    # log(1 + exp(-x)) without overflow.
    loss = float(np.logaddexp(0.0, -beta * margins).sum())
    return DpoLoss(loss, -beta * np.exp(-np.logaddexp(0.0, beta * margins)), margins)


def weigh_replies(pairs: Sequence[Preference], slopes: NDArray[np.float64]) -> list[Datum]:
    """Return both replies of each pair with the weights whose cross-entropy has the gradients of the loss.

    Cross-entropy is -sum(weights * log p), so a weight is minus the derivative by log p.
    """
    return [
        replace(datum, inputs={**datum.inputs, "weights": datum.inputs["weights"] * np.float32(weight)})
        for pair, slope in zip(pairs, slopes, strict=True)
        for datum, weight in ((pair.chosen, -slope), (pair.rejected, slope))
    ]


def read_beta(config: Mapping[str, float]) -> float:
    """Return beta of a loss's configuration. Raises ValueError for other settings and for a value that is not positive."""
    if unknown := sorted(set(config) - {"beta"}):
        raise ValueError(f"{DPO} has no setting {', '.join(unknown)}; it has beta")
    beta = float(config.get("beta", BETA))
    if not beta > 0:
        raise ValueError(f"{DPO} has beta = {beta:g}: write a number above 0, such as {BETA}")
    return beta


def _encode(where: str, row: Any, encoder: Encoder, context: int | None) -> Preference:
    read = read_row(row) if isinstance(row, Mapping) else None
    if read is None or read.rejected is None:
        raise DatasetError(f"{where} has no two replies to compare: {_EXPECTED}")
    chosen, rejected = (
        make_datum(where, *encode_reply(where, read.prompt, reply, encoder, _EXPECTED), context)
        for reply in (read.completion, read.rejected)
    )
    return Preference(chosen, rejected)


CustomLoss = Callable[[Any, list[Any]], tuple[Any, dict[str, float]]]


def make_loss(pairs: Sequence[Preference], beta: float) -> CustomLoss:
    """Return the function that the SDK calls with the log-probabilities of both replies of each pair."""
    # Imported here: torch is an optional dependency of Tinker's SDK.
    import torch

    weights = [torch.tensor(datum.inputs["weights"].tolist(), dtype=torch.float64) for datum in sides(pairs)]
    reference = torch.tensor([pair.reference for pair in pairs], dtype=torch.float64)

    def loss(data: Any, logprobs: list[Any]) -> tuple[Any, dict[str, float]]:
        # A reply has hundreds of tokens: their float32 sum would lose digits that a small margin needs.
        sums = torch.stack([(each.double() * weight).sum() for each, weight in zip(logprobs, weights, strict=True)])
        margins = sums[::2] - sums[1::2] - reference
        total = -torch.nn.functional.logsigmoid(beta * margins).sum()
        metrics = {
            LOSS: total.item(),
            "margin:mean": margins.mean().item(),
            "accuracy:mean": (margins > 0).double().mean().item(),
        }
        return total, metrics

    return loss


def as_cross_entropy(data: Sequence[Datum]) -> list[Datum]:
    """Return the rows in the form that cross-entropy takes: their outputs have all log-probabilities."""
    targets = [datum.inputs["target_tokens"] for datum in data]
    return [
        replace(datum, inputs={"target_tokens": tokens, "weights": np.ones(tokens.shape, np.float32)})
        for datum, tokens in zip(data, targets, strict=True)
    ]


def add_reference(data: Sequence[Datum], outputs: Sequence[Mapping[str, Any]]) -> list[Datum]:
    """Return the rows with the log-probabilities of these outputs as those of the reference."""
    return [
        replace(datum, inputs={**datum.inputs, REFERENCE: output["logprobs"]})
        for datum, output in zip(data, outputs, strict=True)
    ]


TOTAL = "total:sum"
"""Metric: the loss with its regularizers."""


def penalise(tokens: ReplyTokens, regularizers: Sequence[Regularizer]) -> tuple[list[Datum], dict[str, float]]:
    """Return rows whose cross-entropy has the gradients of all terms, and the weighted value of each term.

    Raises ValueError for data that one cannot be computed of, NotFinite for values that are not.
    """
    metrics: dict[str, float] = {}
    derivative: Array = np.zeros_like(tokens.logprobs)
    # An infinite value raises an error below: numpy's warning would only repeat it.
    with np.errstate(over="ignore", invalid="ignore"):
        for regularizer in regularizers:
            term = regularizer.evaluate(tokens)
            if not (np.isfinite(term.value) and np.isfinite(term.derivative).all()):
                raise NotFinite(f"the {regularizer.name} regularizer is {term.value}")
            name = f"{regularizer.name}:sum"
            metrics[name] = metrics.get(name, 0.0) + regularizer.weight * term.value
            derivative = derivative + regularizer.weight * term.derivative
    return tokens.weigh(derivative), metrics


def check_regularizers(regularizers: Sequence[Regularizer]) -> None:
    """Raise TypeError unless it is a sequence of regularizers."""
    is_sequence = isinstance(regularizers, Sequence) and not isinstance(regularizers, str)
    if not is_sequence or not all(hasattr(regularizer, "evaluate") for regularizer in regularizers):
        raise TypeError(
            f"regularizers = {regularizers!r}: write a list of those in pytest_crucible.features.training.regularizers, "
            "such as [L2(0.1)]"
        )


@dataclass(frozen=True)
class Pass:
    """One pass of a batch through a model, which adds the gradients of its loss unless it is `forward_only`."""

    data: Sequence[Any]
    """Datums; those that a recipe gives may be preferences."""
    loss: str = "cross_entropy"
    config: Mapping[str, float] = field(default_factory=dict)
    forward_only: bool = False
    outputs: bool = True
    """Whether the outputs are read; without them a pass may take less time."""


RunPass = Callable[[Pass], GradientResult]


def pass_preferences(
    run: RunPass, pairs: Sequence[Preference], config: Mapping[str, float], *, forward_only: bool
) -> GradientResult:
    """Return the loss of preferences, and add its gradients: a pass for the log-probabilities, and one with their weights.

    Raises as `run` does.
    """
    # How much each token counts depends on the log-probabilities of whole replies, which only a first pass gives.
    beta, data = read_beta(config), sides(pairs)
    forward = run(Pass(data, forward_only=True))
    result = dpo_loss(reply_logprobs(data, forward.outputs), pairs, beta)
    gradients: Mapping[str, Any] = {}
    if not forward_only:
        gradients = run(Pass(weigh_replies(pairs, result.slopes))).gradients
    return GradientResult(result.loss, forward.outputs, result.metrics, dict(gradients))


def pass_regularized(run: RunPass, batch: Pass, regularizers: Sequence[Regularizer]) -> GradientResult:
    """Return a loss and its regularizers, and add both gradients: a pass for the loss, and one with weights for the terms.

    Raises as `run` does, and ValueError for a loss that takes no regularizers.
    """
    if batch.loss == DPO:
        raise ValueError(f"loss {DPO!r} has a reference of its own and takes no regularizers: leave them out")
    # The terms are functions of the outputs.
    output = run(replace(batch, data=drop_inputs(batch.data, ADDED), outputs=True))
    weighted, terms = penalise(ReplyTokens(batch.data, output.outputs, batch.loss, batch.config), regularizers)
    gradients = dict(output.gradients)
    if not batch.forward_only:
        # Gradients add up until the next step, so that a sum of losses needs no pass of its own for each term.
        add_gradients(gradients, run(Pass(weighted)).gradients)
    total = {TOTAL: output.loss + sum(terms.values())}
    return GradientResult(output.loss, output.outputs, {**output.metrics, **terms, **total}, gradients)


def preferences_of(data: Sequence[Any], loss: str) -> list[Preference]:
    """Return the preferences of a batch; none for a batch of datums. Raises ValueError if the loss takes the other kind."""
    pairs = [row for row in data if isinstance(row, Preference)]
    if pairs and loss != DPO:
        raise ValueError(f"loss {loss!r} takes rows of trainer.datums, and these are preferences: use loss={DPO!r}")
    if loss == DPO and (not pairs or len(pairs) < len(data)):
        raise ValueError(f"loss {DPO!r} takes at least one row, all of trainer.preferences(FILE)")
    return pairs


def datums_of(data: Sequence[Any]) -> list[Datum]:
    return [row for row in data if isinstance(row, Datum)]


def count_weights(data: Sequence[Datum]) -> float:
    """Return the number of tokens that count in the loss; of rows, where a loss weighs them by advantages."""
    return sum(float(datum.inputs["weights"].sum()) if "weights" in datum.inputs else 1.0 for datum in data)


def row_advantages(data: Sequence[Datum]) -> list[float]:
    """Return the advantage of each row that has one: the mean over its tokens, without those of the prompt, which have 0."""
    inputs = (datum.inputs["advantages"] for datum in data if "advantages" in datum.inputs)
    return [float(values[values != 0].mean()) if values.any() else 0.0 for values in inputs]
