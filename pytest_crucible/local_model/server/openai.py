"""Endpoints in OpenAI's format, through which any client reaches the same checkpoints: completions, chat completions, models.

    POST /oai/api/v1/completions         {"model": "tinker://RUN/sampler_weights/NAME", "prompt": "...", "max_tokens": 60}

A model is the base (`crucible/tiny`), a `tinker://` path, or the bare name of sampler weights (the newest with that name). Chat
messages become a prompt by `local_model.chat`: a single one is the prompt as it is.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus

from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.chat import render_prompt
from pytest_crucible.local_model.sampling import PromptTooLong, Sampled, SamplingParams, check_request
from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.archive import SAMPLER, SCHEME
from pytest_crucible.local_model.server.messages import (
    Json,
    Refusal,
    Request,
    Response,
    bad_request,
    json_response,
    not_found,
)
from pytest_crucible.local_model.server.openai_formats import read_language, read_tools, split_calls, with_tools
from pytest_crucible.local_model.server.openai_streams import Send, stream_events
from pytest_crucible.local_model.server.replies import SampleRequest, Weights
from pytest_crucible.local_model.server.request_fields import Body
from pytest_crucible.local_model.server.sampling import sample
from pytest_crucible.local_model.server.state import Endpoints, Service, derive_seed
from pytest_crucible.local_model.tokens import Tokenizer

LOCAL = "local:"
STAND_IN = f"stand-in:{BASE_MODEL}"
"""The system fingerprint of replies that a stand-in gives under another model's name."""
MAX_CHOICES, MAX_TOP_LOGPROBS = 128, 20
# The default of OpenAI's completions endpoint.
_DEFAULT_MAX_TOKENS = 16
# Parameters that would change the reply and are not supported: ignoring them would return a wrong reply.
_UNSUPPORTED = (
    *("echo", "suffix", "functions", "logit_bias", "presence_penalty", "frequency_penalty"),
    *("min_p", "repetition_penalty", "best_of"),
)
# Values of these that have no effect, and are accepted.
_DEFAULTS: dict[str, Json] = {"response_format": {"type": "text"}, "repetition_penalty": 1, "best_of": 1}
_ERROR_TYPES = {
    HTTPStatus.UNAUTHORIZED: ("authentication_error", "invalid_api_key"),
    HTTPStatus.NOT_FOUND: ("invalid_request_error", "not_found"),
    HTTPStatus.TOO_MANY_REQUESTS: ("rate_limit_error", "rate_limit_exceeded"),
}


async def completions(service: Service, request: Request) -> Response:
    """Complete one prompt or several: texts or lists of token ids."""
    body = _read_body(request, "tools", "response_format")
    weights = find_weights(service, request_fields.text(body, "model"))
    tokenizer = weights.base.engine.tokenizer
    prompts = [encode_prompt(tokenizer, prompt, "prompt") for prompt in read_prompts(body.get("prompt"))]
    top = request_fields.optional_whole(body, "logprobs", most=MAX_TOP_LOGPROBS)
    sample_requests = [
        _sample_request(service, tokenizer, body, prompt, "max_tokens", _DEFAULT_MAX_TOKENS, top or 0)
        for prompt in prompts
    ]
    if request_fields.boolean(body, "stream", False):
        return await _stream(service, weights, body, sample_requests, "text_completion", "cmpl", _text_piece)
    replies = await _replies(service, weights, sample_requests)
    choices: list[Json] = [
        {
            "index": index,
            "text": reply.text,
            "logprobs": None if top is None else _completion_logprobs(tokenizer, reply),
            "finish_reason": reply.stop_reason,
        }
        for index, reply in enumerate(replies)
    ]
    return _response(service, weights, "text_completion", "cmpl", body, choices, _usage(sample_requests, replies))


