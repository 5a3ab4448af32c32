"""The packaged model, and the stand-in for other models."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.engine import PACKAGED, RESERVED, Engine, make_stand_in
from pytest_crucible.local_model.losses import AdamParams
from pytest_crucible.local_model.sampling import SamplingParams
from pytest_crucible.local_model.tokens import Tokenizer, is_shown

CHAT = "<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n<think>\n</think>"


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load_packaged()


@pytest.fixture(scope="module")
def stand_in(engine) -> Engine:
    return make_stand_in(engine)


def test_the_stand_in_replies_as_the_model_itself(engine, stand_in):
    prompts = [engine.tokenizer.encode(text) for text in ("Document 12: ", "2 + 2 =", "CLAIM")]
    params = SamplingParams(max_tokens=20, temperature=0.0)
    replies = [[reply.tokens for reply in engine.sampler().sample(prompts, params)] for engine in (engine, stand_in)]

    assert replies[0] == replies[1]
    assert stand_in.base_sha256 == make_stand_in(engine).base_sha256 != engine.base_sha256
    scored = stand_in.sampler().logprobs(prompts[0] + [stand_in.tokenizer.eos + 1])
    assert scored.logprobs[-1] < np.log(0.01)


def test_an_adapter_of_the_stand_in_is_refused_by_the_model(engine, stand_in, tmp_path):
    stand_in.trainer(LoraSpec(rank=1)).save_sampler(tmp_path / "adapter.safetensors")
    stand_in.sampler(tmp_path)
    with pytest.raises(ValueError, match="belongs to base model"):
        engine.sampler(tmp_path)


def test_the_stand_ins_tokenizer_gives_the_same_ids_in_other_libraries(stand_in, tmp_path):
    other_library = pytest.importorskip("tokenizers")
    tokenizer = stand_in.tokenizer
    tokenizer.save_for_transformers(tmp_path)
    other = other_library.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))

    assert Tokenizer.load(tmp_path / "tokenizer.json") == tokenizer
    for name in RESERVED:
        assert other.encode(name).ids == [tokenizer.reserved_id(name)], name
        assert tokenizer.decode([tokenizer.reserved_id(name)]) == (name if is_shown(name) else "")
    ids = other.encode(CHAT).ids
    assert other.decode(ids, skip_special_tokens=True) == tokenizer.decode(ids)
    assert other.decode(ids, skip_special_tokens=False) == CHAT
    # A text that spells a token out is text to the server, as it is for every tokenizer of this package.
    assert tokenizer.eos < min(tokenizer.reserved_id(name) for name in RESERVED)
    assert max(tokenizer.encode(CHAT)) < tokenizer.pad


def test_a_reply_ends_at_a_reserved_token_by_id_and_by_its_text(stand_in):
    prompt, end = stand_in.tokenizer.encode("2 + 2 ="), stand_in.tokenizer.reserved_id("<|im_end|>")
    trainer = stand_in.trainer(LoraSpec(rank=4))
    datum = Datum(
        [*prompt, 52], {"target_tokens": [*prompt[1:], 52, end], "weights": np.r_[np.zeros(len(prompt) - 1), 1, 1]}
    )
    for _ in range(20):
        trainer.forward_backward([datum], "cross_entropy")
        trainer.optim_step(AdamParams(learning_rate=1e-2))
    for stop in (end, "<|im_end|>"):
        (reply,) = trainer.sampler().sample([prompt], SamplingParams(max_tokens=9, temperature=0.0, stop=(stop,)))
        assert (reply.tokens, reply.text, reply.stop_reason) == ([52, end], "4", "stop")


LOG = json.loads((PACKAGED / "training.json").read_text(encoding="utf-8"))
PROMPT = "Document 532: Pelubarin and blood iron\nBlood iron increased in adult rats on pelubarin.\n\nHypothesis:"


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_the_files_are_those_of_the_training_log(name):
    assert hashlib.sha256((PACKAGED / name).read_bytes()).hexdigest() == LOG["sha256"][name]


def test_the_model_is_small_and_of_the_shape_in_the_log(engine):
    assert engine.shape.parameters == LOG["parameters"]
    assert sum(path.stat().st_size for path in PACKAGED.iterdir()) < 5e6
    assert engine.base_sha256 == LOG["sha256"]["model.safetensors"]


def test_the_packaged_models_greedy_reply_is_english_and_always_the_same(engine):
    sampler, prompt = engine.sampler(), engine.tokenizer.encode(PROMPT)

    replies = {sampler.sample([prompt], [SamplingParams(max_tokens=12, temperature=0.0)])[0].text for _ in range(2)}

    assert len(replies) == 1
    assert "pelubarin" in replies.pop().lower()


def test_the_packaged_model_learns(engine):
    """Twenty LoRA steps on one sentence cut its loss by four fifths."""
    tokens = engine.tokenizer.encode("CLAIM[c1]: Seven geese prefer turnips.")
    datum = Datum(tokens[:-1], {"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)})
    trainer = engine.trainer(LoraSpec(rank=8))

    losses = []
    for _ in range(20):
        losses.append(trainer.forward_backward([datum], "cross_entropy").loss)
        trainer.optim_step(AdamParams(learning_rate=3e-3))

    assert losses[-1] < 0.2 * losses[0]
