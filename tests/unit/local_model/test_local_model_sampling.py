"""Replies: the same for a seed whatever else is asked, true to the model's own probabilities, ended where they should."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_model import SHA256, SHAPE, TOKENIZER, adapted_sampler, tiny_engine, tiny_weights

from pytest_crucible.local_model import sampling
from pytest_crucible.local_model.decoding import Narrowing, choose, log_softmax, most_probable
from pytest_crucible.local_model.engine import Engine, Sampler
from pytest_crucible.local_model.reading import PromptReading
from pytest_crucible.local_model.sampling import Sampled, SamplingParams, Stops, sample

RANDOM = np.random.default_rng(5)
PROMPTS = [RANDOM.integers(0, SHAPE.vocabulary - 2, length).tolist() for length in (3, 70, 1, 64, 20, 65, 100, 7)]
ENDLESS = SamplingParams(max_tokens=24, seed=11, stop=())


@pytest.fixture(scope="module", params=["base", "adapter"])
def sampler(request) -> Sampler:
    return tiny_engine().sampler() if request.param == "base" else adapted_sampler(tiny_engine(), rank=4)


@pytest.fixture(scope="module")
def replies(sampler) -> list[Sampled]:
    return sampler.sample(PROMPTS, ENDLESS)


def test_logprobs_are_those_of_reading_the_whole_text(sampler, replies):
    for prompt, reply in zip(PROMPTS, replies, strict=True):
        read = sampler.logprobs(prompt + reply.tokens).logprobs[len(prompt) :]

        assert len(reply.logprobs) == 24
        np.testing.assert_allclose(reply.logprobs, read, rtol=0, atol=2e-5)


@pytest.mark.parametrize("slots", [1, 2, 3, 64])
def test_a_reply_does_not_depend_on_how_many_are_decoded_together(sampler, replies, slots):
    params = [ENDLESS] * len(PROMPTS)

    again = sample(sampler.weights, SHAPE, TOKENIZER, PROMPTS, params, slots=slots)

    assert again == replies


@pytest.mark.parametrize("places", [[0], [6, 0], [7, 6, 5, 4, 3, 2, 1, 0], [3, 3, 3]])
def test_a_reply_does_not_depend_on_the_other_prompts(sampler, replies, places):
    again = sampler.sample([PROMPTS[place] for place in places], ENDLESS)

    assert again == [replies[place] for place in places]


def test_a_row_that_moves_to_another_slot_keeps_its_own_settings(sampler):
    params = [
        SamplingParams(max_tokens=3 + 5 * place, seed=place, temperature=temperature, top_k=top_k, top_p=top_p, stop=())
        for place, (temperature, top_k, top_p) in enumerate([(1, -1, 1.0), (0, -1, 1.0), (1, 2, 1.0), (1, -1, 0.3)])
    ]
    prompts = [PROMPTS[0]] * 4

    together = sampler.sample(prompts, params)

    assert together == [sampler.sample([PROMPTS[0]], [item])[0] for item in params]
    assert [len(item.tokens) for item in together] == [3, 8, 13, 18]


THREADS = """
import hashlib
from tiny_model import TOKENIZER, tiny_data, tiny_weights
from pytest_crucible.local_model.losses import AdamParams
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.sampling import SamplingParams
from pytest_crucible.local_model.config import Shape

shape = Shape(TOKENIZER.vocabulary, 64, 2, 4, 256, 160)
trainer = Engine(TOKENIZER, shape, tiny_weights(shape), "ab" * 32).trainer(LoraSpec(rank=8))
for _ in range(2):
    trainer.forward_backward(tiny_data(6, length=120), "cross_entropy")
    trainer.optim_step(AdamParams(learning_rate=1e-3))
