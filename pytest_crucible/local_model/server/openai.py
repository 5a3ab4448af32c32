"""Endpoints in OpenAI's format: completions, chats, responses and embeddings.

    POST /oai/api/v1/completions         {"model": "tinker://RUN/sampler_weights/NAME", "prompt": "...", "max_tokens": 60}

A model is the base (`crucible/tiny`), a `tinker://` path, or the bare name of sampler weights (the newest with that name). Chat
messages become a prompt by `local_model.tokens`: a single one is the prompt as it is. Streamed pieces are server-sent events, each
sent when the model has written it; together they are the text that the whole reply would have. Responses have one choice, and
nothing is stored.
"""

from __future__ import annotations

import asyncio
import base64
import functools
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import field, replace
from http import HTTPStatus

from pytest_crucible.local_model.config import Floats
from pytest_crucible.local_model.sampling import PromptTooLong, Sampled, TextPieces, Token, check_request
from pytest_crucible.local_model.server.models import Answer, SampleRequest, Scoring, Weights
from pytest_crucible.local_model.server.openai_formats import (
    MAX_TOP_LOGPROBS,
    chat_logprobs,
    check_supported,
    completion_logprobs,
    encode_prompt,
    find_weights,
    fingerprint,
    read_body,
    read_prompts,
    read_sample_request,
    read_stops,
    read_tools,
    split_calls,
    tokens_of,
    tokens_of_prompt,
    with_tools,
)
from pytest_crucible.local_model.server.openai_responses import (
    ResponseEvents,
    ResponseForm,
    read_request,
    write_response,
)
from pytest_crucible.local_model.server.openai_tools import list_tools, read_own_tools
from pytest_crucible.local_model.server.openai_wire import DONE, write_error, write_event, write_message, write_usage
from pytest_crucible.local_model.server.sampling import sample
from pytest_crucible.local_model.server.state import Endpoints, Service
from pytest_crucible.local_model.server.transport import Body, Json, Refusal, Request, Response
from pytest_crucible.local_model.tokens import Tokenizer, render_prompt
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply

Piece = Callable[[int, str, Sampled | None], dict[str, Json]]
"""Returns an event's choice from its number and a text, which has the reply when it is the last."""


WriteLogprobs = Callable[[Sequence[Token], int], Json]
"""Writes the log-probabilities of tokens; the number is the place where their text begins."""


@dataclass(frozen=True, slots=True)
class StreamedPart:
    """A piece of a choice's text, and the tokens since the one before."""

    choice: int
    text: str
    tokens: Sequence[Token]
    start: int


@dataclass(slots=True)
class StreamedChoice:
    """A choice that is streamed: tokens without a text that is certain wait for the next piece."""

    number: int
    pieces: TextPieces
    tokenizer: Tokenizer
    waiting: list[Token] = field(default_factory=list)
    start: int = 0

    def add(self, token: Token) -> StreamedPart | None:
        self.waiting.append(token)
        text = self.pieces.add(token.id)
        return self._part(text) if text else None

    def rest(self, text: str) -> StreamedPart:
        return self._part(self.pieces.rest(text))

    def _part(self, text: str) -> StreamedPart:
        part = StreamedPart(self.number, text, self.waiting, self.start)
        self.start += sum(len(self.tokenizer.decode([token.id])) for token in self.waiting)
        self.waiting = []
        return part


