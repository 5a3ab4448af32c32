"""Sampling for many clients: replies equal those alone, short ones do not wait for long ones, and who leaves frees the rows."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest
import pytest_asyncio
from tiny_model import SHA256, SHAPE, TOKENIZER, adapted_sampler, tiny_engine, tiny_weights

from pytest_crucible.local_model import reading, sampling
from pytest_crucible.local_model.decoding import Decoder
from pytest_crucible.local_model.engine import Engine, Sampler
from pytest_crucible.local_model.grammar import Language, characters, repeat
from pytest_crucible.local_model.losses import NotFinite
from pytest_crucible.local_model.sampling import Batch, SamplingParams, request_replies
from pytest_crucible.local_model.server.decoding_loop import DecodingLoop, _step_batch
from pytest_crucible.local_model.server.transport import Refusal

pytestmark = pytest.mark.asyncio
ENDLESS = SamplingParams(max_tokens=30, seed=3, stop=())


@pytest.fixture(scope="module")
def samplers() -> list[Sampler]:
    engine = tiny_engine()
    other = {name: matrix * np.float32(1.1) for name, matrix in engine.weights.items()}
    adapted = [adapted_sampler(engine, 4), adapted_sampler(engine, 8, seed=1, train_mlp=False)]
    return [engine.sampler(), Engine(TOKENIZER, SHAPE, other, SHA256).sampler(), *adapted]


@pytest_asyncio.fixture
async def decoding() -> AsyncIterator[DecodingLoop]:
    decoding = DecodingLoop()
    yield decoding
    decoding.stop()
    decoding.join()


def random_prompt(source: random.Random) -> list[int]:
    return [source.randrange(SHAPE.vocabulary - 2) for _ in range(source.choice((1, 3, 60, 64, 65, 100)))]


@pytest.mark.parametrize("seed", range(5))
async def test_replies_of_many_clients_equal_those_alone(decoding, samplers, seed, monkeypatch):
    # So few that rows pause for those of others.
    monkeypatch.setattr(sampling, "_POSITIONS", 400)
    source = random.Random(seed)
    requests = []
    for client in range(8):
        for _ in range(source.randrange(1, 4)):
            params = replace(
                ENDLESS,
                max_tokens=source.randrange(1, 30),
                seed=source.randrange(5),
                num_samples=source.choice((1, 1, 2, 5)),
                temperature=source.choice((0.0, 0.7, 1.0)),
                top_k=source.choice((-1, 5)),
            )
            requests.append((source.choice(samplers), random_prompt(source), params, source.choice((0, 0, 2)), client))

    async def ask(sampler, prompt, params, topk, client, cancelled):
        await asyncio.sleep(source.random() * 0.05)
        future = decoding.ask(sampler, prompt, params, topk, client)
        if cancelled:
            await asyncio.sleep(source.random() * 0.02)
            future.cancel()
            return None
        return await future

    answers = await asyncio.gather(*(ask(*request, source.random() < 0.2) for request in requests))

    for (sampler, prompt, params, topk, _), answer in zip(requests, answers, strict=True):
        assert answer is None or repr(answer) == repr(sampler.sample([prompt], params, topk=topk))


async def test_a_short_reply_does_not_wait_for_a_neighbours_long_ones(decoding, samplers):
    has_begun, goes_on, ended = threading.Event(), threading.Event(), list[str]()

    def hold(*_):
        has_begun.set()
        goes_on.wait(60)

    long, short = replace(ENDLESS, max_tokens=150, num_samples=64, watch=hold), replace(ENDLESS, max_tokens=2)
    answers = {"long": decoding.ask(samplers[0], [1, 2], long, 0, "neighbour")}
    assert await asyncio.to_thread(has_begun.wait, 60)
    answers |= {f"short {k}": decoding.ask(samplers[k], [3], short, 0, "small") for k in range(2)}
    for name, answer in answers.items():
        answer.add_done_callback(lambda _, name=name: ended.append(name))
    goes_on.set()
    await asyncio.gather(*answers.values())

    assert ended[-1] == "long"


async def test_a_short_prompt_is_read_between_the_pieces_of_long_ones(decoding, samplers, monkeypatch):
    monkeypatch.setattr(reading, "PIECE", 1)
    first = replace(ENDLESS, max_tokens=1)
    prompts = {"long": [*range(100)], "as long": [*range(1, 101)], "short": [3]}
    ended: list[str] = []

    answers = [decoding.ask(samplers[0], prompt, first, 0, name) for name, prompt in prompts.items()]
    for name, answer in zip(prompts, answers, strict=True):
        answer.add_done_callback(lambda _, name=name: ended.append(name))
    await asyncio.gather(*answers)

    assert ended[0] == "short"


async def test_adapters_on_one_base_are_decoded_together(samplers):
    base, _, *adapted = samplers
    batch = Batch(base.engine.folded, SHAPE, TOKENIZER)
    of_each = dict(enumerate([base, *adapted]))
    for number, sampler in of_each.items():
        batch.add(request_replies(sampler.weights, [1, 2, 3], ENDLESS, SHAPE, owner=number))
    batch.fill()
    rows = len(batch.rows)
    replies = []
    while batch.fill():
        replies += batch.step()

    assert rows == 3
    assert len({reply.text for _, reply in replies}) == 3
    for request, reply in replies:
        assert [reply] == of_each[request.owner].sample([[1, 2, 3]], ENDLESS)


async def test_who_leaves_frees_the_rows_at_the_next_token(decoding, samplers):
    tokens: list[int] = []
    has_left = threading.Event()

    def watch(number: int, _: int) -> None:
        tokens.append(number)
        has_left.wait(60)

    endless = replace(ENDLESS, max_tokens=150, num_samples=64, watch=watch)
    left = decoding.ask(samplers[0], [1, 2], endless, 0, "a")
    while not tokens:
        await asyncio.sleep(0.001)
    left.cancel()
    has_left.set()
    await decoding.ask(samplers[0], [1], replace(ENDLESS, max_tokens=3), 0, "b")

    before = len(tokens)
    await asyncio.sleep(0.05)
    assert len(tokens) == before < 64 * 150
    assert not decoding._lanes


async def test_a_request_that_fails_fails_alone(decoding, samplers):
    flat = tiny_weights()
    flat["layers.0.qkv"] = flat["layers.0.qkv"] * np.float32(np.nan)
    broken = Engine(TOKENIZER, SHAPE, flat, SHA256).sampler()

    good = decoding.ask(samplers[0], [5], ENDLESS, 0, "a")
    with pytest.raises(NotFinite, match="the weights are not finite"):
        await decoding.ask(broken, [5], ENDLESS, 0, "a")
    with pytest.raises(ValueError, match="token 99999 of the prompt does not exist"):
        await decoding.ask(samplers[0], [99999], ENDLESS, 0, "a")

    assert await good == samplers[0].sample([[5]], ENDLESS)
    for read_prompt in (broken.logprobs, broken.embed):
        with pytest.raises(NotFinite, match="the weights are not finite"):
            read_prompt([5, 6])


@pytest.mark.parametrize("part", ["watch", "language"])
async def test_a_reply_that_fails_at_a_token_fails_alone(decoding, samplers, part):
    def fail(*_):
        raise RuntimeError("no further")

    language = Language(repeat(characters("ab")), [bytes([byte]) for byte in b"ab"], TOKENIZER.eos)
    language.find_mask = fail
    params = replace(ENDLESS, **({"watch": fail} if part == "watch" else {"language": language}))

    good = decoding.ask(samplers[0], [5], ENDLESS, 0, "a")
    with pytest.raises(RuntimeError, match="no further"):
        await decoding.ask(samplers[0], [5, 6], params, 0, "b")

    assert await good == samplers[0].sample([[5]], ENDLESS)


async def test_a_batch_that_fails_reports_each_request_once_and_can_be_used_again(samplers, monkeypatch):
    batch = Batch(samplers[0].engine.folded, SHAPE, TOKENIZER)
    requests = [
        request_replies(samplers[0].weights, [5, number], replace(ENDLESS, max_tokens=number), SHAPE, owner=number)[0]
        for number in (1, 2, 3)
    ]
    batch.add(requests)
    batch.fill()
    with monkeypatch.context() as patch:
        # At the end of the first token, when one of the replies is complete.
        patch.setattr(Decoder, "step", lambda *_: 1 / 0)
        failed = _step_batch(batch)
    failed += _step_batch(batch)

    assert sorted(request.owner for request, _ in failed) == [1, 2, 3]
    assert batch.is_empty
    batch.add(requests)
    replies = []
    while batch.fill():
        replies += batch.step()
    expected = samplers[0].sample([request.prompt for request in requests], [request.params for request in requests])
    assert [reply for _, reply in sorted(replies, key=lambda item: item[0].owner)] == expected


async def test_after_the_stop_no_token_is_added(decoding, samplers):
    decoding.stop()

    with pytest.raises(Refusal, match="the server was stopped"):
        await decoding.ask(samplers[0], [5], ENDLESS, 0, "a")


async def test_clients_have_equal_shares_of_the_slots(samplers):
    batch = Batch(samplers[0].engine.folded, SHAPE, TOKENIZER, slots=8)
    batch.add(request_replies(samplers[0].weights, [1, 2, 3], replace(ENDLESS, num_samples=20), SHAPE), "large")
    batch.fill()
    batch.step()
    assert [row.client for row in batch.rows] == ["large"] * 8

    batch.add(request_replies(samplers[0].weights, [4], replace(ENDLESS, num_samples=2), SHAPE), "small")
    batch.add(request_replies(samplers[0].weights, [5], replace(ENDLESS, num_samples=6), SHAPE), "middle")
    batch.fill()

    shares = [sum(row.client == client for row in batch.rows) for client in ("large", "small", "middle")]
    assert shares == [3, 2, 3]


async def test_long_rows_do_not_take_more_memory_than_short_ones(samplers, monkeypatch):
    monkeypatch.setattr(sampling, "_POSITIONS", 300)
    batch = Batch(samplers[0].engine.folded, SHAPE, TOKENIZER)
    batch.add(request_replies(samplers[0].weights, list(range(100)), replace(ENDLESS, num_samples=5), SHAPE))

    batch.fill()

    assert len(batch.rows) == 300 // 130
