"""DPO on the local Tinker server under the official SDK: the same losses and gradients as on the embedded model.

With PyTorch installed the steps go through the SDK's `forward_backward_custom`, otherwise through the two passes that
it would make.
"""

from __future__ import annotations

from typing import Any

import pytest
from test_tinker_sdk import got

from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training.encoding import EmbeddedEncoder
from pytest_crucible.features.training.tinker_trainer import TinkerTrainer
from pytest_crucible.features.training.trainer import EmbeddedTrainer, TrainingStopped
from pytest_crucible.local_model.checkpoints import LoraSpec

SPEC = LoraSpec(rank=4, seed=3)
ROWS = [
    {"prompt": f"claim {number} of", "chosen": " document 7", "rejected": " evidence is supported"}
    for number in range(3)
]


@pytest.fixture
def remote(server, base, tokenizer, monkeypatch, tmp_path) -> Any:
    tinker = pytest.importorskip("tinker")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    service = tinker.ServiceClient(base_url=server.url, api_key=server.key)
    client = got(service.create_lora_training_client(base_model="crucible/tiny", rank=SPEC.rank, seed=SPEC.seed))
    yield TinkerTrainer(
        client,
        tinker,
        SPEC,
        EmbeddedEncoder(tokenizer),
        name="v2",
        within=lambda doing, call: got(call()),
        resumed=lambda path: None,
        folder=tmp_path,
    )
    if hasattr(service, "close"):
        got(service.close("success"))


def test_losses_and_gradients_are_those_of_the_embedded_model(remote, base, tmp_path):
    here = EmbeddedTrainer(open_engine(base), SPEC, folder=tmp_path)
    for trainer in (remote, here):
        pairs = trainer.preferences(ROWS)
        for _ in range(3):
            trainer.step(pairs, loss="dpo", config={"beta": 0.2}, learning_rate=0.002)

    assert remote.log.losses == pytest.approx(here.log.losses, abs=1e-4)
    # At first the model is the reference, and prefers neither reply: log 2 a pair.
    assert here.log.losses[0] == pytest.approx(0.6931, abs=1e-4)
    assert here.log.losses[-1] < 0.69
    norms = [norm for norm in remote.log.gradient_norms if norm is not None]
    assert norms == pytest.approx(here.log.gradient_norms, rel=1e-4)
    assert remote.log.settings["beta"] == {0.2}


def test_torch_is_used_where_it_is_installed(remote):
    pytest.importorskip("torch")
    result = remote.forward_backward(remote.preferences(ROWS), "dpo")

    # Only the SDK's custom loss has this metric.
    assert "surrogate_loss:sum" in result.metrics
    assert result.metrics["loss:sum"] == pytest.approx(result.loss)


def test_an_unknown_setting_ends_the_training_before_a_request(remote):
    with pytest.raises(TrainingStopped, match="dpo has no setting bta; it has beta"):
        remote.step(remote.preferences(ROWS), loss="dpo", config={"bta": 0.1})