@dataclass(frozen=True, slots=True)
class Generation:
    """The replies to one request: the weights that give them, and a sample request for each prompt."""

    service: Service
    body: Body
    weights: Weights
    requests: Sequence[SampleRequest]
    connection: int
    """Connections have equal shares of the model."""

    async def answers(self) -> list[Answer]:
        """Return the answers to all prompts, in order. Refuses a prompt that fills the context."""
        tasks = [sample(self.service, self.weights, request, self.connection) for request in self.requests]
        try:
            return await asyncio.gather(*tasks)
        except PromptTooLong as error:
            raise self._refuse_length(error) from None
        # If one request fails or the client leaves, the others need not be computed.
        finally:
            for task in tasks:
                task.cancel()

    async def replies(self) -> list[Sampled]:
        """Return the replies to all prompts, in order."""
        return [reply for answer in await self.answers() for reply in answer.replies]

    def respond(self, kind: str, prefix: str, choices: list[Json], replies: Sequence[Sampled]) -> Response:
        """Return the response with all choices; the id starts with `prefix`."""
        content = {**self._head(kind, prefix), "choices": choices, "usage": self.count_usage(replies)}
        return Response.of_json({**content, **fingerprint(self.weights)})

    def stream(self, kind: str, prefix: str, piece: Piece, write_logprobs: WriteLogprobs | None) -> Response:
        """Return a response whose body comes in chunks, each with choices."""
        self.check_stream()
        with_usage = self.body.part("stream_options", {}).boolean("include_usage", False)
        head = {**self._head(kind, prefix), **fingerprint(self.weights)}

        def write(choices: list[Json], usage: Json = None) -> bytes:
            return write_event({**head, "choices": choices, **({"usage": usage} if with_usage else {})})

        def write_piece(part: StreamedPart, reply: Sampled | None = None) -> Json:
            logprobs = None if write_logprobs is None else write_logprobs(part.tokens, part.start)
            return {**piece(part.choice, part.text, reply), "logprobs": logprobs}

        def end(replies: Sequence[Sampled], rests: Sequence[StreamedPart]) -> bytes:
            last = [write([write_piece(rest, reply)]) for rest, reply in zip(rests, replies, strict=True)]
            return b"".join((*last, write([], self.count_usage(replies)) if with_usage else b"", DONE))

        events = self.events(lambda part: write([write_piece(part)]), end)
        return Response(body=b"", kind=_EVENT_STREAM, events=events)

    def check_stream(self) -> None:
        """Refuse what cannot be refused any more once pieces are sent."""
        for request in self.requests:
            try:
                check_request(request.prompt, request.params, self.weights.base.engine.shape)
            except PromptTooLong as error:
                raise self._refuse_length(error) from None

    async def events(
        self,
        write: Callable[[StreamedPart], bytes],
        end: Callable[[Sequence[Sampled], Sequence[StreamedPart]], bytes],
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of a request; a computation that fails is an event with an error.

        `write` writes a piece of a choice; `end` writes what is left from all replies and the rests of their texts.
        """
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[int, Token] | None]()
        tokenizer, stops = self.weights.base.engine.tokenizer, read_stops(self.body)
        choices = [
            StreamedChoice(number, TextPieces(tokenizer, stops), tokenizer)
            for number in range(sum(request.params.num_samples for request in self.requests))
        ]

        def send(first: int, number: int, token: Token) -> None:
            # Called in the thread that samples.
            loop.call_soon_threadsafe(queue.put_nowait, (first + number, token))

        task = asyncio.ensure_future(self._with_watch(send).replies())
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (item := await queue.get()) is not None:
                choice, token = item
                if part := choices[choice].add(token):
                    yield write(part)
            if error := task.exception():
                yield write_event(write_error(str(error), HTTPStatus.BAD_REQUEST))
                return
            replies = task.result()
            yield end(replies, [choice.rest(reply.text) for choice, reply in zip(choices, replies, strict=True)])
        finally:
            task.cancel()

    def _with_watch(self, send: Callable[[int, int, Token], None]) -> Generation:
        """Return the same with requests that send each token, with the number of its choice."""
        requests = []
        for position, request in enumerate(self.requests):
            watch = functools.partial(send, position * request.params.num_samples)
            requests.append(replace(request, params=replace(request.params, watch=watch)))
        return replace(self, requests=requests)

    def count_usage(self, replies: Sequence[Sampled]) -> dict[str, int]:
        """Return the numbers of tokens read and written."""
        prompt = sum(len(request.prompt) for request in self.requests)
        return write_usage(prompt, sum(len(reply.tokens) for reply in replies))

    def _head(self, kind: str, prefix: str) -> dict[str, Json]:
        service, number = self.service, next(self.service.numbers)
        head: dict[str, Json] = {"id": f"{prefix}-{number}", "object": kind, "created": int(service.clock())}
        return {**head, "model": self.body.text("model")}

    def _refuse_length(self, error: PromptTooLong) -> Refusal:
        """Return the refusal of a prompt that fills the context, with the code that clients know."""
        most = f"this model's maximum context length is {self.weights.base.engine.shape.context} tokens"
        return Refusal(f"{most}: {error}", HTTPStatus.BAD_REQUEST, "context_length_exceeded")


_EVENT_STREAM = "text/event-stream"
# The default of OpenAI's completions endpoint.
_DEFAULT_MAX_TOKENS = 16


async def completions(service: Service, request: Request) -> Response:
    """Complete one prompt or several: texts or lists of token ids."""
    body = read_body(request, "tools", "response_format")
    weights = find_weights(service, body.text("model"))
    tokenizer = weights.base.engine.tokenizer
    prompts = [encode_prompt(tokenizer, prompt, "prompt") for prompt in read_prompts(body.get("prompt"))]
    top, is_echoed = body.optional_whole("logprobs", most=MAX_TOP_LOGPROBS), body.boolean("echo", False)
    is_scored_only = is_echoed and body.get("max_tokens") == 0
    scoring = Scoring(topk=top or 0) if is_scored_only or (is_echoed and top is not None) else None
    # The parameters, of which the others are used, need a token at least.
    sampled = Body({**body, "max_tokens": 1}) if is_scored_only else body
    requests = [
        replace(
            read_sample_request(service, tokenizer, sampled, prompt, "max_tokens", _DEFAULT_MAX_TOKENS, top or 0),
            scoring=scoring,
            is_scored_only=is_scored_only,
        )
        for prompt in prompts
    ]
    generation = Generation(service, body, weights, requests, request.connection)

    def write_logprobs(tokens: Sequence[Token], start: int) -> Json:
        return completion_logprobs(tokenizer, tokens, top or 0, start)

    if body.boolean("stream", False):
        if is_echoed:
            raise Refusal("echo is not streamed by this server: leave out stream or echo")
        return generation.stream("text_completion", "cmpl", _text_choice, None if top is None else write_logprobs)
    choices: list[Json] = []
    replies: list[Sampled] = []
    for each, answer in zip(requests, await generation.answers(), strict=True):
        for reply in answer.replies:
            echoed = tokenizer.decode(each.prompt) if is_echoed else ""
            scored = [] if answer.scored is None else tokens_of_prompt(each.prompt, answer.scored)
            logprobs = None if top is None else write_logprobs([*scored, *tokens_of(reply)], 0)
            choices.append({**_text_choice(len(choices), echoed + reply.text, reply), "logprobs": logprobs})
            replies.append(reply)
    return generation.respond("text_completion", "cmpl", choices, replies)


def _text_choice(choice: int, text: str, reply: Sampled | None) -> dict[str, Json]:
    finish = None if reply is None else reply.stop_reason
    return {"index": choice, "text": text, "logprobs": None, "finish_reason": finish}


async def chat_completions(service: Service, request: Request) -> Response:
    """Reply to a conversation."""
    body = read_body(request, "echo")
    generation = _read_chat(service, body, request.connection)
    tokenizer, with_logprobs = generation.weights.base.engine.tokenizer, body.boolean("logprobs", False)
    if body.boolean("stream", False):
        piece = functools.partial(_delta_choice, read_tools(body), f"call-{next(service.numbers)}")
        write_logprobs = (lambda tokens, _: chat_logprobs(tokenizer, tokens)) if with_logprobs else None
        return generation.stream("chat.completion.chunk", "chatcmpl", piece, write_logprobs)
    replies = await generation.replies()
    has_tools = bool(read_tools(body))
    choices: list[Json] = []
    for index, reply in enumerate(replies):
        message = _chat_message(reply, f"call-{next(service.numbers)}", has_tools=has_tools)
        logprobs = chat_logprobs(tokenizer, tokens_of(reply)) if with_logprobs else None
        finish = "tool_calls" if "tool_calls" in message else reply.stop_reason
        choices.append({"index": index, "message": message, "logprobs": logprobs, "finish_reason": finish})
    return generation.respond("chat.completion", "chatcmpl", choices, replies)


def _read_chat(service: Service, body: Body, connection: int) -> Generation:
    weights = find_weights(service, body.text("model"))
    tokenizer = weights.base.engine.tokenizer
    prompt = _chat_prompt(tokenizer, with_tools(body.get("messages"), body))
    top = body.whole("top_logprobs", 0, most=MAX_TOP_LOGPROBS)
    if top and not body.boolean("logprobs", False):
        raise Refusal("top_logprobs needs logprobs: true")
    limit = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
    sampled = read_sample_request(service, tokenizer, body, prompt, limit, None, top)
    return Generation(service, body, weights, [sampled], connection)


def _chat_prompt(tokenizer: Tokenizer, messages: Json) -> list[int]:
    try:
        return tokenizer.encode(render_prompt(messages)) or [tokenizer.eos]
    except TypeError as error:
        raise Refusal(f"messages cannot be read: {error}") from None


def _chat_message(reply: Sampled, prefix: str, *, has_tools: bool) -> dict[str, Json]:
    """Return a reply as a message, with its tool calls where the request has tools."""
    content, calls = split_calls(reply.text, prefix) if has_tools else (reply.text, [])
    return write_message(Reply(text=content or ""), calls)


def _delta_choice(
    tools: Sequence[object], prefix: str, choice: int, text: str, reply: Sampled | None
) -> dict[str, Json]:
    """Return a piece of a message. With tools, the text comes whole at its end, where its calls can be told from text."""
    delta: dict[str, Json] = {"role": "assistant", "content": "" if tools and reply is None else text}
    finish: str | None = None if reply is None else reply.stop_reason
    if tools and reply is not None:
        content, calls = split_calls(reply.text, f"{prefix}-{choice}")
        numbered: list[Json] = [{"index": number, **call} for number, call in enumerate(calls)]
        delta = {"role": "assistant", "content": content, **({"tool_calls": numbered} if calls else {})}
        finish = "tool_calls" if calls else finish
    return {"index": choice, "delta": delta, "logprobs": None, "finish_reason": finish}


async def responses(service: Service, request: Request) -> Response:
    """Reply to a text, or to a conversation."""
    body = request.object()
    tools = list_tools(body)
    chat = check_supported(Body(read_request(body, tools)))
    if chat.get("logprobs"):
        raise Refusal("log-probabilities are not supported by this server's responses: use chat/completions")
    generation, number = _read_chat(service, chat, request.connection), str(next(service.numbers))
    form = ResponseForm(number, int(service.clock()), body.text("model"), chat, own_tools=read_own_tools(tools))
    read = functools.partial(_read_reply, generation, f"call-{number}")
    if not body.boolean("stream", False):
        return Response.of_json(write_response(form, read(await generation.replies())))
    generation.check_stream()
    writer = ResponseEvents(form)
    # With tools, the text comes whole at its end, where its calls can be told from text.
    write_piece = (lambda _: b"") if read_tools(chat) else writer.piece
    events = generation.events(lambda part: write_piece(part.text), lambda replies, _: writer.end(read(replies)))
    return Response(body=writer.begin(), kind=_EVENT_STREAM, events=events)


def _read_reply(generation: Generation, prefix: str, replies: Sequence[Sampled]) -> Reply:
    """Return the first of the replies, with its tool calls where the request has tools."""
    reply, usage = replies[0], generation.count_usage(replies)
    content, calls = split_calls(reply.text, prefix) if read_tools(generation.body) else (reply.text, [])
    return Reply(
        text=content or "",
        tool_calls=tuple(calls),
        finish=reply.stop_reason,
        input_tokens=usage["prompt_tokens"],
        output_tokens=usage["completion_tokens"],
        system_fingerprint=str(fingerprint(generation.weights).get("system_fingerprint", "")),
    )


async def embeddings(service: Service, request: Request) -> Response:
    """Return a vector for each input: a text, a list of token ids, or a list of either."""
    body = request.object()
    weights = find_weights(service, body.text("model"))
    if body.get("dimensions") not in (None, weights.base.engine.shape.width):
        raise Refusal(f"dimensions must be {weights.base.engine.shape.width}, the width of this model: leave it out")
    if (form := body.text("encoding_format", "float")) not in ("float", "base64"):
        raise Refusal(f"encoding_format is {form!r}; expected float or base64")
    texts = read_prompts(body.get("input"))
    if any(text in ("", []) for text in texts):
        raise Refusal("input is empty, or has an empty text: there is nothing to embed")
    prompts = [encode_prompt(weights.base.engine.tokenizer, text, "input") for text in texts]
    vectors = await service.work.call(lambda: service.samplers.embed(weights, prompts), request.connection)
    rows: list[Json] = [
        {"object": "embedding", "index": index, "embedding": _write(vector, form)}
        for index, vector in enumerate(vectors)
    ]
    count = sum(map(len, prompts))
    usage: Json = {"prompt_tokens": count, "total_tokens": count}
    return Response.of_json({"object": "list", "data": rows, "model": body.text("model"), "usage": usage})


def _write(vector: Floats, form: str) -> Json:
    if form == "float":
        return [float(value) for value in vector]
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")


ENDPOINTS: Endpoints = {
    ("POST", "/completions"): completions,
    ("POST", "/chat/completions"): chat_completions,
    ("POST", "/responses"): responses,
    ("POST", "/embeddings"): embeddings,
}