async def chat_completions(service: Service, request: Request) -> Response:
    """Reply to a conversation."""
    body = _read_body(request)
    weights, sample_request = _chat_request(service, body)
    tokenizer = weights.base.engine.tokenizer
    if request_fields.boolean(body, "stream", False):
        piece = functools.partial(_delta_piece, read_tools(body))
        return await _stream(service, weights, body, [sample_request], "chat.completion.chunk", "chatcmpl", piece)
    replies = await _replies(service, weights, [sample_request])
    with_logprobs = request_fields.boolean(body, "logprobs", False)
    has_tools = bool(read_tools(body))
    choices: list[Json] = [
        {
            "index": index,
            "message": message,
            "logprobs": _chat_logprobs(tokenizer, reply) if with_logprobs else None,
            "finish_reason": "tool_calls" if "tool_calls" in message else reply.stop_reason,
        }
        for index, reply in enumerate(replies)
        if (message := _chat_message(reply, f"call-{next(service.numbers)}", has_tools=has_tools))
    ]
    return _response(service, weights, "chat.completion", "chatcmpl", body, choices, _usage([sample_request], replies))


async def answer_chat(service: Service, body: Body) -> tuple[Weights, list[Sampled], dict[str, int]]:
    """Return the replies to a chat request's body, with the weights that gave them and the usage."""
    weights, sample_request = _chat_request(service, body)
    replies = await _replies(service, weights, [sample_request])
    return weights, replies, _usage([sample_request], replies)


def fingerprint(weights: Weights) -> dict[str, Json]:
    """Return the mark of a stand-in's reply; nothing for the server's own model."""
    return {"system_fingerprint": STAND_IN} if weights.base.stand_in else {}


def _chat_request(service: Service, body: Body) -> tuple[Weights, SampleRequest]:
    weights = find_weights(service, request_fields.text(body, "model"))
    tokenizer = weights.base.engine.tokenizer
    prompt = _chat_prompt(tokenizer, with_tools(body.get("messages"), body))
    top = request_fields.whole(body, "top_logprobs", 0, most=MAX_TOP_LOGPROBS)
    limit = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
    return weights, _sample_request(service, tokenizer, body, prompt, limit, None, top)


def models(service: Service, request: Request) -> Response:
    """Return the base model and all sampler weights."""
    saved = [checkpoint for checkpoint in service.archive.all() if checkpoint.path.kind == SAMPLER]
    rows: list[Json] = [{"id": BASE_MODEL, "object": "model", "created": 0, "owned_by": "local"}]
    rows += [
        {"id": name, "object": "model", "created": 0, "owned_by": "local", "stand_in": BASE_MODEL}
        for name in service.models.stand_ins
    ]
    for checkpoint in saved:
        row: dict[str, Json] = {
            "id": str(checkpoint.path),
            "object": "model",
            "created": int(checkpoint.info.created),
            "owned_by": "local",
        }
        is_own = checkpoint.info.base_sha256 == service.engine.base_sha256
        rows.append(row if is_own else {**row, "stand_in": BASE_MODEL})
    return json_response({"object": "list", "data": rows})


def error(refusal: Refusal) -> Json:
    """Return a refusal in OpenAI's format."""
    kind, code = _ERROR_TYPES.get(refusal.status, ("invalid_request_error", None))
    return {"error": {"message": refusal.sentence, "type": kind, "param": None, "code": refusal.code or code}}


def _chat_message(reply: Sampled, prefix: str, *, has_tools: bool) -> dict[str, Json]:
    """Return a reply as a message, with its tool calls where the request has tools."""
    content, calls = split_calls(reply.text, prefix) if has_tools else (reply.text, [])
    message: dict[str, Json] = {"role": "assistant", "content": content, "refusal": None}
    return {**message, "tool_calls": calls} if calls else message


