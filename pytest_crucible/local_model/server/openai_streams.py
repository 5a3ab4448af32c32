"""Replies in pieces, as server-sent events: each piece is sent when the model has written it.

Together the pieces are the text that the whole reply would have.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from pytest_crucible.local_model.sampling import PromptTooLong, Sampled, check_request
from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.messages import Json, Response, bad_request
from pytest_crucible.local_model.server.openai_models import fingerprint
from pytest_crucible.local_model.server.openai_replies import compute_replies, count_usage, long_prompt_refusal
from pytest_crucible.local_model.server.openai_requests import read_stops
from pytest_crucible.local_model.server.replies import SampleRequest, Weights
from pytest_crucible.local_model.server.request_fields import Body
from pytest_crucible.local_model.server.state import Service
from pytest_crucible.local_model.text_pieces import TextPieces
from pytest_crucible.local_model.tokens import Tokenizer

Token = tuple[int, int]
"""Number of the choice and a token of it."""
Send = Callable[[int, int], None]


async def open_stream(
    service: Service,
    weights: Weights,
    body: Body,
    sample_requests: Sequence[SampleRequest],
    kind: str,
    prefix: str,
    piece: Callable[[int, str, Sampled | None], dict[str, Json]],
) -> Response:
    """Return a response whose body comes in pieces. Refuses first what could not be refused any more once they are sent."""
    _check_stream(weights, body, sample_requests)
    with_usage = request_fields.boolean(request_fields.json_object(body, "stream_options", {}), "include_usage", False)
    base: dict[str, Json] = {"id": f"{prefix}-{next(service.numbers)}", "object": kind, "created": int(service.clock())}
    base |= {"model": request_fields.text(body, "model"), **fingerprint(weights)}

    def event(choices: list[Json], usage: Json = None) -> dict[str, Json]:
        return {**base, "choices": choices, **({"usage": usage} if with_usage else {})}

    events = stream_events(
        lambda send: compute_replies(service, weights, _with_watch(sample_requests, send)),
        weights.base.engine.tokenizer,
        read_stops(body),
        lambda choice, text, reply: event([piece(choice, text, reply)]),
        lambda replies: event([], count_usage(sample_requests, replies)) if with_usage else None,
    )
    return Response(body=b"", kind="text/event-stream", events=events)


def _check_stream(weights: Weights, body: Body, sample_requests: Sequence[SampleRequest]) -> None:
    if (wanted := body.get("logprobs")) is not None and wanted is not False:
        raise bad_request("logprobs are not streamed by this server: leave out stream or logprobs")
    for sample_request in sample_requests:
        try:
            check_request(sample_request.prompt, sample_request.params, weights.base.engine.shape)
        except PromptTooLong as error:
            raise long_prompt_refusal(weights, error) from None


def _with_watch(sample_requests: Sequence[SampleRequest], send: Send) -> list[SampleRequest]:
    """Return the requests with a watch that sends each token with the number of its choice."""
    watches = [
        functools.partial(_send_from, send, position * request.params.num_samples)
        for position, request in enumerate(sample_requests)
    ]
    pairs = zip(sample_requests, watches, strict=True)
    return [replace(request, params=replace(request.params, watch=watch)) for request, watch in pairs]


def _send_from(send: Send, first: int, number: int, token: int) -> None:
    send(first + number, token)


async def stream_events(
    start: Callable[[Send], Awaitable[Sequence[Sampled]]],
    tokenizer: Tokenizer,
    stops: Sequence[str],
    piece: Callable[[int, str, Sampled | None], Mapping[str, Json]],
    end: Callable[[Sequence[Sampled]], Mapping[str, Json] | None],
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a request.

    `start` computes replies and calls the function it gets for each token, from any thread. `piece` makes an event of a choice's
    text, which has the reply when it is the last, and `end` an event after all choices, or None. A computation that fails is an
    event with an error.
    """
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[Token | None]()
    texts: dict[int, TextPieces] = {}

    def send(choice: int, token: int) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, (choice, token))

    task = asyncio.ensure_future(start(send))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (item := await queue.get()) is not None:
            choice, token = item
            texts.setdefault(choice, TextPieces(tokenizer, stops))
            if text := texts[choice].add(token):
                yield _event(piece(choice, text, None))
        if error := task.exception():
            problem: dict[str, Json] = {
                "message": str(error),
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
            yield _event({"error": problem})
            return
        replies = task.result()
        for choice, reply in enumerate(replies):
            rest = texts[choice].rest(reply.text) if choice in texts else reply.text
            yield _event(piece(choice, rest, reply))
        if (last := end(replies)) is not None:
            yield _event(last)
        yield b"data: [DONE]\n\n"
    finally:
        task.cancel()


def _event(content: Mapping[str, Json]) -> bytes:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode("utf-8", errors="replace")
