"""Endpoints in OpenAI's form, so that any harness reaches the same checkpoints: completions, chat completions, models.

    POST /oai/api/v1/completions         {"model": "tinker://RUN/sampler_weights/NAME", "prompt": "...", "max_tokens": 60}

A model is the base (`crucible/tiny`), a `tinker://` path, or the bare name of sampler weights (the newest of that name). Chat
messages become a prompt as `embedded.chat` says: a single one is the prompt as it stands. Answers come in one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from pytest_crucible.embedded.chat import rendered
from pytest_crucible.embedded.sampling import PromptTooLong, Sampled, SamplingParams
from pytest_crucible.embedded.server import fields
from pytest_crucible.embedded.server.archive import SAMPLER, SCHEME
from pytest_crucible.embedded.server.fields import Body
from pytest_crucible.embedded.server.messages import (
    Json,
    Refusal,
    Request,
    Response,
    bad_request,
    json_response,
    not_found,
)
from pytest_crucible.embedded.server.replies import Weights, Wish
from pytest_crucible.embedded.server.sampling import sample
from pytest_crucible.embedded.server.state import BASE_MODEL, Endpoints, Service, seed_of
from pytest_crucible.embedded.tokens import Tokenizer

LOCAL = "local:"
MOST_CHOICES, MOST_TOP_LOGPROBS = 128, 20
_DEFAULT_MAX_TOKENS = 16
_UNSUPPORTED = (
    *("stream", "echo", "suffix", "tools", "functions", "logit_bias", "presence_penalty", "frequency_penalty"),
    *("response_format", "min_p", "repetition_penalty", "best_of"),
)
"""What would change the answer, and is not here: to be silent of it would be to pretend."""
_ORDINARY: dict[str, Json] = {"response_format": {"type": "text"}, "repetition_penalty": 1, "best_of": 1}
"""Of these, what is done anyway."""
_ERROR_TYPES = {
    HTTPStatus.UNAUTHORIZED: ("authentication_error", "invalid_api_key"),
    HTTPStatus.NOT_FOUND: ("invalid_request_error", "not_found"),
    HTTPStatus.TOO_MANY_REQUESTS: ("rate_limit_error", "rate_limit_exceeded"),
}


async def completions(service: Service, request: Request) -> Response:
    """Continue one prompt or several: texts or lists of token ids."""
    body = _checked(request)
    prompts = [_encoded(service, prompt) for prompt in _prompts(body.get("prompt"))]
    top = fields.optional_whole(body, "logprobs", most=MOST_TOP_LOGPROBS)
    wishes = [_wish(service, body, prompt, "max_tokens", _DEFAULT_MAX_TOKENS, top or 0) for prompt in prompts]
    replies = await _replies(service, body, wishes)
    choices: list[Json] = [
        {
            "index": index,
            "text": one.text,
            "logprobs": None if top is None else _completion_logprobs(service.engine.tokenizer, one),
            "finish_reason": one.stop_reason,
        }
        for index, one in enumerate(replies)
    ]
    return _response(service, "text_completion", "cmpl", body, choices, _usage(wishes, replies))


async def chat_completions(service: Service, request: Request) -> Response:
    """Answer a conversation."""
    body = _checked(request)
    prompt = _chat_prompt(service, body.get("messages"))
    top = fields.whole(body, "top_logprobs", 0, most=MOST_TOP_LOGPROBS)
    limit = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
    wish = _wish(service, body, prompt, limit, None, top)
    replies = await _replies(service, body, [wish])
    with_logprobs = fields.truth(body, "logprobs", False)
    choices: list[Json] = [
        {
            "index": index,
            "message": {"role": "assistant", "content": one.text, "refusal": None},
            "logprobs": _chat_logprobs(service.engine.tokenizer, one) if with_logprobs else None,
            "finish_reason": one.stop_reason,
        }
        for index, one in enumerate(replies)
    ]
    return _response(service, "chat.completion", "chatcmpl", body, choices, _usage([wish], replies))


def models(service: Service, request: Request) -> Response:
    """The base model and all sampler weights."""
    saved = [one for one in service.archive.all() if one.path.kind == SAMPLER]
    rows: list[Json] = [{"id": BASE_MODEL, "object": "model", "created": 0, "owned_by": "local"}]
    rows += [
        {"id": str(one.path), "object": "model", "created": int(one.about.created), "owned_by": "local"}
        for one in saved
    ]
    return json_response({"object": "list", "data": rows})


def error(refusal: Refusal) -> Json:
    """A refusal in OpenAI's form."""
    kind, code = _ERROR_TYPES.get(refusal.status, ("invalid_request_error", None))
    return {"error": {"message": refusal.sentence, "type": kind, "param": None, "code": refusal.code or code}}


