"""The embedded model as a backend: what it is asked, what it answers, and that nothing beside a request changes its reply."""

from __future__ import annotations

import asyncio
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from adapter_contexts import context_in
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_base import CONTEXT, write_tiny_base

from pytest_crucible import BackendError, Refused, Request, SpecError
from pytest_crucible.adapters.local import open_local
from pytest_crucible.backends.local import EngineThread, LocalBackend, load_local, open_engine, sampling_params
from pytest_crucible.features.training.trainer import EmbeddedTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.records import Adapter

QUESTIONS = [f"What is the sum of {'two and ' * (k % 4)}{k}?" for k in range(40)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def engine(base: Path) -> Engine:
    return open_engine(base)


@pytest.fixture(scope="module")
def checkpoint(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    trainer = EmbeddedTrainer(engine, LoraSpec(rank=4), folder=folder)
    trainer.step(trainer.datums([{"prompt": "2?", "completion": "two"}]), learning_rate=0.1)
    trainer.save_sampler(folder / "adapter.safetensors")
    return folder / "adapter.safetensors"


@pytest.fixture
def backend(engine: Engine, checkpoint: Path) -> LocalBackend:
    return load_local(engine, checkpoint, name="v2")


def request(question="What?", sample: str = "a", repeat: int = 0, **parameters) -> Request:
    return Request(input=question, sample=sample, repeat=repeat, parameters={"max_tokens": 8, **parameters})


def ask(backend: LocalBackend, *requests: Request, concurrency: int = 1000):
    """Replies, so many requests at a time."""

    async def all_of_them():
        gate = asyncio.Semaphore(concurrency)

        async def answer(query: Request):
            async with gate:
                return await backend.generate(query)

        return await asyncio.gather(*map(answer, requests))

    return asyncio.run(all_of_them())


def texts(backend: LocalBackend, *requests: Request, **options) -> list[str]:
    return [reply.text for reply in ask(backend, *requests, **options)]


def test_reply_has_tokens_latency_and_finish(backend, engine):
    (reply,) = ask(backend, request("What?", max_tokens=3))

    assert reply.input_tokens == len(engine.tokenizer.encode("What?"))
    assert reply.output_tokens == 3
    assert reply.finish == "length"
    assert reply.latency_s > 0


def test_stop_text_ends_the_reply(backend):
    (whole,) = ask(backend, request(temperature=0.0))
    stop = next(letter for letter in whole.text if letter.isprintable())

    (reply,) = ask(backend, request(temperature=0.0, stop=[stop]))

    assert reply.finish == "stop"
    assert reply.text == whole.text[: whole.text.index(stop)]


@pytest.mark.parametrize("concurrency", [1, 5, 40])
def test_replies_do_not_depend_on_concurrency(backend, concurrency):
    requests = [request(question, f"q{k}") for k, question in enumerate(QUESTIONS)]

    assert texts(backend, *requests, concurrency=concurrency) == texts(backend, *reversed(requests))[::-1]


def test_reply_depends_on_seed_sample_and_repeat(backend):
    differing = [request(), request(sample="b"), request(repeat=1), request(seed=1)]

    replies = texts(backend, *differing, request(), request(seed=0))

    assert len(set(replies[:4])) == 4
    assert replies[4] == replies[5] == replies[0]


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [("", (1, 8)), ("7" * CONTEXT, (CONTEXT, 0)), ("7" * 500, (500, 0)), ("7" * (CONTEXT - 1), (CONTEXT - 1, 1))],
)
def test_context_holds_prompt_and_reply(backend, prompt, tokens):
    (reply,) = ask(backend, request(prompt))

    assert (reply.input_tokens, reply.output_tokens) == tokens
    if not reply.output_tokens:
        assert (reply.text, reply.finish) == ("", "length")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (
            request(7),
            "adapter 'v2' cannot answer sample 'a': its input is a number; expected a text or a list of messages",
        ),
        (
            request([]),
            "adapter 'v2' cannot answer sample 'a': its input is an empty list; expected a text or a list of messages",
        ),
        (request([{"role": "user"}]), "adapter 'v2' cannot answer sample 'a': a message has no text: write"),
        (request(["Why?"]), "adapter 'v2' cannot answer sample 'a': a message has no text: write"),
        (request(temprature=0), "adapter 'v2' has invalid parameters: unknown parameter 'temprature', expected"),
        (request(top_p=0), "adapter 'v2' has invalid parameters: top_p must be above 0 and at most 1, not 0"),
    ],
)
def test_invalid_requests_stop_the_experiment(backend, query, sentence):
    with pytest.raises(Refused) as caught:
        ask(backend, query)

    assert str(caught.value).startswith(sentence)


