"""The passes through a model that the loss of one batch takes: one, or two for preferences and for regularizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_crucible.local_model.batches import Datum
from pytest_crucible.local_model.training import GradientResult, add_gradients
from pytest_crucible.training.preferences import (
    DPO,
    Preference,
    dpo_loss,
    read_beta,
    reply_logprobs,
    sides,
    weigh_replies,
)
from pytest_crucible.training.regularizers.penalise import TOTAL, penalise
from pytest_crucible.training.regularizers.reply_tokens import ADDED, ReplyTokens, drop_inputs
from pytest_crucible.training.regularizers.term import Regularizer


@dataclass(frozen=True)
class Pass:
    """One pass of a batch through a model, which adds the gradients of its loss unless it is `forward_only`."""

    data: Sequence[Datum]
    loss: str
    config: Mapping[str, float]
    forward_only: bool
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
    forward = run(Pass(data, "cross_entropy", {}, forward_only=True))
    result = dpo_loss(reply_logprobs(data, forward.outputs), pairs, beta)
    gradients: Mapping[str, Any] = {}
    if not forward_only:
        weighted = weigh_replies(pairs, result.slopes)
        gradients = run(Pass(weighted, "cross_entropy", {}, forward_only=False)).gradients
    return GradientResult(result.loss, forward.outputs, result.metrics, dict(gradients))


def pass_regularized(
    run: RunPass,
    data: Sequence[Datum],
    loss: str,
    config: Mapping[str, float],
    regularizers: Sequence[Regularizer],
    *,
    forward_only: bool,
) -> GradientResult:
    """Return a loss and its regularizers, and add both gradients: a pass for the loss, and one with weights for the terms.

    Raises as `run` does, and ValueError for a loss that takes no regularizers.
    """
    if loss == DPO:
        raise ValueError(f"loss {DPO!r} has a reference of its own and takes no regularizers: leave them out")
    output = run(Pass(drop_inputs(data, ADDED), loss, config, forward_only))
    penalty = penalise(ReplyTokens(data, output.outputs, loss, config), regularizers)
    gradients = dict(output.gradients)
    if not forward_only:
        # Gradients add up until the next step, so that a sum of losses needs no pass of its own for each term.
        add_gradients(gradients, run(Pass(penalty.data, "cross_entropy", {}, forward_only=False)).gradients)
    total = {TOTAL: output.loss + penalty.total}
    return GradientResult(output.loss, output.outputs, {**output.metrics, **penalty.metrics, **total}, gradients)


def preferences_of(data: Sequence[Any], loss: str) -> list[Preference]:
    """Return the preferences of a batch; none for a batch of datums. Raises ValueError if the loss takes the other kind."""
    pairs = [row for row in data if isinstance(row, Preference)]
    if pairs and loss != DPO:
        raise ValueError(f"loss {loss!r} takes rows of trainer.datums, and these are preferences: use loss={DPO!r}")
    if loss == DPO and (not pairs or len(pairs) < len(data)):
        raise ValueError(f"loss {DPO!r} takes at least one row, all of trainer.preferences(FILE)")
    return pairs


def datums_of(data: Sequence[Any]) -> list[Datum]:
    """Return the rows of a batch that are datums."""
    return [row for row in data if isinstance(row, Datum)]


def count_weights(data: Sequence[Datum]) -> float:
    """Return the number of tokens that count in the loss; of rows, where a loss weighs them by advantages."""
    return sum(float(datum.inputs["weights"].sum()) if "weights" in datum.inputs else 1.0 for datum in data)
