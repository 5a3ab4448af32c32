"""Gates on checkpoints of a Tinker service: their renderer, their expiry, and the drift of the sampler from the trainer."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from tinker_archive import BASE

from pytest_crucible.local_model.checkpoints import Adapter, LoraSpec
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.local_model.server.archive import SAMPLER, TRAINING, Archive, CheckpointInfo, CheckpointPath

tinker = pytest.importorskip("tinker")
pytestmark = pytest.mark.slow  # each starts a service

TEST = """
    import pytest

    @pytest.mark.crucible(dataset=[{"id": f"q{k}", "input": f"Document {k}:"} for k in range(4)], metrics=["sampler_drift"])
    @pytest.mark.quality_target("sampler_drift <= 0.02")
    async def test_replies(sample, sampler):
        return await sampler.generate(sample.input, max_tokens=4)
"""


def save(suite: Any, *, size: float = 0.0, renderer: str = "", expires: float | None = None, state: bool = True) -> str:
    """Save weights as a training state and for sampling; those for sampling have a change of this size."""
    engine = Engine.load_packaged()
    spec = LoraSpec(rank=4, seed=1)
    trainer = engine.trainer(spec)
    metadata = {"renderer_name": renderer} if renderer else None
    about = CheckpointInfo(
        BASE, engine.base_sha256, asdict(spec), created=1.7e9, expires=expires, user_metadata=metadata
    )
    archive = Archive(suite.path / ".crucible" / "tinker")
    if state:
        with archive.write_checkpoint(CheckpointPath("run-1", TRAINING, "x"), about) as place:
            trainer.save_state(place)
    random = np.random.Generator(np.random.Philox(1))
    factors = {
        name: (values + size * random.normal(size=values.shape)).astype(np.float32)
        for name, values in trainer.adapter.factors.items()
    }
    trainer.adapter = Adapter(spec, factors)
    path = CheckpointPath("run-1", SAMPLER, "x")
    with archive.write_checkpoint(path, about) as place:
        trainer.save_sampler(place)
    return str(path)


def run(suite: Any, path: str, *arguments: str, **options: str) -> tuple[int, str]:
    suite.test(TEST, name="test_replies")
    suite.adapters({"v2": {"backend": "tinker", "model_path": path, **options}})
    result = suite.run("test_replies.py", "--crucible-adapter=v2", *arguments)
    return int(result.ret), result.stdout.str() + result.stderr.str()


def test_equal_weights_do_not_drift_and_renderers_agree(suite):
    status, out = run(suite, save(suite, renderer="role_colon"), "-v", renderer="role_colon")

    assert status == 0
    assert "sampler_drift <= 0.02  0.000" in out
    assert "nats a token, n 4" in out
    assert "was trained with renderer" not in out


def test_other_weights_than_were_trained_are_warned_of(suite):
    status, out = run(suite, save(suite, size=0.1))

    assert status == 1
    assert "the sampler's log-probabilities are off the trainer's for the same tokens: v2 by" in out
    assert "missed" in out


def test_without_a_state_there_is_no_drift(suite):
    _, out = run(suite, save(suite, state=False), "-v")

    assert "the service has no state to train" in out
    assert "off the trainer's" not in out


@pytest.mark.skipif(
    "user_metadata" not in tinker.types.Checkpoint.model_fields,
    reason="this version of the SDK lists no metadata of checkpoints",
)
@pytest.mark.parametrize("severity", ["", "note"])
def test_another_renderer_than_that_of_the_training_fails(suite, severity):
    path = save(suite, renderer="role_colon")
    own = ("-o", f"crucible_checks_of_runs=renderer: {severity}") if severity else ()
    status, out = run(suite, path, *own, renderer="qwen3")

    sentence = (
        "v2 was trained with renderer 'role_colon' and is sampled from with 'qwen3': use the renderer of its training"
    )
    assert (sentence in out) == (not severity)
    assert status == (0 if severity else 1)


def test_a_checkpoint_that_expires_before_a_sample_could_end_is_refused(suite):
    path = save(suite, expires=time.time() + 200)
    status, out = run(suite, path)

    assert status == 4
    assert f"adapter 'v2': {path} expires in " in out
    assert "and one sample may take 300 s: give it more time with `crucible tinker ttl PATH never`" in out
    assert run(suite, path, "--crucible-timeout=10")[0] == 0


def test_the_price_of_a_gate_is_that_of_the_base(suite):
    path = save(suite)
    suite.test(TEST, name="test_replies")
    suite.adapters({"v2": {"backend": "tinker", "model_path": path}})
    config = suite.path / "crucible.toml"
    prices = {"input": 1000.0, "output": 0.0, "cached": 100.0}
    lines = ['[prices."tinker:*crucible/tiny*"]', *(f"{name} = {json.dumps(price)}" for name, price in prices.items())]
    config.write_text(config.read_text() + "\n".join(lines) + "\n")

    estimate = suite.run("test_replies.py", "--crucible-adapter=v2", "--crucible-estimate").stdout.str()
    assert "beginnings that prompts share may be cached, which the lower end counts" in estimate
    assert "cost $" in estimate