def test_invalid_unicode_loses_only_its_sample(backend):
    with pytest.raises(BackendError) as caught:
        ask(backend, request("\ud800"))

    assert not isinstance(caught.value, Refused)
    assert texts(backend, request())


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"temperature": "hot"}, "temperature must be a number, not 'hot'"),
        ({"temperature": -1}, "the temperature must be 0 or more, not -1"),
        ({"temperature": float("nan")}, "the temperature must be 0 or more, not nan"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, not 0"),
        ({"max_tokens": 1.5}, "max_tokens must be a whole number, not 1.5"),
        ({"max_tokens": True}, "max_tokens must be a whole number, not True"),
        ({"top_k": 0}, "top_k must be -1 (all tokens) or at least 1, not 0"),
        ({"seed": "x"}, "seed must be a whole number, not 'x'"),
        ({"stop": ""}, "stop must be a text or a list of texts, none of them empty, not ''"),
        ({"stop": 7}, "stop must be a text or a list of texts, none of them empty, not 7"),
        ({"stop": ["a", 7]}, "stop must be a text or a list of texts, none of them empty, not ['a', 7]"),
    ],
)
def test_invalid_parameters_are_refused(parameters, sentence):
    with pytest.raises(ValueError, match=r".") as caught:
        sampling_params(parameters)

    assert str(caught.value) == sentence


def test_none_is_the_default():
    assert sampling_params({"temperature": None, "stop": None}) == sampling_params({})


def test_identity_covers_base_and_adapter_only(base, engine, checkpoint, tmp_path):
    moved = shutil.copytree(base, tmp_path / "moved")
    other = open_engine(write_tiny_base(tmp_path / "other", seed=1))
    copied = Path(shutil.copy(checkpoint, tmp_path / "copy.safetensors"))

    assert (
        load_local(open_engine(moved), copied, name="x").identity == load_local(engine, checkpoint, name="v2").identity
    )
    assert (
        load_local(engine, checkpoint.parent, name="x").identity == load_local(engine, checkpoint, name="v2").identity
    )
    assert len({load_local(engine, checkpoint, name="").identity, engine.base_sha256, other.base_sha256}) == 3
    assert load_local(engine, None, name="").identity == engine.base_sha256


def test_base_is_read_once_until_it_changes(base):
    before = open_engine(base)

    assert open_engine(base) is before
    (base / "tokenizer.json").touch()
    assert open_engine(base) is not before


# -- opening ------------------------------------------------------------------------------------------------------


def open_adapter(root: Path, parameters=None, **options) -> LocalBackend:
    adapter = Adapter(name="v2", backend="local", options=options, parameters=parameters or {})
    return open_local(adapter, context_in(root))


def test_paths_are_relative_to_the_configuration(base, checkpoint, tmp_path):
    shutil.copytree(base, tmp_path / "base")
    shutil.copy(checkpoint, tmp_path / "v2.safetensors")

    assert isinstance(open_adapter(tmp_path, base="base", checkpoint="v2.safetensors"), LocalBackend)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"chekpoint": "x"},
            "adapter 'v2' has 'chekpoint', which backend 'local' does not know: did you mean 'checkpoint'? it takes recipe",
        ),
        ({"recipe": "a:b", "checkpoint": "x"}, "adapter 'v2' has a recipe and a checkpoint: remove one of them"),
        ({"seed": 1}, "adapter 'v2' has 'seed', which only a recipe uses: add a recipe, or remove it"),
        ({"checkpoint": 1}, "adapter 'v2' has backend 'local' but no 'checkpoint': add"),
        ({"checkpoint": "gone.safetensors"}, "adapter 'v2' cannot be opened: {root}/gone.safetensors does not exist"),
        ({"checkpoint": "junk"}, "adapter 'v2' cannot be opened: "),
        ({"checkpoint": "other.safetensors"}, "adapter 'v2' cannot be opened: "),
        ({"base": "gone"}, "base model '"),
        ({"base": "junk"}, "base model '"),
        ({"parameters": {"heat": 1}}, "adapter 'v2' has invalid parameters: unknown parameter 'heat', expected"),
    ],
)
def test_invalid_adapters_are_refused(base, tmp_path, options, sentence):
    shutil.copytree(base, tmp_path / "base")
    (tmp_path / "junk").write_text("junk")
    other = open_engine(write_tiny_base(tmp_path / "other", seed=1))
    EmbeddedTrainer(other, LoraSpec(rank=2), folder=tmp_path).save_sampler(tmp_path / "other.safetensors")

    with pytest.raises(SpecError) as caught:
        open_adapter(tmp_path, **{"base": "base", **options})

    assert str(caught.value).startswith(sentence.replace("{root}", str(tmp_path)))
    if options.get("checkpoint") == "other.safetensors":
        assert "belongs to base model" in str(caught.value)