prompts = [[at] * 3 + list(range(at, at + 90)) for at in range(4)]
replies = trainer.sampler().sample(prompts, SamplingParams(max_tokens=40, seed=1, stop=()))
trained = b"".join(one.tobytes() for one in trainer.adapter.factors.values())
print(hashlib.sha256(repr(replies).encode() + trained).hexdigest())
"""


@pytest.mark.slow
def test_a_reply_does_not_depend_on_the_number_of_threads():
    printed = set()
    for threads in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OPENBLAS_NUM_THREADS": threads}
        command = [sys.executable, "-W", "error", "-c", THREADS]
        printed.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    assert len(printed) == 1


def test_another_seed_gives_another_reply(sampler, replies):
    again = sampler.sample(PROMPTS, SamplingParams(max_tokens=24, seed=12, stop=()))

    assert all(item.tokens != other.tokens for item, other in zip(again, replies, strict=True))


def test_different_prompts_get_independent_numbers():
    flat = tiny_weights()
    flat["embedding"] *= 0
    indifferent = Engine(TOKENIZER, SHAPE, flat, SHA256).sampler()

    first, second, again = indifferent.sample([[1, 2], [1, 3], [1, 2]], ENDLESS)

    assert sum(item == other for item, other in zip(first.tokens, second.tokens, strict=True)) < 4
    assert again == first


def test_without_a_seed_replies_differ(sampler):
    params = SamplingParams(max_tokens=24, stop=())

    assert sampler.sample(PROMPTS[:1], params) != sampler.sample(PROMPTS[:1], params)


def test_a_shorter_reply_is_the_beginning_of_a_longer_one(sampler, replies):
    shorter = sampler.sample(PROMPTS, SamplingParams(max_tokens=5, seed=11, stop=()))

    assert [item.tokens for item in shorter] == [item.tokens[:5] for item in replies]


def test_the_samples_of_a_prompt_differ_and_share_its_reading(sampler, replies, monkeypatch):
    read = []
    monkeypatch.setattr(sampling, "PromptReading", lambda *values: read.append(values[2]) or PromptReading(*values))
    params = [SamplingParams(max_tokens=24, seed=11, stop=(), num_samples=4), ENDLESS]

    again = sampler.sample([PROMPTS[0], PROMPTS[1]], params)

    assert read == [PROMPTS[0], PROMPTS[1]]
    assert [again[0], again[4]] == replies[:2]
    assert len({tuple(item.tokens) for item in again[:4]}) == 4


def test_temperature_0_takes_the_most_probable_token(sampler):
    (reply,) = sampler.sample(PROMPTS[:1], SamplingParams(max_tokens=12, temperature=0, stop=()))

    best = sampler.logprobs(PROMPTS[0] + reply.tokens, topk=1).topk_tokens[len(PROMPTS[0]) :, 0]
    assert reply.tokens == best.tolist()


def test_a_temperature_near_0_is_greedy_too(sampler):
    greedy, cold = (
        sampler.sample(PROMPTS, SamplingParams(max_tokens=12, seed=0, temperature=temperature, stop=()))
        for temperature in (0, 1e-300)
    )

    assert greedy == cold


def test_the_likeliest_tokens_come_with_the_reply(sampler):
    (reply,) = sampler.sample(PROMPTS[:1], ENDLESS, topk=3)
    scored = sampler.logprobs(PROMPTS[0] + reply.tokens, topk=3)

    assert reply.topk_tokens.shape == (24, 3)
    assert (reply.topk_tokens == scored.topk_tokens[3:]).all()
    np.testing.assert_allclose(reply.topk_logprobs, scored.topk_logprobs[3:], atol=2e-5)


def test_the_first_token_of_a_prompt_has_no_log_probability(sampler):
    scored = sampler.logprobs(PROMPTS[0], topk=2, targets=np.array([[4, -1], [5, 6]]))

    assert np.isnan(scored.logprobs).tolist() == [True, False, False]
    assert np.isnan(scored.topk_logprobs).all(axis=1).tolist() == [True, False, False]
    assert np.isnan(scored.of_targets).tolist() == [[False, True], [False, False]]
    own = sampler.logprobs([*PROMPTS[0][:2], 5]).logprobs[2]
    assert scored.of_targets[1, 0] == pytest.approx(own, abs=2e-5)


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [([[1]], r"shape \(1, 1\), expected \(2, k\)"), ([[1], [-2]], "must be -1"), ([[1], [999]], "must be -1")],
)
def test_targets_that_do_not_fit_are_refused(sampler, targets, sentence):
    with pytest.raises(ValueError, match=sentence):
        sampler.logprobs(PROMPTS[0], targets=np.array(targets))


# --- laws of choosing ---

LOGITS = np.log(np.array([0.05, 0.4, 0.2, 0.2, 0.1, 0.05]))
"""Tokens 2 and 3 are equally probable, and so are 0 and 5."""


def shares(*, temperature: float = 1.0, top_k: int = -1, top_p: float = 1.0, draws: int = 4000) -> list[float]:
    """Return the share of draws in which each token is chosen, of uniform numbers that are spread evenly."""
    rows = Narrowing(np.full(draws, temperature), np.full(draws, top_k), np.full(draws, top_p))
    tokens = choose(np.tile(LOGITS, (draws, 1)), (np.arange(draws) + 0.5) / draws, rows)
    return (np.bincount(tokens, minlength=6) / draws).tolist()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.05, 0.4, 0.2, 0.2, 0.1, 0.05]),
        ({"top_k": 1}, [0, 1, 0, 0, 0, 0]),
        ({"top_k": 2}, [0, 2 / 3, 1 / 3, 0, 0, 0]),
        ({"top_k": 3}, [0, 0.5, 0.25, 0.25, 0, 0]),
        ({"top_k": 6}, [0.05, 0.4, 0.2, 0.2, 0.1, 0.05]),
        ({"top_k": 99}, [0.05, 0.4, 0.2, 0.2, 0.1, 0.05]),
        ({"top_p": 0.3}, [0, 1, 0, 0, 0, 0]),
        ({"top_p": 0.5}, [0, 2 / 3, 1 / 3, 0, 0, 0]),
        ({"top_p": 0.79}, [0, 0.5, 0.25, 0.25, 0, 0]),
        ({"top_p": 0.93}, [0.05 / 0.95, 0.4 / 0.95, 0.2 / 0.95, 0.2 / 0.95, 0.1 / 0.95, 0]),
        ({"top_p": 1e-9}, [0, 1, 0, 0, 0, 0]),
        ({"top_k": 3, "top_p": 0.6}, [0, 2 / 3, 1 / 3, 0, 0, 0]),
        ({"top_k": 2, "top_p": 0.9}, [0, 2 / 3, 1 / 3, 0, 0, 0]),
        ({"temperature": 0.5}, [0.01, 0.64, 0.16, 0.16, 0.04, 0.01]),
        ({"temperature": 0.5, "top_k": 2}, [0, 0.8, 0.2, 0, 0, 0]),
        ({"temperature": 0}, [0, 1, 0, 0, 0, 0]),
    ],
)
def test_tokens_are_chosen_as_often_as_they_should_be(settings, expected):
    squares = np.array(expected)
    if settings.get("temperature") == 0.5 and "top_k" not in settings:
        squares = squares / squares.sum()  # squares of the probabilities, made to sum to 1

    assert shares(**settings) == pytest.approx(squares.tolist(), abs=1 / 4000)


@given(
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 2**32 - 1),
    st.sampled_from([-1, 1, 5]),
    st.sampled_from([1.0, 0.7]),
)
def test_chosen_tokens_have_a_probability(uniform, seed, top_k, top_p):
    logits = np.random.default_rng(seed).normal(size=(1, 50)).astype(np.float32)
    logits[0, [0, 20, 49]] = -np.inf
    (token,) = choose(logits, np.array([uniform]), Narrowing(np.ones(1), np.array([top_k]), np.array([top_p])))

    assert logits[0, token] > -np.inf
    assert top_k < 0 or (logits > logits[0, token]).sum() < top_k


def test_top_p_that_is_reached_exactly_needs_no_further_token():
    logits, spread = np.tile(np.log([0.25, 0.5, 0.25]), (16, 1)), np.arange(16) / 16

    remaining = {
        top_p: set(choose(logits, spread, Narrowing(np.ones(16), np.full(16, -1), np.full(16, top_p))).tolist())
        for top_p in (0.5, 0.75, 0.76)
    }

    assert remaining == {0.5: {1}, 0.75: {0, 1}, 0.76: {0, 1, 2}}


def test_log_softmax_and_the_most_probable():
    logprobs = log_softmax(np.vstack([LOGITS, LOGITS + 1000]))
    tokens, values = most_probable(logprobs, 4)

    np.testing.assert_allclose(logprobs, np.vstack([LOGITS, LOGITS]), atol=1e-12)
    assert tokens.tolist() == [[1, 2, 3, 4]] * 2
    np.testing.assert_allclose(np.exp(values[0]), [0.4, 0.2, 0.2, 0.1])


def test_samples_follow_the_models_own_probabilities(sampler):
    params = SamplingParams(max_tokens=1, seed=0, num_samples=3000, stop=())
    tokens = [item.tokens[0] for item in sampler.sample(PROMPTS[:1], params)]

    scored = sampler.logprobs([*PROMPTS[0], 0], topk=3)
    for token, logprob in zip(scored.topk_tokens[3], scored.topk_logprobs[3], strict=True):
        share = float(np.exp(logprob))
        assert tokens.count(token) / 3000 == pytest.approx(share, abs=4 * (share * (1 - share) / 3000) ** 0.5)


# --- where a reply ends ---


@pytest.mark.parametrize("place", range(len(PROMPTS)))
@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_stop_text_ends_the_reply_wherever_tokens_divide_it(sampler, replies, place, width):
    whole = TOKENIZER.bytes_of(replies[place].tokens)
    text = whole.decode("utf-8", errors="replace")
    stop = next(part for at in range(3, len(text)) if "\ufffd" not in (part := text[at : at + width]))

    (reply,) = sampler.sample([PROMPTS[place]], SamplingParams(max_tokens=24, seed=11, stop=(stop, "never to be seen")))

    end = next(count for count in range(1, 25) if stop.encode() in TOKENIZER.bytes_of(replies[place].tokens[:count]))
    assert reply.tokens == replies[place].tokens[:end]
    assert reply.logprobs == replies[place].logprobs[:end]
    assert (reply.stop_reason, reply.text) == ("stop", text[: text.index(stop)])


def test_the_first_of_several_tokens_or_sequences_ends_the_reply(sampler, replies):
    tokens = replies[0].tokens
    first = min(tokens.index(tokens[9]), tokens.index(tokens[4])) + 1
    for stops, end, length in (
        ((tokens[9], tokens[4], (1, 2)), first, 1),
        ((tuple(tokens[6:9]), tuple(tokens[12:14])), 9, 3),
    ):
        (reply,) = sampler.sample(PROMPTS[:1], SamplingParams(max_tokens=24, seed=11, stop=stops))

        assert (reply.tokens, reply.stop_reason) == (tokens[:end], "stop")
        assert reply.text == TOKENIZER.decode(tokens[: end - length])


def test_the_end_token_ends_a_reply_unless_stops_are_given():
    stops = {stop: Stops(stop, TOKENIZER) for stop in (None, (), ("x",))}

    ended = {stop: item.text_before_end([104, 105, TOKENIZER.eos]) for stop, item in stops.items()}

    assert ended == {None: "hi", (): None, ("x",): None}


def test_a_stop_text_may_begin_within_a_token_and_span_characters():
    stops, tokens, ends = Stops(("🙂!", "é"), TOKENIZER), [], []
    for byte in "a🙂!".encode():
        tokens.append(byte)
        ends.append(stops.text_before_end(tokens))

    assert ends == [None] * 5 + ["a"]


def test_the_first_of_two_stops_in_one_token_counts():
    token = TOKENIZER.encode(" a")

    assert len(token) == 1
    assert Stops(("a", " "), TOKENIZER).text_before_end([120, *token]) == "x"


@pytest.mark.parametrize("stop", ["", ()])
def test_an_empty_stop_is_refused(stop):
    with pytest.raises(ValueError, match="cannot end a reply: it is empty"):
        Stops((stop,), TOKENIZER)


def test_a_reply_ends_with_the_context(sampler):
    (reply,) = sampler.sample([PROMPTS[6]], SamplingParams(seed=0, stop=()))

    assert len(reply.tokens) == SHAPE.context - 100
    assert (reply.stop_reason, reply.text) == ("length", TOKENIZER.decode(reply.tokens))


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ([], "the prompt is empty"),
        ([1] * 160, "the prompt has 160 tokens, which leaves no room in a context of 160"),
        ([1] * 500, "the prompt has 500 tokens"),
        ([1, 298], f"token 298 of the prompt does not exist, ids are 0 to {SHAPE.vocabulary - 1}"),
        ([-1], "token -1 of the prompt does not exist"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_refused_before_anything_is_sampled(sampler, prompt, sentence):
    with pytest.raises(ValueError, match=sentence):
        sampler.sample([PROMPTS[0], prompt], ENDLESS)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"temperature": -0.1}, "temperature must be 0 or more"),
        ({"temperature": float("nan")}, "temperature must be 0 or more"),
        ({"temperature": float("inf")}, "temperature must be 0 or more"),
        ({"top_k": 0}, "top_k must be -1"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"top_p": 1.1}, "top_p must be above 0"),
        ({"num_samples": 0}, "num_samples must be at least 1"),
        ({"stop": "text"}, "stop must be a tuple"),
    ],
)
def test_invalid_sampling_parameters_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        SamplingParams(**settings)


def test_each_prompt_needs_its_parameters(sampler):
    assert sampler.sample([], ENDLESS) == []
    with pytest.raises(ValueError, match="2 prompts and 1 parameters"):
        sampler.sample(PROMPTS[:2], [ENDLESS])


def test_abandoned_replies_end_at_their_next_token(sampler, replies):
    recorded = list[int]()
    abandoned = replace(
        ENDLESS,
        num_samples=3,
        watch=lambda number, token: recorded.append(token),
        is_abandoned=lambda: len(recorded) > 5,
    )
    left, remaining = sampler.sample(PROMPTS[:1], abandoned), sampler.sample(PROMPTS[:2], [abandoned, ENDLESS])

    assert {len(reply.tokens) for reply in left} == {2}
    assert left[0].tokens == replies[0].tokens[:2]
    assert remaining[-1] == replies[1]
