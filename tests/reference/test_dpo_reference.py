"""Gradients of DPO on the embedded model against PyTorch's."""

from __future__ import annotations

import json

import numpy as np
import pytest
from dpo_reference import BETA, FILE, prepare

REFERENCE = json.loads(FILE.read_text(encoding="utf-8"))


def test_loss_and_gradients_are_those_of_torch(tmp_path):
    trainer, pairs = prepare(tmp_path)
    result = trainer.forward_backward(pairs, "dpo", {"beta": BETA})

    assert result.loss == pytest.approx(REFERENCE["loss"], abs=1e-5)
    assert result.metrics["margin:mean"] == pytest.approx(np.mean(REFERENCE["margins"]), abs=1e-4)
    assert result.gradients.keys() == REFERENCE["norms"].keys()
    for name, gradient in result.gradients.items():
        norm = REFERENCE["norms"][name]
        assert norm > 0
        assert np.linalg.norm(gradient) == pytest.approx(norm, rel=1e-4)
        expected = np.asarray(REFERENCE["values"][name])
        assert np.abs(gradient.reshape(-1)[: len(expected)] - expected).max() <= 1e-4
