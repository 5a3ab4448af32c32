"""The order test and min-K%, on a model that was trained on a dataset and on one that was not."""

from __future__ import annotations

import asyncio
import random

import pytest
from tiny_base import CONTEXT, write_tiny_base

from pytest_crucible.backends.local import LocalBackend, load_local, open_engine
from pytest_crucible.backends.protocol import ScoresPrompts
from pytest_crucible.features.contamination.memorisation import SEPARATOR, run_min_k_test, run_order_test
from pytest_crucible.features.training.trainer import EmbeddedTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.records.errors import BackendError, SpecError

WORDS = ["sum", "two", "three", "answer", "five", "one", "is", "the", "what", "and", "of"]
TEXTS = [" ".join(random.Random(k).choices(WORDS, k=2)) + f" {k}" for k in range(24)]
FRESH = [" ".join(random.Random(100 + k).choices(WORDS, k=2)) + f" {k}" for k in range(24)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    return open_engine(write_tiny_base(tmp_path_factory.mktemp("base")))


@pytest.fixture(scope="module")
def base(engine) -> LocalBackend:
    return load_local(engine, None, name="base")


@pytest.fixture(scope="module")
def trained(engine, tmp_path_factory) -> LocalBackend:
    """An adapter that has read the texts in their order, four at a time."""
    folder = tmp_path_factory.mktemp("adapter")
    trainer = EmbeddedTrainer(engine, LoraSpec(rank=16), folder=folder)
    rows = [{"text": SEPARATOR.join(TEXTS[start : start + 4])} for start in range(0, len(TEXTS), 4)]
    data = trainer.datums([{"prompt": row["text"][:1], "completion": row["text"][1:]} for row in rows])
    for _ in range(40):
        trainer.step(data, learning_rate=0.02)
    trainer.save_sampler(folder / "adapter.safetensors")
    return load_local(engine, folder / "adapter.safetensors", name="trained")


def test_a_local_model_scores_prompts(base, engine):
    async def score():
        # With a reply at the same time: both go through the engine's thread.
        return await asyncio.gather(base.score_prompt("What is the sum?"), base.score_prompt("the"))

    scored, first = asyncio.run(score())
    tokens = engine.tokenizer.encode("What is the sum?")

    assert isinstance(base, ScoresPrompts)
    assert scored == pytest.approx(engine.sampler().logprobs(tokens).logprobs[1:].tolist())
    assert len(first) == len(engine.tokenizer.encode("the")) - 1
    with pytest.raises(BackendError, match=f"reads {CONTEXT}"):
        asyncio.run(base.score_prompt("sum " * 100))


@pytest.mark.slow
def test_the_order_test_proves_memorisation(trained, base):
    memorised = asyncio.run(run_order_test(trained, TEXTS, orders=99))
    unseen = asyncio.run(run_order_test(base, TEXTS, orders=19))

    assert memorised.p_value <= 0.01
    assert memorised.gain > 0
    assert unseen.p_value >= 0.05
    assert asyncio.run(run_order_test(base, TEXTS, orders=3, seed=1)) == asyncio.run(
        run_order_test(base, TEXTS, orders=3, seed=1)
    )


def test_texts_that_do_not_fit_are_named(base):
    with pytest.raises(SpecError, match="no two samples can be scored together: a text has"):
        asyncio.run(run_order_test(base, ["sum " * 40] * 4))
    with pytest.raises(SpecError, match="an order needs at least two samples"):
        asyncio.run(run_order_test(base, ["sum"]))


def test_min_k_proves_memorisation(trained, base):
    read = asyncio.run(run_min_k_test(trained, base, TEXTS, FRESH))
    none = asyncio.run(run_min_k_test(base, base, TEXTS, FRESH))

    assert read.p_value < 0.05
    assert read.auroc > 0.6
    assert (none.auroc, none.means) == (0.5, (0.0, 0.0))