def _completion_logprobs(tokenizer: Tokenizer, reply: Sampled) -> Json:
    """As /completions has them."""
    texts = [tokenizer.decode([token]) for token in reply.tokens]
    tops: list[Json] = [{tokenizer.decode([token]): logprob for token, logprob in row} for row in _tops(reply)]
    return {
        "tokens": texts,
        "token_logprobs": reply.logprobs,
        "top_logprobs": tops if reply.topk_tokens is not None else None,
        "text_offset": [sum(map(len, texts[:place])) for place in range(len(texts))],
    }


def _chat_logprobs(tokenizer: Tokenizer, reply: Sampled) -> Json:
    """As /chat/completions has them."""

    def told(token: int, logprob: float) -> dict[str, Json]:
        content = tokenizer.bytes_of([token])
        return {"token": content.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(content)}

    rows = zip(reply.tokens, reply.logprobs, _tops(reply), strict=True)
    content: list[Json] = [
        {**told(token, logprob), "top_logprobs": [told(*one) for one in top]} for token, logprob, top in rows
    ]
    return {"content": content, "refusal": None}


def _tops(reply: Sampled) -> list[list[tuple[int, float]]]:
    if reply.topk_tokens is None or reply.topk_logprobs is None:
        return [[] for _ in reply.tokens]
    pairs = zip(reply.topk_tokens.tolist(), reply.topk_logprobs.tolist(), strict=True)
    return [list(zip(tokens, logprobs, strict=True)) for tokens, logprobs in pairs]


def _checked(request: Request) -> Body:
    body = request.object()
    if asked := [name for name in _UNSUPPORTED if body.get(name) and body[name] != _ORDINARY.get(name)]:
        raise bad_request(f"{', '.join(asked)} is not supported here")
    return body


def _prompts(given: Json) -> list[Json]:
    """One prompt, or a list of them; a list of numbers is one."""
    if isinstance(given, list) and given and not isinstance(given[0], int):
        return given
    return [given]


def _encoded(service: Service, prompt: Json) -> list[int]:
    if isinstance(prompt, str):
        return service.engine.tokenizer.encode(prompt) or [service.engine.tokenizer.eos]
    return fields.whole_numbers(prompt, "prompt")


def _chat_prompt(service: Service, messages: Json) -> list[int]:
    try:
        return service.engine.tokenizer.encode(rendered(messages)) or [service.engine.tokenizer.eos]
    except TypeError as error:
        raise bad_request(f"messages cannot be read: {error}") from None


def _stops(body: Body) -> list[str]:
    stop = body.get("stop")
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(one, str) and one for one in stops):
        raise bad_request("stop must be a text or a list of texts")
    return [one for one in stops if isinstance(one, str)]


def _wish(service: Service, body: Body, prompt: list[int], limit: str, default: int | None, top: int) -> Wish:
    """Texts that end a reply come beside the end token; in Tinker's form they replace it."""
    params = SamplingParams(
        max_tokens=default if body.get(limit) is None else fields.whole(body, limit),
        seed=fields.whole(body, "seed", seed_of("openai", next(service.numbers)), least=-(2**63)),
        temperature=fields.number(body, "temperature", 1.0),
        top_k=fields.whole(body, "top_k", -1, least=-1),
        top_p=fields.number(body, "top_p", 1.0),
        stop=(*_stops(body), service.engine.tokenizer.eos),
        num_samples=fields.whole(body, "n", 1, least=1, most=MOST_CHOICES),
    )
    return Wish(prompt, params, top)


async def _replies(service: Service, body: Body, wishes: Sequence[Wish]) -> list[Sampled]:
    weights = _weights(service, fields.text(body, "model"))
    asked = [sample(service, weights, wish) for wish in wishes]
    try:
        return [reply for answer in await asyncio.gather(*asked) for reply in answer.replies]
    except PromptTooLong as error:
        most = f"this model's maximum context length is {service.engine.shape.context} tokens"
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{most}: {error}", "context_length_exceeded") from None
    finally:
        for one in asked:
            one.cancel()


def _weights(service: Service, model: str) -> Weights:
    if model in (BASE_MODEL, service.model_name):
        return Weights()
    if model.startswith(SCHEME):
        return service.weights_at(model)
    name = model.removeprefix(LOCAL)
    for one in service.archive.all():
        if (one.path.kind, one.path.name) == (SAMPLER, name):
            return service.weights_at(str(one.path))
    raise not_found(f"there is no model {model!r}: wanted {BASE_MODEL}, a tinker:// path, or a name of sampler weights")


def _usage(wishes: Sequence[Wish], replies: Sequence[Sampled]) -> Json:
    read, written = sum(len(wish.prompt) for wish in wishes), sum(len(one.tokens) for one in replies)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _response(service: Service, kind: str, prefix: str, body: Body, choices: list[Json], usage: Json) -> Response:
    return json_response(
        {
            "id": f"{prefix}-{next(service.numbers)}",
            "object": kind,
            "created": int(service.clock()),
            "model": fields.text(body, "model"),
            "choices": choices,
            "usage": usage,
        }
    )


ENDPOINTS: Endpoints = {
    ("POST", "/completions"): completions,
    ("POST", "/chat/completions"): chat_completions,
    ("GET", "/models"): models,
}
