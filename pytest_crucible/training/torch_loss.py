"""The loss of direct preference optimisation in PyTorch, for the custom losses of Tinker's SDK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytest_crucible.training.preferences import LOSS, Preference, sides

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
