"""Rows with the log-probabilities of a reference, from which a divergence is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_crucible.local_model.batches import Datum
from pytest_crucible.training.regularizers.reply_tokens import REFERENCE


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