def _completion_logprobs(tokenizer: Tokenizer, reply: Sampled) -> Json:
    """Return log-probabilities in the format of /completions."""
    texts = [tokenizer.decode([token]) for token in reply.tokens]
    tops: list[Json] = [{tokenizer.decode([token]): logprob for token, logprob in row} for row in _tops(reply)]
    return {
        "tokens": texts,
        "token_logprobs": reply.logprobs,
        "top_logprobs": tops if reply.topk_tokens is not None else None,
        "text_offset": [sum(map(len, texts[:place])) for place in range(len(texts))],
    }


def _chat_logprobs(tokenizer: Tokenizer, reply: Sampled) -> Json:
    """Return log-probabilities in the format of /chat/completions."""

    def token_entry(token: int, logprob: float) -> dict[str, Json]:
        content = tokenizer.bytes_of([token])
        return {"token": content.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(content)}

    rows = zip(reply.tokens, reply.logprobs, _tops(reply), strict=True)
    content: list[Json] = [
        {**token_entry(token, logprob), "top_logprobs": [token_entry(*pair) for pair in top]}
        for token, logprob, top in rows
    ]
    return {"content": content, "refusal": None}


def _tops(reply: Sampled) -> list[list[tuple[int, float]]]:
    if reply.topk_tokens is None or reply.topk_logprobs is None:
        return [[] for _ in reply.tokens]
    pairs = zip(reply.topk_tokens.tolist(), reply.topk_logprobs.tolist(), strict=True)
    return [list(zip(tokens, logprobs, strict=True)) for tokens, logprobs in pairs]


def _read_body(request: Request, *of_chats: str) -> Body:
    """Return the body; refuse what would change the reply and is not supported, and what only chats have."""
    body = request.object()
    if unsupported := [
        name for name in (*_UNSUPPORTED, *of_chats) if body.get(name) and body[name] != _DEFAULTS.get(name)
    ]:
        raise bad_request(f"{', '.join(unsupported)} is not supported by this server: leave it out")
    return body


def read_prompts(prompt: Json) -> list[Json]:
    """Return one prompt, or several; a list of numbers is one prompt."""
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        return prompt
    return [prompt]


def encode_prompt(tokenizer: Tokenizer, prompt: Json, name: str) -> list[int]:
    """Return the tokens of a text, or the tokens that are given."""
    if isinstance(prompt, str):
        return tokenizer.encode(prompt) or [tokenizer.eos]
    return request_fields.whole_numbers(prompt, name)


def _chat_prompt(tokenizer: Tokenizer, messages: Json) -> list[int]:
    try:
        return tokenizer.encode(render_prompt(messages)) or [tokenizer.eos]
    except TypeError as error:
        raise bad_request(f"messages cannot be read: {error}") from None


def _stops(body: Body) -> list[str]:
    stop = body.get("stop")
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(text, str) and text for text in stops):
        raise bad_request("stop must be a text or a list of texts")
    return [text for text in stops if isinstance(text, str)]


def _sample_request(
    service: Service, tokenizer: Tokenizer, body: Body, prompt: list[int], limit: str, default: int | None, top: int
) -> SampleRequest:
    """Return a sample request. Stop texts are added to the end token; in Tinker's format they replace it."""
    params = SamplingParams(
        max_tokens=default if body.get(limit) is None else request_fields.whole(body, limit),
        seed=request_fields.whole(body, "seed", derive_seed("openai", next(service.numbers)), least=-(2**63)),
        temperature=request_fields.number(body, "temperature", 1.0),
        top_k=request_fields.whole(body, "top_k", -1, least=-1),
        top_p=request_fields.number(body, "top_p", 1.0),
        stop=(*_stops(body), tokenizer.eos),
        num_samples=request_fields.whole(body, "n", 1, least=1, most=MAX_CHOICES),
        language=read_language(body, tokenizer),
    )
    return SampleRequest(prompt, params, top)


async def _replies(service: Service, weights: Weights, sample_requests: Sequence[SampleRequest]) -> list[Sampled]:
    tasks = [sample(service, weights, sample_request) for sample_request in sample_requests]
    try:
        return [reply for answer in await asyncio.gather(*tasks) for reply in answer.replies]
    except PromptTooLong as error:
        raise _too_long(weights, error) from None
    # If one request fails or the client leaves, the others need not be computed.
    finally:
        for task in tasks:
            task.cancel()


