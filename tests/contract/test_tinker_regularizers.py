"""Regularizers on the local Tinker server under the official SDK: the same losses and gradients as on the embedded model."""

from __future__ import annotations

import pytest
from test_tinker_dpo import SPEC, remote  # noqa: F401 - a fixture

from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training.regularizers import L2, Consistency, Entropy, KLDivergence
from pytest_crucible.features.training.trainer import EmbeddedTrainer

ROWS = [{"prompt": f"claim {number} of", "completion": " document 7"} for number in range(4)]


def test_losses_and_gradients_are_those_of_the_embedded_model(remote, base, tmp_path):  # noqa: F811
    here = EmbeddedTrainer(open_engine(base), SPEC, folder=tmp_path)
    terms = [KLDivergence(0.5), L2(0.01), Entropy(0.1, mode="maximise"), Consistency(0.2)]
    totals = []
    for trainer in (remote, here):
        data = trainer.with_reference(trainer.datums(ROWS))
        for _ in range(3):
            trainer.step(data, learning_rate=0.002, regularizers=terms)
        result = trainer.forward_backward(data, "cross_entropy", regularizers=terms, forward_only=True)
        totals.append(result.metrics["total:sum"])

    assert remote.log.losses == pytest.approx(here.log.losses, abs=1e-4)
    assert totals[0] == pytest.approx(totals[1], rel=1e-4)
    norms = [norm for norm in remote.log.gradient_norms if norm is not None]
    assert norms == pytest.approx(here.log.gradient_norms, rel=1e-4)
