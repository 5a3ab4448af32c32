"""Preferences to train on, and the loss of direct preference optimisation.

    loss = -sum(log sigmoid(beta * margin))
    margin = (log p(chosen) - log q(chosen)) - (log p(rejected) - log q(rejected))

p is the model in training and q the reference, the model that training starts from; log p is the sum over the tokens of a reply.
Rafailov et al. 2023, "Direct preference optimization", equation 7. The paper takes the mean over the pairs; this is a sum, as
Tinker's losses are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.batches import Datum
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.training.encoding import Encoder
from pytest_crucible.training.rows import encode_reply, make_datum, number_rows
from pytest_crucible.training_sets.reading import read_row

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