def find_weights(service: Service, model: str) -> Weights:
    """Return the weights that a request names; 404 for an unknown name."""
    if base := service.models.get(model):
        return Weights(base)
    if model.startswith(SCHEME):
        return service.weights_at(model)
    name = model.removeprefix(LOCAL)
    for checkpoint in service.archive.all():
        if (checkpoint.path.kind, checkpoint.path.name) == (SAMPLER, name):
            return service.weights_at(str(checkpoint.path))
    names = ", ".join((BASE_MODEL, *service.models.stand_ins))
    raise not_found(f"unknown model {model!r}; expected {names}, a tinker:// path, or a name of sampler weights")


async def _stream(
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
        lambda send: _replies(service, weights, _with_watch(sample_requests, send)),
        weights.base.engine.tokenizer,
        _stops(body),
        lambda choice, text, reply: event([piece(choice, text, reply)]),
        lambda replies: event([], _usage(sample_requests, replies)) if with_usage else None,
    )
    return Response(body=b"", kind="text/event-stream", events=events)


def _check_stream(weights: Weights, body: Body, sample_requests: Sequence[SampleRequest]) -> None:
    if (wanted := body.get("logprobs")) is not None and wanted is not False:
        raise bad_request("logprobs are not streamed by this server: leave out stream or logprobs")
    for sample_request in sample_requests:
        try:
            check_request(sample_request.prompt, sample_request.params, weights.base.engine.shape)
        except PromptTooLong as error:
            raise _too_long(weights, error) from None


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


def _text_piece(choice: int, text: str, reply: Sampled | None) -> dict[str, Json]:
    finish = None if reply is None else reply.stop_reason
    return {"index": choice, "text": text, "logprobs": None, "finish_reason": finish}


def _delta_piece(tools: Sequence[object], choice: int, text: str, reply: Sampled | None) -> dict[str, Json]:
    """Return a piece of a message. With tools, the text comes whole at its end, where its calls can be told from text."""
    delta: dict[str, Json] = {"role": "assistant", "content": "" if tools and reply is None else text}
    finish: str | None = None if reply is None else reply.stop_reason
    if tools and reply is not None:
        content, calls = split_calls(reply.text, f"call-{choice}")
        numbered: list[Json] = [
            {"index": number, **call} for number, call in enumerate(calls) if isinstance(call, dict)
        ]
        delta = {"role": "assistant", "content": content, **({"tool_calls": numbered} if calls else {})}
        finish = "tool_calls" if calls else finish
    return {"index": choice, "delta": delta, "logprobs": None, "finish_reason": finish}


def _too_long(weights: Weights, error: PromptTooLong) -> Refusal:
    most = f"this model's maximum context length is {weights.base.engine.shape.context} tokens"
    return Refusal(HTTPStatus.BAD_REQUEST, f"{most}: {error}", "context_length_exceeded")


def _usage(sample_requests: Sequence[SampleRequest], replies: Sequence[Sampled]) -> dict[str, int]:
    read, written = (
        sum(len(sample_request.prompt) for sample_request in sample_requests),
        sum(len(reply.tokens) for reply in replies),
    )
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _response(
    service: Service, weights: Weights, kind: str, prefix: str, body: Body, choices: list[Json], usage: Json
) -> Response:
    return json_response(
        {
            "id": f"{prefix}-{next(service.numbers)}",
            "object": kind,
            "created": int(service.clock()),
            "model": request_fields.text(body, "model"),
            "choices": choices,
            "usage": usage,
            **fingerprint(weights),
        }
    )


ENDPOINTS: Endpoints = {
    ("POST", "/completions"): completions,
    ("POST", "/chat/completions"): chat_completions,
    ("GET", "/models"): models,
}
