"""The Tinker backend over a client of the SDK: prompts, seeds, errors, and services that are gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_crucible import BackendError, Refused, Request
from pytest_crucible.backends.tinker.backend import TinkerBackend, prompt_tokens, sampling_params
from pytest_crucible.records.errors import Retryable


@pytest.fixture
def tinker() -> Any:
    return pytest.importorskip("tinker")


class Client:
    """A SamplingClient that answers with the tokens of the prompt, or with an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[Any] = []
        self.error = error

    def sample(self, prompt: Any, num_samples: int, sampling_params: Any) -> Future[Any]:
        self.asked.append(sampling_params)
        answer: Future[Any] = Future()
        if self.error is not None:
            answer.set_exception(self.error)
        elif prompt.length < 100:
            answer.set_result(
                SimpleNamespace(sequences=[SimpleNamespace(tokens=prompt.to_ints(), stop_reason="length")])
            )
        return answer


class Letters:
    """A tokenizer of code points, with a chat template."""

    chat_template = "{{ messages }}"

    def encode(self, text: str, **options: bool) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return "".join(map(chr, token_ids))

    def apply_chat_template(self, messages: Any, **options: bool) -> str:
        return "".join(f"<{message['role']}>{_text(message['content'])}" for message in messages)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content if part["type"] == "text")


def request_for(text: Any, *, repeat: int = 0, call: int = 1, **parameters: Any) -> Request:
    return Request(input=text, sample="q1", repeat=repeat, parameters=parameters, call=call)


def test_a_reply_has_text_tokens_and_its_end(tinker):
    backend = TinkerBackend(Client(), Letters(), identity="a")
    reply = asyncio.run(backend.generate(request_for("two\nlines\n", stop=["\n"], max_tokens=6)))

    assert (reply.text, reply.input_tokens, reply.output_tokens, reply.finish) == ("two\nlines", 10, 10, "length")


def test_each_repeat_and_call_derives_its_seed(tinker):
    def seeds(**options: Any) -> list[int | None]:
        client = Client()
        backend = TinkerBackend(client, Letters(), identity="a", **options)
        for text, repeat, call in (("a", 0, 1), ("a", 0, 2), ("a", 1, 1), ("b", 0, 1)):
            asyncio.run(backend.generate(request_for(text, repeat=repeat, call=call)))
        return [entry.seed for entry in client.asked]

    assert seeds(seed=3) == seeds(seed=3) != seeds(seed=4)
    assert len(set(seeds(seed=3))) == 4
    assert seeds() == [None] * 4


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"tempreature": 1}, "Tinker has no parameter 'tempreature': it takes temperature, max_tokens, .*"),
        ({"temperature": "hot"}, "Tinker cannot sample with temperature = 'hot': give a valid value"),
    ],
)
def test_an_invalid_parameter_is_refused(tinker, parameters, sentence):
    with pytest.raises(Refused, match=sentence):
        sampling_params(parameters)


def test_prompts_are_texts_messages_or_tokens():
    messages = [{"role": "user", "content": "hi"}]

    assert prompt_tokens("hi", Letters()) == prompt_tokens([104, 105], Letters()) == [104, 105]
    assert prompt_tokens(messages, Letters()) == Letters().encode("<user>hi")
    for wrong in (3, [], [True], {"a": 1}, [1, "a"]):
        with pytest.raises(Refused, match="give a text, messages with role and content, or token ids"):
            prompt_tokens(wrong, Letters())
    with pytest.raises(Refused, match="has no chat template"):
        prompt_tokens(messages, SimpleNamespace())


def answer_of(status: int, sdk: Any) -> Exception:
    import httpx

    response = httpx.Response(status, request=httpx.Request("POST", "http://tinker"))
    return sdk.APIStatusError("wrapped", response=response, body={"detail": "no such thing as tml-key"})


@pytest.mark.parametrize(("status", "kind"), [(401, Refused), (404, Refused), (400, BackendError), (500, Retryable)])
def test_an_error_stops_the_run_only_where_no_request_can_succeed(tinker, status, kind):
    backend = TinkerBackend(
        Client(answer_of(status, tinker)), Letters(), identity="a", hide=lambda text: text.replace("tml-key", "(key)")
    )
    with pytest.raises(BackendError) as caught:
        asyncio.run(backend.generate(request_for("a")))

    assert (type(caught.value), str(caught.value)) == (kind, "Tinker gave no answer: no such thing as (key)")


def test_a_service_that_is_gone_is_not_waited_for(tinker):
    looks = iter([None, None])

    def check(waited_s: float) -> None:
        if next(looks, "gone") == "gone":
            raise BackendError("the service is gone")

    backend = TinkerBackend(Client(), Letters(), identity="a", check=check)
    with pytest.raises(BackendError, match="is gone"):
        asyncio.run(asyncio.wait_for(backend.generate(request_for("a" * 100)), 10))


def test_a_cancelled_request_cancels_its_future(tinker):
    answers = []

    class Watched(Client):
        def sample(self, *arguments: Any) -> Future[Any]:
            answers.append(super().sample(*arguments))
            return answers[0]

    async def cut_short() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await TinkerBackend(Watched(), Letters(), identity="a").generate(request_for("a" * 100))
        await asyncio.sleep(0)

    asyncio.run(cut_short())

    assert answers[0].cancelled()


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "video", "file"])
def test_media_parts_are_refused(kind):
    content = [{"type": "text", "text": "What is this?"}, {"type": kind, kind: "..."}]
    with pytest.raises(
        Refused, match=f"a part of type '{kind}', and backend 'tinker' sends texts only: use backend 'openai'"
    ):
        prompt_tokens([{"role": "user", "content": content}], Letters())


def test_text_parts_are_read():
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert prompt_tokens([{"role": "user", "content": content}], Letters()) == Letters().encode("<user>ab")