# -- the thread ---------------------------------------------------------------------------------------------------


class Counting:
    """A sampler that notes what it is asked together."""

    def __init__(self, *, hold: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.asked, self.go_on = threading.Event(), threading.Event()
        if not hold:
            self.go_on.set()

    def sample(self, prompts, params):
        self.batches.append([len(prompt) for prompt in prompts])
        self.asked.set()
        assert self.go_on.wait(60)
        if any(len(prompt) == 13 for prompt in prompts):
            raise MemoryError("unlucky")
        return [len(prompt) for prompt in prompts]


def test_waiting_requests_are_batched_by_length():
    thread, sampler = EngineThread(), Counting(hold=True)
    lengths = [length for length in range(71, 1, -1) if length != 13]
    thread.ask(sampler, [0], sampling_params({}))
    assert sampler.asked.wait(60)

    answers = [thread.ask(sampler, [0] * length, sampling_params({})) for length in lengths]
    sampler.go_on.set()

    assert [answer.result(20) for answer in answers] == lengths
    assert list(map(len, sampler.batches)) == [1, 32, 32, 5]
    assert [length for batch in sampler.batches for length in batch] == [1, *sorted(lengths)]


def test_requests_are_batched_by_model():
    thread, samplers = EngineThread(), [Counting(), Counting()]

    answers = [thread.ask(samplers[k % 2], [0] * (k + 1), sampling_params({})) for k in range(10)]

    assert [answer.result(20) for answer in answers] == list(range(1, 11))
    assert sorted(length for batch in samplers[0].batches for length in batch) == [1, 3, 5, 7, 9]


def test_cancelled_request_is_not_computed():
    thread, sampler = EngineThread(), Counting(hold=True)
    first = thread.ask(sampler, [0], sampling_params({}))
    assert sampler.asked.wait(60)
    waiting = [thread.ask(sampler, [0] * length, sampling_params({})) for length in (2, 3)]
    waiting[0].cancel()
    sampler.go_on.set()

    assert (first.result(20), waiting[1].result(20)) == (1, 3)
    assert sampler.batches == [[1], [3]]


def test_error_reaches_the_batch_and_the_thread_continues():
    thread, sampler = EngineThread(), Counting()

    with pytest.raises(MemoryError, match="unlucky"):
        thread.ask(sampler, [0] * 13, sampling_params({})).result(20)

    assert thread.ask(sampler, [0], sampling_params({})).result(20) == 1


@settings(max_examples=40, deadline=None)
@given(
    question=st.sampled_from(QUESTIONS[:6]),
    seed=st.integers(0, 100),
    temperature=st.sampled_from([0.0, 0.7, 2.0]),
    stop_at=st.none() | st.integers(0, 30),
    size=st.integers(1, 4),
)
def test_streamed_reply_equals_the_whole_one(engine, question, seed, temperature, stop_at, size):
    backend = load_local(engine, None, name="base")
    parameters = {"max_tokens": 30, "seed": seed, "temperature": temperature}
    pieces: list[str] = []
    query = request(question, **parameters)

    (whole,) = ask(backend, query)
    # A stop that the model does write, and of which one token may write only the beginning.
    if stop_at is not None and (stop := whole.text[stop_at : stop_at + size].replace("\ufffd", "")):
        query = request(question, **parameters, stop=[stop, "zzz"])
        (whole,) = ask(backend, query)
    (streamed,) = ask(backend, replace(query, open_stream=lambda: pieces.append))

    assert (streamed.text, streamed.finish, streamed.output_tokens) == (whole.text, whole.finish, whole.output_tokens)
    assert whole.text.startswith("".join(pieces))
    assert 0 < streamed.first_token_s <= streamed.latency_s
    assert whole.first_token_s is None


def test_tokens_are_streamed_one_by_one(backend):
    pieces: list[str] = []
    ask(backend, replace(request("What?", max_tokens=12), open_stream=lambda: pieces.append))

    assert len([piece for piece in pieces if piece]) > 4
